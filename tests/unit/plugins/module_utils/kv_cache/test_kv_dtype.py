# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of the KV cache dtypes, by release and card."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.kv_dtype import kv_dtype, sparse_kv_dtype
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release


@pytest.mark.parametrize(
    ("dtype", "head", "latent"),
    [
        ("bfloat16", 512, 1152),
        ("fp8_e5m2", 256, 576),
        ("nvfp4", 2 * (64 + 8), None),
        ("fp8_per_token_head", 256 + 8, 576 + 8),
        ("int8_per_token_head", 256 + 8, 576 + 8),
        ("int4_per_token_head", 128 + 8, 288 + 8),
        ("fp8_ds_mla", None, 656),
        ("nvfp4_ds_mla", None, 352),
    ],
)
def test_bytes_of_dtypes(dtype: str, head: int | None, latent: int | None) -> None:
    resolved = kv_dtype(dtype, {})
    counts: list[tuple[int | None, Callable[[], int]]] = [
        (head, lambda: resolved.bytes_per_head(128, 128)),
        (latent, lambda: resolved.bytes_per_latent(576)),
    ]
    for expected, count in counts:
        if expected is None:
            with pytest.raises(ServingError, match="impossible here"):
                count()
        else:
            assert count() == expected


def test_dtypes_by_release_and_card() -> None:
    with pytest.raises(ServingError, match=r"from 0\.20"):
        kv_dtype("nvfp4", {}, parse_release("0.19.0"))
    assert kv_dtype("nvfp4", {}, parse_release("0.20.0")).name == "nvfp4"
    plain = kv_dtype("bfloat16", {})
    assert sparse_kv_dtype(plain, None, "9.0").name == "bfloat16"
    assert sparse_kv_dtype(plain, None, "12.0").name == "fp8_ds_mla"
    assert sparse_kv_dtype(kv_dtype("fp8", {}), "FLASHINFER_MLA_SPARSE", "10.0").name == "fp8"
    assert sparse_kv_dtype(kv_dtype("fp8", {}), None, "10.0").name == "fp8_ds_mla"
