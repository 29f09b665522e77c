# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault in front of a real server, examined by the whole battery: which check finds which fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, battery, probes
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import read_sections
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.readiness import Limits

from .behaviour import Fault, Setting
from .cache_books import CacheBooks
from .faults import FAULTS
from .proxy import Behaviour, Proxy, honest
from .server import Endpoint
from .upstream import Upstream

MARKS = {"pass": ".", "fail": "X", "inconclusive": "?", "not_run": "-"}
CLEAN = "no fault"
QUESTIONS = Path(__file__).parents[1] / "model" / "battery.yml"
# A text-only model has no eyes; everything else must be proven.
ALLOWED_NOT_RUN = ("vision",)


@dataclass
class Row:
    """One examination. marks: status by check. leaked: requests that the other origin saw."""

    fault: str
    state: str
    marks: dict[str, str]
    seconds: float
    report: battery.Report
    expected: frozenset[str] = frozenset()
    leaked: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def found_by(self) -> set[str]:
        """Checks that say that something is wrong; one that could not run says nothing."""
        return {name for name, status in self.marks.items() if status in ("fail", "inconclusive")}

    @property
    def is_found(self) -> bool:
        return self.state != "healthy" and self.expected <= self.found_by

    def escapes_without(self, check: str) -> bool:
        """Whether everything else would have been proven: then nobody would know of the fault without this check."""
        return check in self.found_by and all(
            status == "pass" or name == check or name in ALLOWED_NOT_RUN for name, status in self.marks.items()
        )


@dataclass
class Table:
    """rows: the run without a fault first."""

    seed: int
    names: Sequence[str]
    rows: list[Row]
    seconds: float = 0.0
    forwarded: int = 0
    remembered: int = 0

    @property
    def clean(self) -> Row:
        return next(row for row in self.rows if row.fault == CLEAN)

    @property
    def faulty(self) -> list[Row]:
        return [row for row in self.rows if row.fault != CLEAN]

    def only(self, check: str) -> list[str]:
        """The faults that escape when this check is taken away."""
        return [row.fault for row in self.faulty if row.escapes_without(check)]

    def __str__(self) -> str:
        width = max(len(row.fault) for row in self.rows)
        lines = [f"{'':{width}}  " + " ".join(f"{number:>2}" for number, _ in enumerate(self.names, 1))]
        for row in self.rows:
            marks = " ".join(f"{MARKS[row.marks[name]] if name in row.marks else ' ':>2}" for name in self.names)
            lines.append(f"{row.fault:{width}}  {marks}  {row.state}, {row.seconds:.1f} s")
        lines += [
            f"{number:>2} {name}: alone finds {', '.join(self.only(name)) or '-'}"
            for number, name in enumerate(self.names, 1)
        ]
        return "\n".join(
            [
                *lines,
                ". pass  X fail  ? inconclusive  - not run",
                f"seed {self.seed}, {self.seconds:.0f} s, {self.forwarded} requests to the real server, "
                f"{self.remembered} answers used again",
            ]
        )


def matrix(
    url: str,
    key: str | None,
    seed: int,
    questions: Mapping[str, Any] | None = None,
    *,
    faults: Sequence[Fault] = FAULTS,
    remember: bool = True,
    tell: Callable[[str], None] = lambda _line: None,
) -> Table:
    """The table of a real server at `url`; every text, place and threshold follows from the seed.

    Without questions it is asked those of the tiny Kimi. With `remember` the real server is asked the same once.
    """
    began = time.monotonic()
    questions = tiny_kimi() if questions is None else questions
    upstream = Upstream(url, key, remember=remember)
    rows = []
    with Endpoint().running() as elsewhere:
        for fault in (None, *faults):
            row = examine(upstream, key, seed, questions, fault, elsewhere)
            rows.append(row)
            tell(
                f"{row.fault}: {row.state} in {row.seconds:.1f} s, found by {', '.join(sorted(row.found_by)) or 'none'}"
            )
    names = [name for name in battery.NAMES if any(name in row.marks for row in rows)]
    return Table(seed, names, rows, time.monotonic() - began, upstream.forwarded, upstream.remembered)


def tiny_kimi() -> dict[str, Any]:
    """The questions of the tiny Kimi, by section."""
    return probes.load(yaml.safe_load(QUESTIONS.read_text(encoding="utf-8")))


def examine(
    upstream: Upstream,
    key: str | None,
    seed: int,
    questions: Mapping[str, Any],
    fault: Fault | None,
    elsewhere: Endpoint,
) -> Row:
    """One examination, through a proxy with this fault or none."""
    began = time.monotonic()
    limits = fault.sections if fault else {}
    sections = read_sections(
        {**questions, **{name: {**questions.get(name, {}), **new} for name, new in limits.items()}}
    )
    behaviour: Behaviour = honest
    if fault:
        slow_s = sections["latency"].max_ttft_s
        setting = Setting(f"{seed} {fault.name}", upstream, elsewhere.url, slow_s)
        behaviour = fault.make(setting)
    before = len(elsewhere.seen)
    with Proxy(upstream, CacheBooks(upstream, behaviour)).running() as proxy:
        context = Context(
            Client(address.parse(proxy.url), api_key=key),
            sections["exact_set"],
            sections,
            seed,
            request_timeout=fault.request_s if fault else 120.0,
            deadline=time.monotonic() + 600,
        )
        model, length = upstream.served()
        plan = battery.Plan(
            Limits(0, 0, 60, 0.2),
            model=model,
            expected_max_model_len=length,
            warmup_timeout=fault.warmup_s if fault else 120.0,
            allowed_not_run=ALLOWED_NOT_RUN,
        )
        report = battery.examine(context, plan)
    return Row(
        fault.name if fault else CLEAN,
        report.state,
        {check.name: check.status for check in report.checks},
        time.monotonic() - began,
        report,
        fault.finds if fault else frozenset(),
        len(elsewhere.seen) - before,
        proxy.errors,
    )
