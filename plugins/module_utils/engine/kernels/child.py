# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Ask the engine's python: which triton and torch it has, and what the decode kernels need."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import program
from .decode_call import FUNCTION, DecodeCall
from .terms import KernelShape, Launch, Measured, Target, UnknownError

Runner = Callable[[list[str]], tuple[int, str, str]]

VERSIONS_SECONDS = 30
COMPILE_SECONDS = 120
KILL_AFTER_SECONDS = 5
# triton's frontend on a type that the target's instructions lack (float8 e4m3 before 8.9): a fact, not a defect.
REFUSAL = "not supported in this architecture"


@dataclass(frozen=True)
class Versions:
    """What the interpreter has; None where it cannot be imported, "" where nothing tells which version it is."""

    triton: str | None
    torch: str | None


def program_text() -> str:
    """The text of program.py, also from inside the archive that a module runs from."""
    return inspect.getsource(program)


def versions_of(python: str, run: Runner) -> Versions:
    """The versions of triton and torch in that interpreter's environment; UnknownError when it does not answer."""
    answers, ended = _ask(python, {"ask": "versions"}, run, VERSIONS_SECONDS)
    if ended or not answers:
        raise UnknownError(f"{python} does not say which triton it has: {ended or 'no answer'}")
    triton, torch = (answers[0].get(name) for name in ("triton", "torch"))
    return Versions(triton if isinstance(triton, str) else None, torch if isinstance(torch, str) else None)


def measure(
    python: str, file: Path, call: DecodeCall, shape: KernelShape, target: Target, kv_dtypes: Sequence[str], run: Runner
) -> dict[str, Measured | str]:
    """{torch dtype of the cache: what was measured, or why it is not known}; one process, 120 s for all."""
    with tempfile.TemporaryDirectory(prefix="kernel-fit-") as scratch:
        question = {
            "ask": "compile",
            "scratch": scratch,
            "file": str(file),
            "function": FUNCTION,
            "literals": call.literals,
            "made_up": call.made_up,
            "shape": asdict(shape),
            "target": [target.major, target.minor, target.limit_bytes],
            "kv_dtypes": list(kv_dtypes),
        }
        answers, ended = _ask(python, question, run, COMPILE_SECONDS)
    measured: dict[str, Measured | str] = dict.fromkeys(kv_dtypes, f"the compilation {ended or 'gave no answer'}")
    for answer in answers:
        if answer.get("kv_dtype") in measured:
            measured[answer["kv_dtype"]] = _measured(answer)
    return measured


def parse_launches(found: object) -> tuple[Launch, ...] | None:
    """The launches of an answer or a cache file; None when it is anything else than a non-empty list of them."""
    if not isinstance(found, list) or not found:
        return None
    launches = []
    for each in found:
        if not isinstance(each, dict) or set(each) != set(Launch.__dataclass_fields__):
            return None
        numbers = [each[name] for name in ("num_stages", "num_warps", "shared_memory_bytes")]
        if not isinstance(each["kernel"], str) or not all(_is_size(number) for number in numbers):
            return None
        launches.append(Launch(**each))
    return tuple(launches)


def _measured(answer: dict[str, Any]) -> Measured | str:
    error = answer.get("error")
    if isinstance(error, str):
        return Measured((), refused=error) if REFUSAL in error else f"the decode step of that source raises {error}"
    launches = parse_launches(answer.get("launches"))
    return Measured(launches) if launches else "the decode step of that source launches no triton kernel"


def _ask(python: str, question: dict[str, Any], run: Runner, seconds: int) -> tuple[list[dict[str, Any]], str | None]:
    """(the answers, how the process ended where that was not well). -I, -B: nothing of its user, nothing written."""
    with tempfile.TemporaryDirectory(prefix="kernel-fit-") as folder:
        text = Path(folder, "program.py")
        text.write_text(program_text(), encoding="utf-8")
        bound = ["timeout", f"--kill-after={KILL_AFTER_SECONDS}", str(seconds)]
        code, out, err = run([*bound, python, "-I", "-B", str(text), json.dumps(question)])
    return _objects(out), _ending(code, err, seconds)


def _objects(out: str) -> list[dict[str, Any]]:
    found = []
    for line in out.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _ending(code: int, err: str, seconds: int) -> str | None:
    if code == 0:
        return None
    if code == 124:
        return f"was not done within {seconds} s and was ended"
    if code < 0 or code > 128:
        return f"was killed by signal {-code if code < 0 else code - 128}"
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return f"ended with exit status {code}: {lines[-1][:500] if lines else 'no error message'}"


def _is_size(value: object) -> bool:
    """A whole number, which true is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
