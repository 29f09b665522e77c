# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulation.endpoint.unit import tell

RunModule = Callable[..., dict[str, Any]]

LOGS = Path(__file__).parents[2] / "data" / "engine_logs"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_running_service(run_module: RunModule, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = (LOGS / "h8_131072.log").read_text().partition("[shutdown]")[0]
    monkeypatch.setenv("VLLM_API_KEY", "sk-canary-0123456789")
    tell(host, log, MainPID=str(os.getpid()))
    result = run_module("vllm_service_info", {"unit": "kimi"})
    assert result["changed"] is False
    assert (result["unit"], result["exists"], result["active"]) == ("kimi.service", True, True)
    assert result["pid"] == os.getpid()
    assert result["start_time"] > 0
    assert result["command"] == Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0")
    assert result["stage"] == "listening"
    assert result["kv_cache"]["tokens"] == 35_716_928
    assert result["attention_backend"] == "TRITON_MLA"
    assert result["root_cause"] is None
    assert "canary" not in str(result)


def test_check_mode_says_the_same(run_module: RunModule, host: Path) -> None:
    tell(host, (LOGS / "big_toolong.log").read_text(), ActiveState="failed", Result="exit-code", ExecMainStatus="1")
    real = run_module("vllm_service_info", {"unit": "kimi", "port": 1})
    assert run_module("vllm_service_info", {"unit": "kimi", "port": 1}, check=True) == real
    assert real["stage"] == "dead"
    assert real["root_cause"]["class"] == "engine_error"
    assert real["root_cause"]["hint"] == "Lower max_model_len, or raise gpu_memory_utilization"


def test_absent_unit_is_no_failure(run_module: RunModule, host: Path) -> None:
    tell(host, LoadState="not-found", ActiveState="inactive", SubState="dead", InvocationID="", UnitFileState="")
    result = run_module("vllm_service_info", {"unit": "nowhere"})
    assert "failed" not in result
    assert (result["exists"], result["stage"], result["notes"]) == (False, "dead", [])


def test_host_without_systemd(run_module: RunModule, host: Path) -> None:
    tell(host)
    (host / "systemctl").write_text("#!/bin/sh\necho 'System has not been booted with systemd' >&2; exit 1\n")
    result = run_module("vllm_service_info", {"unit": "kimi"})
    assert result["failed"] is True
    assert "not been booted with systemd" in result["msg"]
