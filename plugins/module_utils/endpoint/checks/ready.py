# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""ready: the expected model is served at its expected length, and a first request is answered."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from .. import failure, metrics
from ..check import FAIL, INCONCLUSIVE, PASS, Check, Context, shorten, shown
from ..failure import EndpointError

MODELS_PATH = "/v1/models"
HEALTH_PATH = "/health"
_TRIES = 3
_HEALTH_TIMEOUT_S = 5.0
_LONGEST = 1 << 32  # tokens; a larger number is no length
_SHOWN_IDS, _ID_CHARACTERS = 20, 200


@dataclass(frozen=True)
class Served:
    """One entry of /v1/models."""

    model: str
    max_model_len: int | None


def served_models(payload: Any) -> list[Served]:
    """The entries of /v1/models; EndpointError when the answer has another shape."""
    entries = payload.get("data") if isinstance(payload, dict) else None
    if not isinstance(entries, list):
        raise EndpointError(failure.NOT_OPENAI, "/v1/models does not answer with a list of models")
    return [
        Served(str(entry["id"]), _length(entry.get("max_model_len")))
        for entry in entries
        if isinstance(entry, dict) and entry.get("id")
    ]


def _length(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LONGEST else None


def choose(served: list[Served], wanted: str | None) -> Served:
    """The wanted model, or the first one when none is named; EndpointError lists the ids otherwise."""
    for entry in served:
        if wanted in (None, entry.model):
            return entry
    ids = ", ".join(shorten(entry.model, _ID_CHARACTERS) for entry in served[:_SHOWN_IDS]) or "none"
    if len(served) > _SHOWN_IDS:
        ids += f" and {len(served) - _SHOWN_IDS:,} more"
    raise EndpointError(failure.WRONG_MODEL, f"{wanted or 'a model'} is not served; served ids: {ids}")


def run(context: Context, served: Served, *, expected_max_model_len: int | None, warmup_timeout: float) -> Check:
    """The first generation, with a deadline of its own, because kernels may be compiled for it.

    value and threshold: max_model_len as served and as expected. A timeout while the engine's token counter rises is a
    busy server, not a broken one: it is asked up to three times, and is inconclusive when it never finds the time.
    """
    context.model = served.model
    context.metrics |= {"served_model": served.model, "max_model_len": served.max_model_len}
    evidence: list[str] = []
    question = context.questions[0]
    before = metrics.read_work(context.client)
    for attempt in range(1, _TRIES + 1):
        started = time.monotonic()
        try:
            answer = context.ask("ready", question.messages, max_tokens=64, timeout=warmup_timeout)[-1]
            break
        except EndpointError as error:
            if error.kind != failure.TIMEOUT:
                raise
            after = metrics.read_work(context.client)
            if not _working(before, after):
                raise _hang(context, error, before, after) from error
            evidence.append(f"try {attempt}: busy, {error.message}, but the engine generates tokens for others")
            before = after
    else:
        return Check("ready", INCONCLUSIVE, "busy", None, evidence)
    context.metrics["first_request_s"] = round(time.monotonic() - started, 3)
    evidence.append(shown(answer))
    if not (answer.content.strip() or answer.reasoning.strip()):
        raise EndpointError(failure.NO_ANSWER, evidence[-1])
    status = PASS
    if expected_max_model_len is not None and served.max_model_len != expected_max_model_len:
        status = FAIL
        evidence.insert(0, f"max_model_len is {served.max_model_len}, expected {expected_max_model_len}")
    return Check("ready", status, served.max_model_len, expected_max_model_len, evidence)


def _hang(
    context: Context, error: EndpointError, before: metrics.Work | None, after: metrics.Work | None
) -> EndpointError:
    """The timeout, with what tells a hang from a slow start."""
    said = [f"warmup_timeout: {error.message}"]
    if before and after and before.generated is not None and before.generated == after.generated:
        said.append("no_progress: the engine generated no token meanwhile")
    try:
        context.client.get_text(HEALTH_PATH, timeout=context.timeout(_HEALTH_TIMEOUT_S))
        said.append(f"{HEALTH_PATH} says 200 all the same")
    except EndpointError:
        pass
    return EndpointError(failure.TIMEOUT, "; ".join(said))


def _working(before: metrics.Work | None, after: metrics.Work | None) -> bool:
    if before is None or after is None or before.generated is None or after.generated is None:
        return False
    return after.generated > before.generated
