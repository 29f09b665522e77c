# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Waiting until an endpoint accepts requests, without waiting for the dead."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ServingError
from . import failure
from .client import Client
from .failure import EndpointError

_PROBE_TIMEOUT_S = 10.0
# While vLLM loads, its port is closed; a server in front of it may answer 5xx. Nothing else heals by waiting.
_MAY_HEAL = (failure.REFUSED, failure.UNREACHABLE, failure.TIMEOUT, failure.SERVER_ERROR)


class Seen(Protocol):
    """One observation of the service's start."""

    @property
    def moved(self) -> bool: ...
    @property
    def stage(self) -> str: ...
    @property
    def progress(self) -> str | None: ...


class Watch(Protocol):
    """Whoever knows the process behind the endpoint."""

    def look(self) -> Any:
        """A `Seen`; raises ServingError when the process died."""

    def stalled(self, seen: Any, seconds: float) -> ServingError:
        """The error for a start without progress."""

    def check_alive(self) -> Any:
        """Raises ServingError when the process died."""

    def check_owner(self, port: int) -> str | None:
        """Raises ServingError when another process listens on the port; a remark when that cannot be told."""

    def cause(self) -> Any:
        """The root cause in the process's log, with as_result(), or None."""


@dataclass(frozen=True)
class Limits:
    """Seconds. startup: how long to wait (0 = one probe). stall: how long without progress. maximum: in all."""

    startup: float
    stall: float
    maximum: float
    poll: float


def wait(
    client: Client,
    path: str,
    limits: Limits,
    watch: Watch | None,
    stages: list[dict[str, Any]],
    *,
    owned_port: int | None = None,
    tell: Callable[[str | None, str | None], None] = lambda stage, progress: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Any:
    """The JSON of `path` as soon as it is served; each new stage is added to `stages` as {stage, progress, seconds}.

    tell: told the stage and its progress at every look at the start

    With a watch the deadline moves on while the start makes progress, up to `maximum`; without progress for `stall`
    seconds it ends early. Raises EndpointError for an endpoint that does not (or will not) serve, and the watch's
    ServingError for a process that died or stalled.
    """
    started = moved_at = clock()
    while True:
        seen = watch.look() if watch and limits.startup > 0 else None
        now = clock()
        if seen is not None:
            moved_at = now if seen.moved else moved_at
            if not stages or stages[-1]["stage"] != seen.stage:
                stages.append({"stage": seen.stage, "seconds": round(now - started, 1)})
            stages[-1]["progress"] = seen.progress
            tell(seen.stage, seen.progress)
        try:
            return client.get_json(path, timeout=_PROBE_TIMEOUT_S)
        except EndpointError as error:
            if watch and owned_port and error.kind != failure.REFUSED:
                # somebody answers, so the port has an owner; waiting for a stranger is in vain
                watch.check_owner(owned_port)
            if error.kind not in _MAY_HEAL:
                raise
            unanswered = error
        waited = clock() - started
        if seen is not None and watch is not None and limits.stall > 0 and clock() - moved_at >= limits.stall:
            raise watch.stalled(seen, clock() - moved_at)
        extends = seen is not None and limits.stall > 0
        if waited + limits.poll > (limits.maximum if extends else min(limits.startup, limits.maximum)):
            raise EndpointError(
                unanswered.kind, f"{unanswered.message}; waited {waited:.0f} s", status=unanswered.status
            )
        sleep(limits.poll)
