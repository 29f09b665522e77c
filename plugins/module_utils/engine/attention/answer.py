# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The answer to a question: for each backend its verdict, for each KV-cache dtype the backend that would serve it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import ServingError
from ..source.tree import SourceTree
from ..source.values import Raised, Unresolved
from . import cpu
from .declared import block_sizes, declared_dtypes, engine_dtypes
from .question import Question, check_sizes
from .selector import Selector, Verdict
from .surroundings import Surroundings

# Asked for where the engine's own list cannot be read.
COMMON_DTYPES = ("auto", "bfloat16", "fp8", "fp8_e4m3")


@dataclass
class BackendAnswer:
    """One backend: verdicts by KV-cache dtype, what its class declares (None: not told) and its kernels' blocks."""

    name: str
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    declared_kv_cache_dtypes: list[str] | None = None
    kernel_block_sizes: list[str] | None = None

    @property
    def valid(self) -> bool | None:
        """Whether it serves any of the dtypes that were asked for."""
        served = [verdict.serves for verdict in self.verdicts.values()]
        return True if True in served else (None if None in served else False)


@dataclass
class Answer:
    """What the installed engine says.

    backends: in the order in which vLLM tries them; selected: {KV-cache dtype: name, or None when none serves it}
    unanswered: {KV-cache dtype: what could not be told} where that leaves the selection open
    possible: {KV-cache dtype: names} where it is open which of these is selected, and certain that one of them runs
    """

    platform: str
    kv_cache_dtypes: list[str]
    backends: list[BackendAnswer] = field(default_factory=list)
    selected: dict[str, str | None] = field(default_factory=dict)
    unanswered: dict[str, list[str]] = field(default_factory=dict)
    possible: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def serving(self, kv_cache_dtype: str) -> list[str]:
        """The backend that serves the dtype; several where it is open which, and each would."""
        chosen = self.selected.get(kv_cache_dtype)
        return [chosen] if chosen is not None else self.possible.get(kv_cache_dtype, [])

    def backend(self, name: str) -> BackendAnswer:
        """The backend's answer, a new one when it is asked for first."""
        for each in self.backends:
            if each.name == name:
                return each
        self.backends.append(BackendAnswer(name))
        return self.backends[-1]


def ask(tree: SourceTree, question: Question, platform: str) -> Answer:
    """Ask the engine in the tree. platform: cuda or cpu.

    ServingError: parallel sizes that cannot be, or --attention-backend names a backend that this engine does not have.
    """
    check_sizes(question)
    selector = Selector(Surroundings(tree, question, platform))
    known = engine_dtypes(selector)
    answer = Answer(platform, list(question.kv_cache_dtypes or known or COMMON_DTYPES))
    if known is None:
        answer.notes.append("vllm/config/cache.py does not list the KV-cache dtypes in the known form (CacheDType)")
    _check_backend(selector)
    for dtype in answer.kv_cache_dtypes:
        if known is not None and dtype not in known:
            answer.selected[dtype] = None
            answer.notes.append(f"this engine does not know --kv-cache-dtype {dtype}; it knows {', '.join(known)}")
        elif platform == "cpu":
            _ask_cpu(selector, answer, dtype)
        else:
            _ask_cuda(selector, answer, dtype)
    _describe(selector, answer)
    answer.notes += selector.notes
    if tree.taken_as_installed:
        missing = ", ".join(sorted(tree.taken_as_installed))
        answer.notes.append(f"torch is not in this folder: what vLLM requires is taken as installed ({missing})")
    return answer


def _check_backend(selector: Selector) -> None:
    name = selector.question.attention_backend
    try:
        known = selector.registered()
    except Unresolved:
        return  # each verdict says so
    if name is not None and name not in known:
        raise ServingError(
            f"this vLLM has no attention backend {name}",
            where="attention_backend",
            remedy=f"Choose one of {', '.join(known)}",
        )


def _ask_cuda(selector: Selector, answer: Answer, dtype: str) -> None:
    forced = selector.question.attention_backend
    try:
        order = [forced] if forced is not None else selector.priorities(dtype)
    except Unresolved as error:
        answer.selected[dtype] = None
        answer.unanswered[dtype] = [f"the order of backends: {error.unknown}"]
        return
    verdicts = {name: selector.judge(name, dtype) for name in order}
    for name, verdict in verdicts.items():
        answer.backend(name).verdicts[dtype] = verdict
    _select(answer, dtype, verdicts)


def _select(answer: Answer, dtype: str, verdicts: dict[str, Verdict]) -> None:
    """vLLM takes the first backend that its selector accepts, whatever that one refuses later."""
    answer.selected[dtype] = None
    tried: list[str] = []
    told: list[str] = []
    for name, verdict in verdicts.items():
        if verdict.valid is False:
            continue
        tried.append(name)
        told += [f"{name}: {what}" for what in verdict.unknown]
        if verdict.valid is None:
            continue
        if verdict.later:
            answer.notes.append(f"{dtype}: vLLM would choose {name}, and then fail: {'; '.join(verdict.later)}")
        elif not told:
            answer.selected[dtype] = name
        elif verdict.serves and all(verdicts[before].would_run for before in tried[:-1]):
            answer.possible[dtype] = tried
        break
    if told:
        answer.unanswered[dtype] = told


def _ask_cpu(selector: Selector, answer: Answer, dtype: str) -> None:
    names, verdict = cpu.choose(selector, dtype)
    for name in names:
        answer.backend(name).verdicts[dtype] = verdict
    answer.selected[dtype] = names[0] if len(names) == 1 and verdict.valid else None
    if len(names) > 1 and verdict.valid:
        answer.possible[dtype] = names
    if not names and verdict.reasons:
        answer.notes.append(f"{dtype}: {'; '.join(verdict.reasons)}")
    if verdict.valid is None or (verdict.valid and len(names) > 1):
        answer.unanswered[dtype] = list(verdict.unknown) or [f"{' or '.join(names)}, by the host's CPU"]


def _describe(selector: Selector, answer: Answer) -> None:
    for each in answer.backends:
        try:
            backend = selector.backend(each.name)
            each.declared_kv_cache_dtypes = declared_dtypes(selector, backend)
            each.kernel_block_sizes = block_sizes(selector, backend)
        except (Unresolved, Raised):
            continue
