# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Why a unit's process ended: systemd's verdict first, then the engine's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from .exceptions import first_exception
from .log_lines import LogLine
from .systemd import Unit

_TOO_QUICKLY = "Start request repeated too quickly"
_SIGNAL_CODES = (2, 3)  # CLD_KILLED, CLD_DUMPED
_EXEC_STATUS = {  # systemd.exec(5), "Process Exit Codes"
    200: "the working directory cannot be entered",
    203: "the program cannot be executed",
    209: "standard output cannot be set up",
    216: "the group does not exist",
    217: "the user does not exist",
    226: "the mount namespace cannot be set up",
    238: "the state directory cannot be set up",
    239: "the cache directory cannot be set up",
}
_HINTS = (
    (
        r"VLLM_ENGINE_READY_TIMEOUT_S",
        "The weights load slower than the limit allows; raise the load timeout, no crash happened",
    ),
    (
        r"KV cache is needed|No available memory for the cache blocks",
        "Lower max_model_len, or raise gpu_memory_utilization",
    ),
    (
        r"Free memory on device",
        "Another process holds the cards, or an earlier engine has not given its memory back yet",
    ),
    (r"out of memory", "Lower gpu_memory_utilization, max_num_seqs or max_model_len"),
    (r"unrecognized arguments", "The installed vLLM does not know the flag; remove it from vllm_service_extra_args"),
    (r"[Aa]ddress already in use", "Another process owns the port"),
    (r"No module named", "The environment is incomplete; run the role vllm_install again"),
    (r"shared libraries", "A library of the operating system is missing"),
    (
        r"[Nn]o valid attention backend|kv_cache_dtype",
        "No backend serves this KV-cache dtype on this card; set kimi_model_kv_cache: model_dtype",
    ),
    (r"Float8_e4m3fn", "No kernel serves the declared FP8 KV cache; set kimi_model_kv_cache: model_dtype"),
    (r"NCCL|nccl", "Check peer-to-peer access between the cards, IOMMU and the NCCL_* settings"),
    (r"No space left on device", "A file system or /dev/shm is full"),
    (r"EnvironmentFile|environment files", "The unit names an EnvironmentFile that is missing"),
)


@dataclass(frozen=True)
class RootCause:
    """kind: host_oom, start_timeout, restart_limit, exec_failed, engine_ready_timeout or engine_error."""

    kind: str
    message: str
    hint: str | None

    def as_result(self) -> dict[str, str | None]:
        """{class, message, hint}, as the modules return it."""
        values = asdict(self)
        return {"class": values["kind"], "message": values["message"], "hint": values["hint"]}


def root_cause(unit: Unit, lines: Sequence[LogLine]) -> RootCause | None:
    """Classify the end of an invocation; None while nothing is wrong, or after an ordinary stop.

    `lines` is the log of the invocation in question. A live unit has a cause only when its engine raised one.
    """
    exception = first_exception(lines)
    said = f": {exception}" if exception else ""
    ended = f"the process ended with {_ending(unit)}"
    if not unit.alive:
        if unit.result == "oom-kill":
            return RootCause(
                "host_oom",
                f"the kernel's out-of-memory killer ended the process{said}",
                "The host's RAM ran out: look at other users of memory and at leftovers in /dev/shm",
            )
        # After automatic restarts systemd keeps the last run's Result and says so only in the journal.
        if unit.result == "start-limit-hit" or any(_TOO_QUICKLY in line.text for line in lines):
            return RootCause(
                "restart_limit",
                f"systemd gave up after too many restarts{said}",
                _hint(exception) or "See the log of the last invocation, then `systemctl reset-failed`",
            )
        if unit.result == "timeout":
            return RootCause(
                "start_timeout",
                f"systemd's time limit ended the process{said}",
                _hint(exception) or "Raise TimeoutStartSec or TimeoutStopSec of the unit",
            )
        if unit.result == "resources":
            return RootCause(
                "exec_failed",
                f"systemd could not set the process up{said}",
                _hint(exception) or "Often an EnvironmentFile that is missing; see `systemctl status`",
            )
        if unit.result == "exit-code" and unit.exec_main_status in _EXEC_STATUS:
            return RootCause(
                "exec_failed",
                f"{_EXEC_STATUS[unit.exec_main_status]} (status {unit.exec_main_status}){said}",
                "See ExecStart=, User= and the directories of the unit",
            )
    if exception:
        kind = "engine_ready_timeout" if "VLLM_ENGINE_READY_TIMEOUT_S" in exception else "engine_error"
        return RootCause(kind, exception, _hint(exception))
    if not unit.alive and unit.result not in ("success", ""):
        return RootCause("engine_error", f"{ended}; its log names no exception", None)
    return None


def _ending(unit: Unit) -> str:
    how = "signal" if unit.exec_main_code in _SIGNAL_CODES or unit.result in ("signal", "core-dump") else "status"
    return f"{how} {unit.exec_main_status} (Result={unit.result})"


def _hint(message: str | None) -> str | None:
    for pattern, hint in _HINTS:
        if message and re.search(pattern, message):
            return hint
    return None
