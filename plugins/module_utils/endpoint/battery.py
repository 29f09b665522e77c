# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The whole examination: wait, ask who is there, run the checks, give one verdict."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ServingError
from . import failure, readiness, verdict
from .check import FAIL, INCONCLUSIVE, NOT_RUN, Check, Context
from .checks import CHECKS, ready, section_of
from .failure import EndpointError
from .health_progress import HealthProgress

NAMES = ("ready", *CHECKS)
_LAST_WORDS_S = 1.0


@dataclass(frozen=True)
class Plan:
    """What to examine. owned_port: the port that the watched unit must own, or None when it cannot be told here."""

    limits: readiness.Limits
    model: str | None = None
    checks: Sequence[str] = NAMES
    expected_max_model_len: int | None = None
    warmup_timeout: float = 120.0
    allowed_not_run: Collection[str] = ()
    owned_port: int | None = None


@dataclass
class Report:
    """state: a rung of the ladder. problem: why it is not healthy, as one error, or None."""

    state: str
    checks: list[Check]
    metrics: dict[str, Any]
    answers: list[dict[str, Any]]
    stages: list[dict[str, Any]] = field(default_factory=list)
    problem: ServingError | None = None

    @property
    def failed_checks(self) -> list[str]:
        return [check.name for check in self.checks if check.status == FAIL]

    def as_result(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "checks": [check.as_result() for check in self.checks],
            "failed_checks": self.failed_checks,
            "metrics": self.metrics,
            "answers": self.answers,
            "stages": self.stages,
        }


