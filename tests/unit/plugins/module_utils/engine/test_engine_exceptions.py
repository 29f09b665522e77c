# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.exceptions import first_exception
from ansible_collections.blackwell.serving.plugins.module_utils.engine.log_lines import split
from ansible_collections.blackwell.serving.plugins.module_utils.engine.root_cause import root_cause
from ansible_collections.blackwell.serving.plugins.module_utils.engine.systemd import Unit

LOGS = Path(__file__).parents[3] / "data" / "engine_logs"


def traceback(process: str, error: str, level: str = "ERROR") -> str:
    head = f"({process} pid=7) {level} 11-29 16:03:00 [core.py:1231] "
    return "\n".join(
        head + part for part in ("Traceback (most recent call last):", '  File "x.py", line 1, in f', error)
    )


def unit(**changed: object) -> Unit:
    values: dict[str, object] = {
        "name": "kimi.service",
        "load_state": "loaded",
        "active_state": "failed",
        "sub_state": "failed",
        "result": "exit-code",
        "invocation_id": "a",
        "restarts": 0,
        "main_pid": 0,
        "need_daemon_reload": False,
        "exec_main_code": 1,
        "exec_main_status": 1,
        "started_at": None,
        "fragment_path": "",
        "unit_file_state": "enabled",
    }
    return Unit(**{**values, **changed})  # type: ignore[arg-type]


def test_real_refusal_names_its_reason_not_the_pointer_to_it() -> None:
    found = first_exception(split((LOGS / "big_toolong.log").read_text()))
    assert found is not None
    assert found.startswith("ValueError: To serve at least one request with the model's max seq len (262144)")


def test_real_death_at_the_first_request_names_the_reason_of_the_worker() -> None:
    found = first_exception(split((LOGS / "cpu_fp8_kv.log").read_text()))
    assert found == "RuntimeError: expected scalar type BFloat16 but found Float8_e4m3fn"


def test_real_death_on_a_card_names_the_kernel_that_is_missing() -> None:
    found = first_exception(split((LOGS / "fa3_heads.log").read_text()))
    assert found is not None
    assert found.startswith("RuntimeError: If V headdim is different from Q/K dim, we only support")


@pytest.mark.parametrize("log", ["cpu_tiny", "tiny_TRITON_MLA", "big_fp8", "big_eager", "h8_131072"])
def test_a_deliberate_stop_is_no_failure(log: str) -> None:
    assert first_exception(split((LOGS / f"{log}.log").read_text())) is None


