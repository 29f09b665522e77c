# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint is whole, its declaration is adapted, and the published bytes are kept."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from testinfra.host import Host

MODEL = "/srv/models/nvidia/Kimi-K2.5-NVFP4"
STATE = f"{MODEL}/.cache/huggingface/blackwell.serving"
PUBLISHED = Path(__file__).resolve().parents[3] / "tests/simulation/model/checkpoint"


@pytest.mark.parametrize("path", sorted(path.name for path in PUBLISHED.glob("*.safetensors")))
def test_every_shard_has_the_published_bytes(host: Host, path: str) -> None:
    assert host.file(f"{MODEL}/{path}").sha256sum == hashlib.sha256((PUBLISHED / path).read_bytes()).hexdigest()


def test_the_files_no_longer_ask_for_a_quantized_kv_cache(host: Host) -> None:
    quantization = json.loads(host.file(f"{MODEL}/hf_quant_config.json").content_string)["quantization"]
    assert quantization["kv_cache_quant_algo"] is None
    published = json.loads((PUBLISHED / "hf_quant_config.json").read_text())["quantization"]
    assert published["kv_cache_quant_algo"] == "FP8"
    assert {**quantization, "kv_cache_quant_algo": "FP8"} == published


def test_the_published_bytes_are_kept(host: Host) -> None:
    patches = json.loads(host.file(f"{STATE}/patches.json").content_string)
    pristine = patches["hf_quant_config.json"]["pristine_sha256"]
    assert pristine == hashlib.sha256((PUBLISHED / "hf_quant_config.json").read_bytes()).hexdigest()
    assert host.file(f"{STATE}/pristine/{pristine}").sha256sum == pristine


def test_files_belong_to_root_and_everybody_may_read_them(host: Host) -> None:
    config = host.file(f"{MODEL}/config.json")
    assert (config.user, config.mode) == ("root", 0o644)


def test_the_hubs_own_tool_agrees(host: Host) -> None:
    """`hf cache verify` hashes every file against the Hub and names the patched one alone."""
    manifest = json.loads(host.file(f"{STATE}/manifest.json").content_string)
    verified = host.run(
        "env HF_ENDPOINT=http://127.0.0.1:18090 /opt/hub-client/bin/hf cache verify nvidia/Kimi-K2.5-NVFP4 "
        "--revision %s --local-dir %s --fail-on-missing-files --fail-on-extra-files",
        manifest["commit"],
        MODEL,
    )
    said = verified.stdout + verified.stderr
    assert "hf_quant_config.json" in said
    assert ".safetensors" not in said
