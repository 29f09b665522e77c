# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The first real exception in a log of vLLM.

Every process that notices a failure prints its own traceback, so a dying engine leaves several: the worker's (the
cause), EngineCore's and the API server's, which only say "See root cause above". A deliberate stop leaves one too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from . import redact
from .log_lines import LogLine

_TRACEBACK = re.compile(r"^\s*Traceback \(most recent call last\):$")
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?$")
_NO_TRACEBACK = re.compile(
    r"^(?:\S+: error: .+|\S*python\S*: No module named .+|Fatal Python error: .+|terminate called after throwing .+"
    r"|.*(?:error while loading shared libraries: |Segfault encountered|Engine core proc \S+ died unexpectedly).*"
    r"|\S+: Failed (?:to execute|to locate executable|to load environment files|at step)\b.*)$"
)
_POINTS_ELSEWHERE = re.compile(
    r"See root cause above|[Ss]ee stack trace|stack trace above|EngineDeadError|EngineGenerateError"
    r"|WorkerProc initialization failed|^(?:KeyboardInterrupt|SystemExit|asyncio\.exceptions\.CancelledError)"
)
_STOP_ORDERED = re.compile(r"\[shutdown\].*(?:trigger received signal=|API server: shutdown triggered)")
_STARTED = re.compile(r"Application startup complete")
_ENGINE = re.compile(r"^(?:EngineCore|Worker|VllmWorker|DPCoordinator)")
_HARMLESS = ("DEBUG", "INFO", "WARNING")
_DETAIL_LINES = 4


@dataclass
class _Found:
    process: str
    text: str
    after_start: bool
    fatal: bool = False
    details: int = 0


def first_exception(lines: Iterable[LogLine]) -> str | None:
    """`ValueError: To serve at least one request ...`, or None when nothing failed.

    Tracebacks that were only logged as a warning, that only point at another one, or that follow a deliberate stop do
    not count. After start-up an exception of the API server is one request's failure; only the engine's is a cause.
    """
    candidates: list[_Found] = []
    open_tracebacks: dict[tuple[str, int], str] = {}
    latest: dict[tuple[str, int], _Found] = {}
    started = False
    for line in lines:
        if _STOP_ORDERED.search(line.text):
            break
        started = started or bool(_STARTED.search(line.text))
        key = line.process, line.pid
        if _TRACEBACK.match(line.text):
            open_tracebacks[key] = line.level
            latest.pop(key, None)
        elif open_tracebacks.get(key) == line.level:
            if line.text[:1].isspace() or not (match := _EXCEPTION.match(line.text)):
                continue
            del open_tracebacks[key]
            if line.level not in _HARMLESS:
                latest[key] = _Found(line.process, _named(match), started)
                candidates.append(latest[key])
        elif key in latest and line.text[:1].isspace() and latest[key].details < _DETAIL_LINES:
            # pydantic prints what is wrong below the name of the exception
            latest[key].text += f" {line.text.strip()}"
            latest[key].details += 1
        else:
            latest.pop(key, None)
            if _NO_TRACEBACK.match(line.text):
                candidates.append(_Found(line.process, line.text.strip(), started, fatal=True))
    return _choose(candidates)


def _named(match: re.Match[str]) -> str:
    """The exception as people search for it: without the path of its module."""
    name = match["type"].rpartition(".")[2]
    return f"{name}: {match['message']}" if match["message"] else name


def _choose(candidates: list[_Found]) -> str | None:
    pointing = [found for found in candidates if _POINTS_ELSEWHERE.search(found.text)]
    real = [found for found in candidates if found not in pointing]
    causes = [found for found in real if found.fatal or not found.after_start or _ENGINE.match(found.process)]
    # Releases without process names: what came first after start-up is the best there is.
    unnamed = [found for found in real if not found.process]
    chosen = next(iter([*causes, *pointing, *unnamed]), None)
    return redact.text(chosen.text) if chosen else None
