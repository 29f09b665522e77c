# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""vLLM's own choice of an attention backend on CUDA, followed in its sources.

The order comes from _get_backend_priorities (platforms/cuda.py). Whether a backend may be chosen is the answer of its
validate_configuration (v1/attention/backend.py). What the chosen one refuses later comes from its implementation's
constructor and from the check of context parallelism (v1/worker/cp_utils.py): these do not make vLLM choose another
backend, they end the engine.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .decisions import TooManyWays, Way
from .names import MISSING
from .surroundings import Surroundings
from .values import (
    Bound,
    Class,
    External,
    Function,
    Instance,
    Member,
    Native,
    Raised,
    Record,
    Unknown,
    Unresolved,
    Value,
)

REGISTRY = ("vllm.v1.attention.backends.registry", "AttentionBackendEnum")
BACKENDS = "vllm.v1.attention.backends."
PRIORITIES = ("vllm.platforms.cuda", "_get_backend_priorities")
BACKEND = "vllm.v1.attention.backend"
CONTEXT_PARALLEL = ("vllm.v1.worker.cp_utils", "check_attention_cp_compatibility")
# What an MLA layer hands to its implementation beside sizes (MLAAttention.__init__).
UNSEEN_MLA_ARGUMENTS = (
    "kv_b_proj",
    "indexer",
    "topk_indices_buffer",
    "q_pad_num_heads",
    "prefill_backend",
    "q_lora_rank",
)
MLA_LAYER = "vllm.model_executor.layers.attention.mla_attention"


@dataclass(frozen=True)
class Verdict:
    """What vLLM says about one backend and one KV-cache dtype.

    valid:   whether the selector accepts it; None when the source does not tell
    reasons: the selector's, in its own words
    later:   what would end the engine after the selector had accepted it
    unknown: what could not be told, each with file and line
    would_run: of an open verdict, whether nothing is known that would end the engine if the selector accepted it
    """

    valid: bool | None
    reasons: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    would_run: bool = False

    @property
    def serves(self) -> bool | None:
        """Whether the engine would run with it; None when that is not certain."""
        if self.later:
            return False
        return None if self.valid and self.unknown else self.valid


