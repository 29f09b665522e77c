# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a backend refuses after vLLM's selector accepted it: these refusals end the engine, and no other one is tried.

They come from the implementation's constructor and from the check of context parallelism (v1/worker/cp_utils.py).
"""

from __future__ import annotations

from ..source.names import MISSING
from ..source.values import Bound, Class, Function, Instance, Native, Raised, Record, Unknown, Unresolved
from .facts import layer_facts, mla_facts, selector_facts
from .surroundings import Surroundings

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


def later_refusals(around: Surroundings, backend: Class, kv_cache_dtype: str) -> tuple[str, ...]:
    """The refusals of the present way; Unresolved or Raised where it cannot be followed."""
    place = backend.scope.place(backend.node)
    try:
        implementation = around.reader.call(around.reader.attribute(backend, "get_impl_cls", place), [], {}, place)
    except Raised as raised:
        if raised.stated:
            return (f"{backend.name}.get_impl_cls: {raised}",)
        raise
    if not isinstance(implementation, Class):
        raise Unresolved(implementation if isinstance(implementation, Unknown) else Unknown("get_impl_cls()", place))
    stored = _stored_as(around, backend, kv_cache_dtype)
    found = [] if stored is None else [_constructor_refusal(around, implementation, stored)]
    if around.question.decode_context_parallel_size > 1:
        found.append(_context_parallel_refusal(around, implementation))
    return tuple(reason for reason in found if reason is not None)


def parameters(function: Function) -> list[str]:
    spec = function.node.args
    return [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]


def _stored_as(around: Surroundings, backend: Class, kv_cache_dtype: str) -> str | None:
    """The dtype that the layer hands to the backend: sparse MLA renames fp8 to its packed format.

    None where this release does so at a place that is not followed.
    """
    if not around.question.model.use_sparse:
        return kv_cache_dtype
    scope = around.tree.module(MLA_LAYER)
    rename = MISSING if scope is None else around.reader.lookup(scope, "_canonicalize_sparse_mla_kv_cache_dtype")
    if not isinstance(rename, Function):
        return None if kv_cache_dtype.startswith("fp8") else kv_cache_dtype
    stored = around.reader.call(rename, [backend, kv_cache_dtype], {}, rename.scope.place(rename.node))
    return stored if isinstance(stored, str) else None


def _constructor_refusal(around: Surroundings, implementation: Class, kv_cache_dtype: str) -> str | None:
    """The exception that the constructor certainly raises."""
    made = Instance(implementation)
    constructor = around.reader.class_attribute(implementation, "__init__", made)
    if not isinstance(constructor, Bound):
        return None
    place = constructor.function.scope.place(constructor.function.node)
    facts = {**selector_facts(around.question, kv_cache_dtype), **layer_facts(around.question)}
    # An argument with a default is unknown as well: the layer passes what this program does not see.
    names = [name for name in parameters(constructor.function) if name != "self"]
    keywords = {name: facts.get(name, Unknown(f"the argument {name}", place)) for name in names}
    if constructor.function.node.args.kwarg is not None:
        taken = _taken_along_the_bases(around, implementation)
        unseen = {name: Unknown(f"the argument {name}", place) for name in UNSEEN_MLA_ARGUMENTS if name in taken}
        keywords |= {
            name: value for name, value in {**unseen, **mla_facts(around.question)}.items() if name not in keywords
        }
    raised = around.reader.certain_exception(constructor, [], keywords)
    return None if raised is None else f"{implementation.name}: {raised}"


def _taken_along_the_bases(around: Surroundings, implementation: Class) -> set[str]:
    taken: set[str] = set()
    for base in around.reader.bases(implementation):
        constructor = around.reader.lookup(base.body, "__init__") if isinstance(base, Class) else None
        taken.update(parameters(constructor) if isinstance(constructor, Function) else ())
    return taken


def _context_parallel_refusal(around: Surroundings, implementation: Class) -> str | None:
    function = around.value(*CONTEXT_PARALLEL)
    place = f"{implementation.scope.file}: {implementation.name}"
    can = around.reader.class_attribute(implementation, "can_return_lse_for_decode", implementation)
    size = around.question.decode_context_parallel_size
    made = Instance(implementation, {"need_to_return_lse_for_decode": can, "dcp_world_size": size})
    if can is MISSING:
        raise Unresolved(Unknown(f"can_return_lse_for_decode of {implementation.name}", place))
    layers = {"layer": Record("layer", {"impl": made}, whole=True)}
    for module in ("vllm.config", "vllm.config.vllm"):
        stand_in = Native("get_layers_from_vllm_config", lambda *_: layers, lenient=True)
        around.reader.stand_ins[f"{module}.get_layers_from_vllm_config"] = stand_in
    config = around.reader.call(around.reader.stand_ins["vllm.config.get_current_vllm_config"], [], {}, place)
    try:
        outcome = around.reader.call(function, [config], {}, place)
    except Raised as raised:
        return raised.message or str(raised)
    if isinstance(outcome, Unknown):
        raise Unresolved(outcome)
    return None
