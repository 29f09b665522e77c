# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache file is believed only when it is wholly what was written for that very key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels import cache
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import Launch, Measured
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KEY: dict[str, object] = {"source_sha256": "ab" * 32, "triton": "3.7.1", "shape": {"head_size": 576}}
MEASURED = Measured((Launch("_stage1", 2, 4, 102_400), Launch("_stage2", 2, 4, 0)))

quickly = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=10), each, max_size=4),
    max_leaves=10,
)
launches = st.builds(
    Launch, st.text(), st.integers(0, 9), st.integers(0, 32), st.integers(min_value=0, max_value=1 << 40)
)
measurements = st.builds(Measured, st.lists(launches, min_size=1, max_size=4).map(tuple)) | st.builds(
    Measured, st.just(()), st.text()
)


def well_formed(found: Measured | None) -> bool:
    if found is None or (found.launches == () and isinstance(found.refused, str)):
        return True
    numbers = [(each.num_stages, each.num_warps, each.shared_memory_bytes) for each in found.launches]
    return found.refused is None and all(isinstance(number, int) and number >= 0 for row in numbers for number in row)


@quickly
@given(key=st.dictionaries(st.text(), st.none() | st.integers() | st.text()), measured=measurements)
def test_what_is_written_is_read(tmp_path: Path, key: dict[str, Any], measured: Measured) -> None:
    cache.write(tmp_path, key, measured)
    assert cache.read(tmp_path, key) == measured
    assert cache.read(tmp_path, {**key, "another": 1}) is None


@quickly
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception(tmp_path: Path, content: bytes) -> None:
    cache.path_of(tmp_path, KEY).write_bytes(content)
    assert cache.read(tmp_path, KEY) is None


@quickly
@given(content=json_values, field=st.sampled_from(["key", "launches", "refused", "more", ""]))
def test_any_json_is_read_without_an_exception(tmp_path: Path, content: object, field: str) -> None:
    cache.write(tmp_path, KEY, MEASURED)
    path = cache.path_of(tmp_path, KEY)
    whole = json.loads(path.read_bytes())
    path.write_text(json.dumps({**whole, field: content} if field else content))
    found = cache.read(tmp_path, KEY)
    assert well_formed(found)
    if field in ("more", "") or (field == "key" and content != KEY):
        assert found is None


@quickly
@given(cut=st.integers(0, 1000), flip=st.integers(0, 7))
def test_a_file_cut_short_or_with_another_bit_is_another_measurement_or_none(
    tmp_path: Path, cut: int, flip: int
) -> None:
    cache.write(tmp_path, KEY, MEASURED)
    path = cache.path_of(tmp_path, KEY)
    whole = path.read_bytes()
    path.write_bytes(whole[: min(cut, len(whole) - 2)])
    assert cache.read(tmp_path, KEY) is None
    at = cut % len(whole)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << flip)]) + whole[at + 1 :])
    assert well_formed(cache.read(tmp_path, KEY))


def test_a_file_of_another_key_in_the_place_of_this_one_is_not_believed(tmp_path: Path) -> None:
    other = {**KEY, "triton": "3.6.0"}
    cache.write(tmp_path, other, MEASURED)
    cache.path_of(tmp_path, other).rename(cache.path_of(tmp_path, KEY))
    assert cache.read(tmp_path, KEY) is None


def test_what_is_no_small_file_is_not_read(tmp_path: Path) -> None:
    path = cache.path_of(tmp_path, KEY)
    path.write_bytes(b" " * (cache.LARGEST_BYTES + 1))
    assert cache.read(tmp_path, KEY) is None
    path.unlink()
    path.mkdir()
    assert cache.read(tmp_path, KEY) is None
    path.rmdir()
    path.write_text("[" * 10_000)
    assert cache.read(tmp_path, KEY) is None


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write(tmp_path, KEY, MEASURED)

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        cache.write(tmp_path, KEY, Measured((Launch("_stage1", 1, 4, 1),)))
    assert cache.read(tmp_path, KEY) == MEASURED
    assert len(list(tmp_path.iterdir())) == 1
