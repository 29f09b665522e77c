# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The baseline of a deployment: the fingerprint of the engine that was first proven, and what was compared with it.

It stands while checkpoint, model and questions are the same, and every later engine is compared with it, not with the
one before, so that small differences do not add up unseen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ServingError
from . import comparison
from .comparison import Limits
from .fingerprint import Fingerprint, Observation

VERSION = 1
NEW, ACCEPTED = "new", "accepted"
_KEPT = 20
_FIELDS = {"tokens", "logprobs", "top", "prompt", "finish_reason"}


@dataclass(frozen=True)
class Subject:
    """What is deployed. engine: whatever may change the numbers; question: whatever else an answer depends on."""

    checkpoint: str
    engine: Mapping[str, Any]
    question: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The file's content after the task (the same value when nothing changes), and what there is to say.

    verdict: new, equal, close, different or accepted; None where it is not known, in check mode
    """

    content: dict[str, Any]
    verdict: str | None
    reason: str
    comparison: dict[str, Any] | None


def load(path: Path) -> dict[str, Any] | None:
    """The baseline in the file, None when there is none; ServingError for a file that is no baseline."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"no JSON, {error}") from error
    if not isinstance(content, dict) or content.get("schema_version") != VERSION:
        raise _unusable(path, f"its schema_version is not {VERSION}")
    answers, compared = content.get("answers"), content.get("compared")
    if not isinstance(answers, list) or not answers or not all(_is_answer(one) for one in answers):
        raise _unusable(path, "it holds no answers to compare with")
    if not isinstance(compared, list) or not all(_is_comparison(one) for one in compared):
        raise _unusable(path, "what was compared with it cannot be read")
    if not _is_number(content.get("tokens_per_s")) or content["tokens_per_s"] <= 0:
        raise _unusable(path, "it holds no tokens_per_s")
    if missing := [name for name in ("at", "checkpoint", "engine", "question") if name not in content]:
        raise _unusable(path, f"it holds no {missing[0]}")
    return content


def _is_answer(one: Any) -> bool:
    if not isinstance(one, dict) or set(one) != _FIELDS:
        return False
    lists = [one["tokens"], one["logprobs"], one["top"]]
    if not all(isinstance(held, list) for held in lists) or len({len(held) for held in lists}) != 1:
        return False
    tops = all(isinstance(top, dict) and all(map(_is_number, top.values())) for top in one["top"])
    return tops and isinstance(one["prompt"], str) and all(map(_is_number, one["logprobs"]))


def _is_comparison(one: Any) -> bool:
    return isinstance(one, dict) and "engine" in one and isinstance(one.get("comparison"), dict)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def text_of(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def known(content: dict[str, Any] | None, subject: Subject) -> Outcome | None:
    """What was found before for this very engine, so that nothing needs to be asked; None when it must be asked."""
    if content is None or renewal(content, subject):
        return None
    if content["engine"] == subject.engine:
        return Outcome(content, comparison.EQUAL, "this engine gave the baseline", None)
    for entry in content["compared"]:
        if entry["engine"] == subject.engine:
            found = entry["comparison"]
            return Outcome(content, found["verdict"], "this engine was compared before", found)
    return None


def renewal(content: dict[str, Any], subject: Subject) -> str | None:
    """Why answers cannot be compared with this baseline, or None when they can."""
    for name, word in (("checkpoint", "another checkpoint"), ("question", "other questions")):
        if content.get(name) != getattr(subject, name):
            return f"the baseline is of {word}"
    return None


def judge(
    content: dict[str, Any] | None,
    subject: Subject,
    limits: Limits,
    observe: Callable[[], Observation],
    *,
    at: str,
    accept: bool = False,
) -> Outcome:
    """Ask the endpoint, and compare its answers with the baseline, or make them the baseline where there is none."""
    observed = observe()
    reason = "there was no baseline" if content is None else renewal(content, subject)
    if content is None or reason:
        return Outcome(_baseline(subject, observed, at), NEW, reason or "", None)
    before = [Fingerprint(**answer) for answer in content["answers"]]
    found = comparison.compare(before, content["tokens_per_s"], observed, limits)
    if found["verdict"] == comparison.DIFFERENT:
        why = "; ".join(found["exceeded"])
        if not accept:
            return Outcome(content, comparison.DIFFERENT, why, found)
        return Outcome(_baseline(subject, observed, at), ACCEPTED, f"accepted although {why}", found)
    entry = {"at": at, "engine": dict(subject.engine), "comparison": found}
    others = [one for one in content["compared"] if one["engine"] != subject.engine]
    return Outcome({**content, "compared": [*others, entry][-_KEPT:]}, found["verdict"], "within the limits", found)


def _baseline(subject: Subject, observed: Observation, at: str) -> dict[str, Any]:
    return {
        "schema_version": VERSION,
        "at": at,
        "checkpoint": subject.checkpoint,
        "engine": dict(subject.engine),
        "question": dict(subject.question),
        "tokens_per_s": observed.tokens_per_s,
        "answers": [answer.as_data() for answer in observed.answers],
        "compared": [],
    }


def _unusable(path: Path, why: str) -> ServingError:
    return ServingError(
        "the baseline is not usable",
        where=str(path),
        why=why,
        remedy="It is left as it is: restore it from a backup, or remove it with state absent, and make a new one",
    )