class Selector:
    """Asks one installation about one question."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings
        self.question = surroundings.question
        self.reader = surroundings.interpreter
        self.notes: list[str] = []
        self._imported: set[str] = set()

    def priorities(self, kv_cache_dtype: str) -> list[str]:
        """Names of the backends that vLLM tries, first to last; Unresolved when that cannot be told."""
        function = self.around.value(*PRIORITIES)
        if not isinstance(function, Function):
            raise Unresolved(function if isinstance(function, Unknown) else Unknown(PRIORITIES[1], "platforms/cuda.py"))
        keywords = self._keywords(function, self.facts(kv_cache_dtype))
        place = function.scope.place(function.node)
        ways = self.explore(lambda: _names(self.reader.call(function, [], keywords, place), place))
        if any(way.result != ways[0].result for way in ways):
            raise Unresolved(Unknown(f"{PRIORITIES[1]}: {_told(ways)[0]}", place))
        return list(ways[0].result)

    def registered(self) -> list[str]:
        """All backends that this vLLM has a class for."""
        registry = self.around.cls(*REGISTRY)
        values = {name: self.reader.lookup(registry.body, name) for name in registry.body.names() if name.isupper()}
        return [name for name, value in values.items() if isinstance(value, str) and value]

    def judge(self, name: str, kv_cache_dtype: str) -> Verdict:
        """The selector's verdict, and of an accepted backend what it refuses later."""
        self.around.ask_for(kv_cache_dtype)
        try:
            ways = self.explore(lambda: self.refusals(name, kv_cache_dtype))
        except (Unresolved, TooManyWays) as error:
            return Verdict(None, unknown=(str(error.unknown),))
        refused = [bool(way.result) for way in ways]
        if all(refused):
            common = [reason for reason in ways[0].result if all(reason in way.result for way in ways)]
            return Verdict(False, tuple(common or ways[0].result))
        accepted = self._accepted(name, kv_cache_dtype)
        if not any(refused):
            return accepted
        possible = dict.fromkeys(reason for way in ways for reason in way.result)
        told = (*(f"perhaps {reason!r}" for reason in possible), *_told(ways), *accepted.later, *accepted.unknown)
        return Verdict(None, unknown=told, would_run=bool(accepted.serves))

    def _accepted(self, name: str, kv_cache_dtype: str) -> Verdict:
        """The verdict on a backend that the selector accepts: what it refuses later."""
        try:
            ways = self.explore(lambda: self._later(name, kv_cache_dtype))
        except (Unresolved, TooManyWays) as error:
            return Verdict(True, unknown=(str(error.unknown),))
        certain = [reason for reason in ways[0].result if all(reason in way.result for way in ways)]
        return Verdict(True, later=tuple(certain))

    def backend(self, name: str) -> Class:
        """The backend's class, as importing it would find it."""
        path = self.reader.lookup(self.around.cls(*REGISTRY).body, name)
        if not isinstance(path, str) or not path:
            raise Raised("ValueError", f"Backend {name} must be registered before use", stated=True)
        module, _dot, cls = path.rpartition(".")
        self._import(module)
        return self.around.cls(module, cls)

    def _file_of(self, name: str) -> str:
        path = self.reader.lookup(self.around.cls(*REGISTRY).body, name)
        return f"{str(path).rpartition('.')[0].replace('.', '/')}.py"

    def _import(self, module: str, importers: tuple[str, ...] = ()) -> None:
        """Fail as importing the module would where a package is not installed that it or a backend it uses imports."""
        if module in self._imported or module in importers:
            return
        scope = self.around.tree.module(module)
        if scope is None:
            raise Raised("ModuleNotFoundError", f"No module named '{module}'", stated=True)
        consulted = self.around.decisions.consulted
        for statement in scope.body:
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                names = [statement.module or ""]
            else:
                continue
            for name in names:
                self.reader.imported(name, scope.place(statement))
                if name.startswith(BACKENDS):
                    self._import(name, (*importers, module))
        if self.around.decisions.consulted == consulted:
            self._imported.add(module)

    def refusals(self, name: str, kv_cache_dtype: str) -> tuple[str, ...]:
        try:
            backend = self.backend(name)
            check = self.reader.attribute(backend, "validate_configuration", backend.scope.place(backend.node))
            if not isinstance(check, Bound):
                raise Unresolved(
                    check if isinstance(check, Unknown) else Unknown("validate_configuration", backend.scope.file)
                )
            keywords = self._keywords(check.function, self.facts(kv_cache_dtype))
            place = check.function.scope.place(check.function.node)
            reasons = self.reader.call(check, [], keywords, place)
        except Raised as raised:
            if not raised.stated:
                raise Unresolved(Unknown(str(raised), f"{self._file_of(name)}, or what it is based on")) from raised
            return (str(raised),)
        if not isinstance(reasons, list):
            raise Unresolved(reasons if isinstance(reasons, Unknown) else Unknown("a list of reasons", place))
        return tuple(str(reason) for reason in reasons)

    def _later(self, name: str, kv_cache_dtype: str) -> tuple[str, ...]:
        backend = self.backend(name)
        place = backend.scope.place(backend.node)
        try:
            implementation = self.reader.call(self.reader.attribute(backend, "get_impl_cls", place), [], {}, place)
        except Raised as raised:
            if raised.stated:
                return (f"{backend.name}.get_impl_cls: {raised}",)
            raise
        if not isinstance(implementation, Class):
            raise Unresolved(
                implementation if isinstance(implementation, Unknown) else Unknown("get_impl_cls()", place)
            )
        stored = self._stored_as(backend, kv_cache_dtype)
        found = [] if stored is None else [self._constructor_refusal(implementation, stored)]
        if self.question.decode_context_parallel_size > 1:
            found.append(self._context_parallel_refusal(implementation))
        return tuple(reason for reason in found if reason is not None)

    def _stored_as(self, backend: Class, kv_cache_dtype: str) -> str | None:
        """The dtype that the layer hands to the backend: sparse MLA renames fp8 to its packed format.

        None where this release does so at a place that is not followed.
        """
        if not self.question.model.use_sparse:
            return kv_cache_dtype
        scope = self.around.tree.module(MLA_LAYER)
        rename = MISSING if scope is None else self.reader.lookup(scope, "_canonicalize_sparse_mla_kv_cache_dtype")
        if not isinstance(rename, Function):
            return None if kv_cache_dtype.startswith("fp8") else kv_cache_dtype
        stored = self.reader.call(rename, [backend, kv_cache_dtype], {}, rename.scope.place(rename.node))
        return stored if isinstance(stored, str) else None

    def _constructor_refusal(self, implementation: Class, kv_cache_dtype: str) -> str | None:
        """The exception that the constructor certainly raises."""
        made = Instance(implementation)
        constructor = self.reader.class_attribute(implementation, "__init__", made, implementation.scope.file)
        if not isinstance(constructor, Bound):
            return None
        place = constructor.function.scope.place(constructor.function.node)
        facts = {**self.facts(kv_cache_dtype), **self._layer_facts()}
        # An argument with a default is unknown as well: the layer passes what this program does not see.
        names = [name for name in _parameters(constructor.function) if name != "self"]
        keywords = {name: facts.get(name, Unknown(f"the argument {name}", place)) for name in names}
        if constructor.function.node.args.kwarg is not None:
            taken = self._taken_along_the_bases(implementation)
            unseen = {name: Unknown(f"the argument {name}", place) for name in UNSEEN_MLA_ARGUMENTS if name in taken}
            keywords |= {name: value for name, value in {**unseen, **self._mla_facts()}.items() if name not in keywords}
        try:
            self.reader.run_tolerantly(constructor.function, made, keywords)
        except Raised as raised:
            return f"{implementation.name}: {raised}"
        except Unresolved:
            return None
        return None

    def _taken_along_the_bases(self, implementation: Class) -> set[str]:
        taken: set[str] = set()
        for base in self.reader.bases(implementation):
            constructor = self.reader.lookup(base.body, "__init__") if isinstance(base, Class) else None
            taken.update(_parameters(constructor) if isinstance(constructor, Function) else ())
        return taken

    def _context_parallel_refusal(self, implementation: Class) -> str | None:
        function = self.around.value(*CONTEXT_PARALLEL)
        place = f"{implementation.scope.file}: {implementation.name}"
        can = self.reader.class_attribute(implementation, "can_return_lse_for_decode", implementation, place)
        size = self.question.decode_context_parallel_size
        made = Instance(implementation, {"need_to_return_lse_for_decode": can, "dcp_world_size": size})
        if can is MISSING:
            raise Unresolved(Unknown(f"can_return_lse_for_decode of {implementation.name}", place))
        layers = {"layer": Record("layer", {"impl": made}, whole=True)}
        for module in ("vllm.config", "vllm.config.vllm"):
            stand_in = Native("get_layers_from_vllm_config", lambda *_: layers, lenient=True)
            self.reader.stand_ins[f"{module}.get_layers_from_vllm_config"] = stand_in
        config = self.reader.call(self.reader.stand_ins["vllm.config.get_current_vllm_config"], [], {}, place)
        try:
            outcome = self.reader.call(function, [config], {}, place)
        except Raised as raised:
            return raised.message or str(raised)
        if isinstance(outcome, Unknown):
            raise Unresolved(outcome)
        return None

    def facts(self, kv_cache_dtype: str) -> dict[str, Value]:
        """Every argument that a release's selector is known to pass on, by name."""
        model = self.question.model
        invariant = self.question.environment.get("VLLM_BATCH_INVARIANT", "0")
        return {
            "head_size": model.head_size,
            "dtype": External(f"torch.{model.engine_dtype}"),
            "kv_cache_dtype": kv_cache_dtype,
            "block_size": None,
            "use_mla": model.use_mla,
            "has_sink": model.has_sink,
            "use_sparse": model.use_sparse,
            "use_mm_prefix": False,
            "use_per_head_quant_scales": False,
            "device_capability": self.question.capability,
            "attn_type": "decoder",
            "has_sliding_window": model.has_sliding_window,
            "use_non_causal": False,
            "use_batch_invariant": invariant not in ("", "0"),
            "use_kv_connector": False,
            "use_pcp": False,
            "use_adaptive_verification": False,
            "use_dcp": self.question.decode_context_parallel_size > 1,
            "use_rswa": False,
            **({} if self.question.heads_per_rank is None else {"num_heads": self.question.heads_per_rank}),
        }

    def _layer_facts(self) -> dict[str, Value]:
        facts: dict[str, Value] = dict.fromkeys(("alibi_slopes", "logits_soft_cap", "kv_sharing_target_layer_name"))
        if not self.question.model.has_sliding_window:
            facts["sliding_window"] = None
        if self.question.kv_heads_per_rank is not None:
            facts["num_kv_heads"] = self.question.kv_heads_per_rank
        return facts | self._mla_facts()

    def _mla_facts(self) -> dict[str, Value]:
        text = self.question.model.text_config
        names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        facts: dict[str, Value] = {name: text[name] for name in names if name in text}
        nope, rope = facts.get("qk_nope_head_dim"), facts.get("qk_rope_head_dim")
        if isinstance(nope, int) and isinstance(rope, int):
            facts["qk_head_dim"] = nope + rope
        return facts

    def _keywords(self, function: Function, facts: dict[str, Value]) -> dict[str, Value]:
        """The facts that the function takes. What it takes besides stays at its default, and a note says so."""
        taken = _parameters(function)
        defaults = function.node.args.defaults
        for name in taken[len(taken) - len(defaults) :] if defaults else []:
            if name not in facts and name not in ("num_heads", "cls"):
                note = f"{getattr(function.node, 'name', '')} also takes {name}, which is left at its default"
                if note not in self.notes:
                    self.notes.append(note)
        return {name: facts[name] for name in taken if name in facts}

    def explore(self, run: Callable[[], Any]) -> list[Way[Any]]:
        def once() -> Any:
            self.reader.restart()
            try:
                return run()
            except RecursionError as error:
                raise Unresolved(Unknown("a source that nests this deeply", "")) from error
            except Raised as raised:
                raise Unresolved(Unknown(f"what to do after {raised}", raised.place)) from raised

        return self.around.decisions.explore(once)


def _parameters(function: Function) -> list[str]:
    spec = function.node.args
    return [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]


def _names(value: Value, place: str) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(member, Member) for member in value):
        return [member.name for member in value]
    raise Unresolved(value if isinstance(value, Unknown) else Unknown("a list of backends", place))


def _told(ways: Iterable[Way[Any]]) -> list[str]:
    return list(dict.fromkeys(str(unknown) for way in ways for unknown in way.assumed))
