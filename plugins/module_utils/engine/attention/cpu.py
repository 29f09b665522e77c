# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The attention backend of a CPU build of vLLM: its platform picks one and validates nothing."""

from __future__ import annotations

from ..source.decisions import TooManyWays
from ..source.names import MISSING
from ..source.values import Bound, Class, Raised, Record, Unknown, Unresolved
from .facts import selector_facts
from .selector import REGISTRY, Selector, Verdict
from .surroundings import PLATFORMS


def choose(selector: Selector, kv_cache_dtype: str) -> tuple[list[str], Verdict]:
    """The backends that CpuPlatform may pick (one, where the host's CPU does not matter), and the verdict on them."""
    selector.around.ask_for(kv_cache_dtype)
    try:
        ways = selector.explore(lambda: _picked(selector, kv_cache_dtype))
    except (Unresolved, TooManyWays) as error:
        return [], Verdict(None, unknown=(str(error.unknown),))
    refusals = [way.result for way in ways if isinstance(way.result, Raised)]
    if refusals:
        return [], Verdict(False, (str(refusals[0]),)) if len(refusals) == len(ways) else Verdict(None)
    names = list(dict.fromkeys(str(way.result) for way in ways))
    served = [_serves(selector, name, kv_cache_dtype) for name in names]
    told = tuple(dict.fromkeys(str(unknown) for way in ways for unknown in way.assumed))
    if all(answer is True for answer in served):
        return names, Verdict(True)
    if all(answer is False for answer in served):
        return names, Verdict(False, ("kv_cache_dtype not supported",))
    return names, Verdict(None, unknown=told or (f"supports_kv_cache_dtype of {', '.join(names)}",))


def _picked(selector: Selector, kv_cache_dtype: str) -> str | Raised:
    platform = selector.around.cls(*PLATFORMS["cpu"])
    place = platform.scope.place(platform.node)
    method = selector.reader.attribute(platform, "get_attn_backend_cls", place)
    if not isinstance(method, Bound):
        raise Unresolved(method if isinstance(method, Unknown) else Unknown("get_attn_backend_cls", place))
    config = Record("attn_selector_config", selector_facts(selector.question, kv_cache_dtype))
    try:
        path = selector.reader.call(method, [None, config], {}, place)
    except Raised as raised:
        if raised.stated:
            return raised
        raise Unresolved(Unknown(str(raised), place)) from raised
    return _name_of(selector, path, place)


def _name_of(selector: Selector, path: object, place: str) -> str:
    if not isinstance(path, str):
        raise Unresolved(path if isinstance(path, Unknown) else Unknown("the path of a backend", place))
    registry = selector.around.cls(*REGISTRY)
    for name in selector.registered():
        if selector.reader.lookup(registry.body, name) == path:
            return name
    raise Unresolved(Unknown(f"a backend with the path {path}", registry.scope.file))


def _serves(selector: Selector, name: str, kv_cache_dtype: str) -> bool | None:
    """The class's own word. The model's dtype is what auto stores, under another name."""
    asked = "auto" if kv_cache_dtype == selector.question.model.engine_dtype else kv_cache_dtype
    try:
        backend = selector.backend(name)
        if not isinstance(backend, Class):
            return None
        place = backend.scope.place(backend.node)
        method = selector.reader.class_attribute(backend, "supports_kv_cache_dtype", backend)
        ways = [] if method is MISSING else selector.explore(lambda: selector.reader.call(method, [asked], {}, place))
    except (Unresolved, Raised, TooManyWays):
        return None
    answers = {way.result for way in ways if isinstance(way.result, bool)}
    return answers.pop() if len(answers) == 1 and all(isinstance(way.result, bool) for way in ways) else None
