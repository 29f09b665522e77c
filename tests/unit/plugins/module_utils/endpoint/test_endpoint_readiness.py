# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import failure, readiness
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.readiness import Limits
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError


@dataclass
class Seen:
    moved: bool
    stage: str
    progress: str | None


class World:
    """A clock, an endpoint that serves from a certain second on, and a unit that loads shards until then."""

    def __init__(self, ready_at: float, *, stops_at: float | None = None, kind: str = failure.REFUSED) -> None:
        self.now = 0.0
        self.ready_at = ready_at
        self.stops_at = stops_at
        self.kind = kind
        self.dies_at: float | None = None
        self.shards = -1

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def get_json(self, path: str, *, timeout: float) -> dict[str, str]:
        if self.now < self.ready_at:
            raise EndpointError(self.kind, "Connection refused")
        return {"path": path}

    def look(self) -> Seen:
        if self.dies_at is not None and self.now >= self.dies_at:
            raise ServingError("the unit's process died")
        loading = self.now if self.stops_at is None else min(self.now, self.stops_at)
        before, self.shards = self.shards, int(loading // 20)
        return Seen(self.shards != before, "loading_weights", f"{self.shards}/119")

    def stalled(self, seen: Seen, seconds: float) -> ServingError:
        return ServingError("stalled", why=f"{seconds:.0f} s at {seen.progress}")

    def wait(self, limits: Limits, *, watched: bool = True) -> tuple[Any, list[dict[str, Any]]]:
        stages: list[dict[str, Any]] = []
        watch: Any = self if watched else None
        client: Any = self
        found = readiness.wait(client, "/v1/models", limits, watch, stages, clock=lambda: self.now, sleep=self.sleep)
        return found, stages


def test_progress_moves_the_deadline() -> None:
    world = World(2400)
    found, stages = world.wait(Limits(startup=900, stall=300, maximum=3600, poll=5))
    assert found == {"path": "/v1/models"}
    assert world.now == 2400
    assert stages == [{"stage": "loading_weights", "seconds": 0.0, "progress": "120/119"}]


def test_stall_ends_early_and_says_where() -> None:
    world = World(9e9, stops_at=57 * 20)
    with pytest.raises(ServingError, match="57/119"):
        world.wait(Limits(startup=900, stall=300, maximum=3600, poll=5))
    assert 57 * 20 + 300 <= world.now <= 57 * 20 + 330


def test_stall_before_the_startup_timeout_counts_too() -> None:
    world = World(9e9, stops_at=0)
    with pytest.raises(ServingError, match="stalled"):
        world.wait(Limits(startup=1800, stall=300, maximum=3600, poll=5))
    assert world.now <= 310


def test_maximum_is_hard() -> None:
    world = World(9e9)
    with pytest.raises(EndpointError, match="waited 3600 s"):
        world.wait(Limits(startup=900, stall=300, maximum=3600, poll=5))


def test_without_a_unit_the_startup_timeout_is_the_end() -> None:
    world = World(9e9)
    with pytest.raises(EndpointError, match="waited 60 s"):
        world.wait(Limits(startup=60, stall=300, maximum=3600, poll=5), watched=False)


def test_one_probe_without_a_wait() -> None:
    world = World(9e9)
    with pytest.raises(EndpointError, match="waited 0 s"):
        world.wait(Limits(startup=0, stall=300, maximum=3600, poll=5))
    assert world.now == 0


def test_death_ends_the_wait_at_once() -> None:
    world = World(9e9)
    world.dies_at = 42
    with pytest.raises(ServingError, match="died"):
        world.wait(Limits(startup=900, stall=300, maximum=3600, poll=5))
    assert world.now == 45


@pytest.mark.parametrize("kind", [failure.AUTH, failure.REDIRECT, failure.NOT_OPENAI, failure.TLS])
def test_what_waiting_cannot_heal_is_not_waited_for(kind: str) -> None:
    world = World(9e9, kind=kind)
    with pytest.raises(EndpointError):
        world.wait(Limits(startup=900, stall=300, maximum=3600, poll=5))
    assert world.now == 0


@pytest.mark.parametrize("kind", [failure.SERVER_ERROR, failure.TIMEOUT, failure.UNREACHABLE])
def test_what_may_heal_is_waited_for(kind: str) -> None:
    world = World(30, kind=kind)
    world.wait(Limits(startup=60, stall=0, maximum=3600, poll=5))
    assert world.now == 30