def examine(
    context: Context,
    plan: Plan,
    watch: readiness.Watch | None = None,
    *,
    progress: HealthProgress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Examine the endpoint; failures of the endpoint are in the report, not raised."""
    progress = progress or HealthProgress()
    report = Report("no_response", [], context.metrics, context.answers)
    where = context.client.address.root
    began = time.monotonic()
    try:
        payload = readiness.wait(
            context.client,
            ready.MODELS_PATH,
            plan.limits,
            watch,
            report.stages,
            owned_port=plan.owned_port,
            tell=progress.waiting,
            sleep=sleep,
        )
        context.metrics["waited_s"] = round(time.monotonic() - began, 3)
        remark = watch.check_owner(plan.owned_port) if watch and plan.owned_port else None
        served = ready.choose(ready.served_models(payload), plan.model)
    except ServingError as error:
        report.state = _state_of_watch(error, report.stages)
        return _stop(report, plan, "ready", time.monotonic() - began, str(error), error)
    except EndpointError as error:
        report.state = verdict.state_before_generation(error, loading=_is_alive(watch))
        problem = ServingError(
            f"the endpoint is not usable ({report.state})",
            where=where,
            why=error.message,
            remedy=verdict.remedy(error),
        )
        return _stop(report, plan, "ready", time.monotonic() - began, str(error), problem)
    report.state = "listening"
    gone = _run_ready(report, context, plan, served, remark, progress) or _run_others(report, context, plan, progress)
    if gone is not None:
        _explain(report, where, gone, watch, sleep)
    else:
        report.state = verdict.state_of_checks(report.checks, plan.allowed_not_run)
        if report.state != "healthy":
            report.problem = _unhealthy(report, where, plan)
    return report


def serves_as_planned(context: Context, plan: Plan) -> bool:
    """False when another model or length is served; an endpoint that cannot tell is for `examine` to judge."""
    try:
        payload = context.client.get_json(ready.MODELS_PATH, timeout=context.timeout())
        served = ready.choose(ready.served_models(payload), plan.model)
    except EndpointError as error:
        return error.kind != failure.WRONG_MODEL
    return plan.expected_max_model_len in (None, served.max_model_len)


def _run_ready(
    report: Report,
    context: Context,
    plan: Plan,
    served: ready.Served,
    remark: str | None,
    progress: HealthProgress,
) -> EndpointError | None:
    began = time.monotonic()
    progress.begin("ready", 0, _total(plan))
    try:
        check = ready.run(
            context,
            served,
            expected_max_model_len=plan.expected_max_model_len,
            warmup_timeout=plan.warmup_timeout,
        )
    except EndpointError as error:
        report.state = verdict.state_of_generation(error)
        _stop(report, plan, "ready", time.monotonic() - began, str(error), None)
        return error
    check.seconds = time.monotonic() - began
    if remark:
        check.evidence.append(remark)
        check.status = INCONCLUSIVE if check.status != FAIL else FAIL
    report.checks.append(check)
    progress.end("ready", check.status)
    report.state = "generating"
    return None


def _run_others(report: Report, context: Context, plan: Plan, progress: HealthProgress) -> EndpointError | None:
    """Run the checks asked for; the error that ended the battery early, if one did."""
    for name in (name for name in CHECKS if name in plan.checks):
        progress.begin(name, len(report.checks), _total(plan))
        began = time.monotonic()
        try:
            check = _run_one(name, context)
        except EndpointError as error:
            report.state = "generation_failed"
            _stop(report, plan, name, time.monotonic() - began, str(error), None)
            return error
        check.seconds = time.monotonic() - began
        report.checks.append(check)
        progress.end(name, check.status)
    return None


def _run_one(name: str, context: Context) -> Check:
    """Raises EndpointError only when nobody is there any more."""
    if context.probes.get(section_of(name), ...) is None:
        return Check(name, NOT_RUN, evidence=[f"the section {section_of(name)} of the questions is null"])
    # Of its own, so that a check asks the same whichever others ran before it.
    context.rng = random.Random(f"{context.seed} {name}")  # noqa: S311 (texts, no secrets)
    try:
        return CHECKS[name](context)
    except EndpointError as error:
        if error.is_gone:
            raise
        return Check(name, NOT_RUN if error.kind == failure.TIME_IS_UP else FAIL, evidence=[str(error)])


def _total(plan: Plan) -> int:
    return sum(name in plan.checks or name == "ready" for name in NAMES)


def _stop(report: Report, plan: Plan, name: str, seconds: float, evidence: str, problem: ServingError | None) -> Report:
    """The check failed, and what would follow it has nothing to talk to."""
    report.checks.append(Check(name, FAIL, evidence=[evidence], seconds=seconds))
    done = {check.name for check in report.checks}
    report.checks += [
        Check(later, NOT_RUN, evidence=[f"not reached: {name} failed"])
        for later in NAMES
        if later in plan.checks and later not in done
    ]
    report.problem = problem
    return report


def _explain(
    report: Report,
    where: str,
    error: EndpointError,
    watch: readiness.Watch | None,
    sleep: Callable[[float], None],
) -> None:
    """Name the engine's own reason beside the failed request."""
    problem = ServingError(
        f"the endpoint does not generate ({report.state})",
        where=where,
        why=error.message,
        remedy=verdict.remedy(error),
    )
    if watch is not None:
        sleep(_LAST_WORDS_S)
        try:
            watch.check_alive()
            cause = watch.cause()
        except ServingError as death:
            problem = death
            cause = None
        if cause is not None:
            reason = cause.as_result()
            problem = ServingError(
                problem.what,
                where=where,
                why=f"{error.message}; the engine says: {reason['message']}",
                remedy=reason["hint"],
                facts={"root_cause": reason},
            )
    report.problem = problem


def _unhealthy(report: Report, where: str, plan: Plan) -> ServingError:
    bad = [
        c for c in report.checks if c.status != "pass" and not (c.status == NOT_RUN and c.name in plan.allowed_not_run)
    ]
    first = bad[0]
    why = ", ".join(f"{check.name} {check.status}" for check in bad)
    if first.evidence:
        why += f"; {first.name}: {failure.printable(first.evidence[0])}"
    return ServingError(
        f"the endpoint is {report.state}, not healthy",
        where=where,
        why=why,
        remedy="See checks and answers in the result",
    )


def _state_of_watch(error: ServingError, stages: list[dict[str, Any]]) -> str:
    if "listener_pid" in error.facts:
        return "wrong_model"
    return "no_response" if error.facts.get("stage") == "dead" or not stages else "loading"


def _is_alive(watch: readiness.Watch | None) -> bool:
    if watch is None:
        return False
    try:
        watch.check_alive()
    except ServingError:
        return False
    return True