def test_worker_comes_before_those_who_only_noticed() -> None:
    text = "\n".join(
        [
            traceback("Worker_TP3", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
            traceback(
                "EngineCore", "Exception: WorkerProc initialization failed due to an exception in a background process."
            ),
            traceback(
                "APIServer",
                "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            ),
        ]
    )
    assert first_exception(split(text)) == "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_a_failed_request_is_no_cause_but_a_later_engine_failure_is() -> None:
    started = "(APIServer pid=1) INFO:     Application startup complete.\n"
    request = traceback("APIServer", "jinja2.exceptions.TemplateError: no user message")
    engine = traceback("EngineCore", "RuntimeError: expected scalar type BFloat16 but found Float8_e4m3fn")
    dead = traceback("APIServer", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.")
    assert first_exception(split(f"{started}{request}")) is None
    assert first_exception(split(f"{started}{request}\n{engine}\n{dead}")) == (
        "RuntimeError: expected scalar type BFloat16 but found Float8_e4m3fn"
    )
    assert first_exception(split(f"{started}{dead}")) == "EngineDeadError: EngineCore encountered an issue."


def test_warnings_do_not_count_and_interleaved_processes_are_kept_apart() -> None:
    quiet = traceback("EngineCore", "ImportError: optional kernel", "WARNING")
    one, two = (
        traceback("Worker_TP0", "ValueError: zero").splitlines(),
        traceback("Worker_TP1", "KeyError: one").splitlines(),
    )
    two = [line.replace("pid=7", "pid=8") for line in two]
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    assert first_exception(split(quiet)) is None
    assert first_exception(split("\n".join(mixed))) == "ValueError: zero"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "usage: api_server.py [-h]\napi_server.py: error: unrecognized arguments: --disable-log-requests",
            "unrecognized",
        ),
        ("/opt/vllm/bin/python: No module named vllm", "No module named vllm"),
        ("python3: error while loading shared libraries: libnuma.so.1: cannot open shared object file", "libnuma"),
        ("Fatal Python error: Segmentation fault", "Segmentation fault"),
        ("kimi.service: Failed to load environment files: No such file or directory", "environment files"),
        ("kimi.service: Failed to locate executable /opt/x: No such file or directory", "Failed to locate executable"),
        (
            'Traceback (most recent call last):\n  File "a.py"\n'
            "pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, bad length",
            "ValidationError: 1 validation error for ModelConfig Value error, bad length",
        ),
        (
            "Traceback (most recent call last):\n  File\nOSError: non-default args {'api_key': ['sk-test-AAAABBBB']}",
            "********",
        ),
    ],
)
def test_other_last_words(text: str, expected: str) -> None:
    found = first_exception(split(text))
    assert found is not None
    assert expected in found
    assert "sk-test" not in found


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"result": "oom-kill", "exec_main_status": 9, "exec_main_code": 2}, "host_oom"),
        ({"result": "timeout"}, "start_timeout"),
        ({"result": "start-limit-hit"}, "restart_limit"),
        ({"result": "exit-code", "exec_main_status": 1}, "engine_error"),
        ({"result": "exit-code", "exec_main_status": 203}, "exec_failed"),
        ({"result": "resources"}, "exec_failed"),
        ({"result": "signal", "exec_main_status": 9, "exec_main_code": 2}, "engine_error"),
    ],
)
def test_verdicts_of_systemd(changed: dict[str, object], kind: str) -> None:
    cause = root_cause(unit(**changed), [])
    assert cause is not None
    assert cause.kind == kind


def test_engine_that_dies_after_start_ends_with_status_zero() -> None:
    lines = split(traceback("EngineCore", "RuntimeError: expected scalar type BFloat16 but found Float8_e4m3fn"))
    cause = root_cause(unit(active_state="inactive", sub_state="dead", result="success", exec_main_status=0), lines)
    assert cause is not None
    assert cause.as_result() == {
        "class": "engine_error",
        "message": "RuntimeError: expected scalar type BFloat16 but found Float8_e4m3fn",
        "hint": "No kernel serves the declared FP8 KV cache; set kimi_model_kv_cache: model_dtype",
    }


def test_slow_load_is_not_called_a_crash() -> None:
    error = "TimeoutError: Timed out waiting for engine core processes. (configured by VLLM_ENGINE_READY_TIMEOUT_S)"
    cause = root_cause(unit(), split(traceback("APIServer", error)))
    assert cause is not None
    assert cause.kind == "engine_ready_timeout"


def test_gave_up_still_names_the_engines_reason() -> None:
    cause = root_cause(unit(result="start-limit-hit"), split((LOGS / "big_toolong.log").read_text()))
    assert cause is not None
    assert "too many restarts: ValueError: To serve at least one request" in cause.message
    assert cause.hint == "Lower max_model_len, or raise gpu_memory_utilization"


def test_systemd_keeps_the_last_result_when_it_gives_up_after_automatic_restarts() -> None:
    text = "kimi.service: Start request repeated too quickly.\nkimi.service: Failed with result 'exit-code'."
    cause = root_cause(unit(result="exit-code", restarts=2), split(text))
    assert cause is not None
    assert cause.kind == "restart_limit"


def test_ordinary_stop_and_healthy_unit_have_no_cause() -> None:
    assert root_cause(unit(active_state="inactive", result="success", exec_main_status=0), []) is None
    assert root_cause(unit(active_state="active", sub_state="running", result="success"), []) is None
