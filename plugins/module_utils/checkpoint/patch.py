# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Take a quantized KV cache out of a checkpoint's configuration, or put back what was published.

Both files change together: everything is staged and recorded before the first rename, so that a run that is killed at
any point leaves a checkpoint whose state the next run recognises and completes.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .documents import Contents, checked_contents, interpret, places_below, read_documents
from .edits import Edit, model_dtype_edits
from .json_document import JsonDocument, parse_object, value_at
from .patch_notes import notes_on
from .patch_state import FileRecord, PatchState, digest
from .quantization import CONFIG, HF_QUANT_CONFIG, Resolution
from .resolver_rules import ResolverRules
from .shards import INDEX, count_kv_scales, is_kv_scale, read_index

MODEL_DTYPE = "model_dtype"
CHECKPOINT = "checkpoint"
# config.json is renamed last: where it has a block of its own, that block is the one that the engine reads.
RENAME_ORDER = (HF_QUANT_CONFIG, CONFIG)

Documents = Mapping[str, JsonDocument]


@dataclass(frozen=True)
class FileChange:
    """One file of the checkpoint: its text before and after, and the values in which they differ."""

    name: str
    before: str
    after: str
    edits: list[Edit]

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Patch:
    """What a run changes, or would change, and what the engine makes of `auto` as published, before and after."""

    files: list[FileChange]
    published: Resolution
    before: Resolution
    after: Resolution
    notes: list[str]


@dataclass(frozen=True)
class _Plan:
    """The files as they are, as they were published and as they shall be, and the records that then hold."""

    current: Documents
    published: Documents
    target: Documents
    records_before: dict[str, FileRecord]
    records: dict[str, FileRecord]
    strays: Sequence[str] = ()

    @property
    def changed(self) -> list[str]:
        return [name for name in RENAME_ORDER if name in self.current and self._differs(name)]

    def _differs(self, name: str) -> bool:
        return self.current[name].data != self.target[name].data

    def edits_shown(self, name: str) -> list[Edit]:
        """The edits that lead from the current file to the target: forwards, or those on record backwards."""
        if not self._differs(name):
            return []
        if name in self.records:
            return self.records[name].edits
        return [Edit(edit.pointer, edit.after, edit.before) for edit in self.records_before[name].edits]


def patch_checkpoint(folder: Path, kv_cache: str, rules: ResolverRules, *, dry_run: bool) -> Patch:
    """Bring config.json and hf_quant_config.json of the folder to the wanted state, model_dtype or checkpoint."""
    state = PatchState(folder)
    with places_below(folder), _explained(folder):
        plan = _plan(state, kv_cache, rules)
        if not dry_run and (plan.changed or plan.records != plan.records_before or state.leftovers()):
            plan = _change(state, kv_cache, rules)
        # The index of a large model takes longer to search than all the rest together.
        return _describe(plan, rules, count_kv_scales(folder) if _declares(plan.published, rules) else None)


def predict(contents: Mapping[str, Any], kv_cache: str, rules: ResolverRules) -> Patch:
    """What patch_checkpoint will do to freshly downloaded files with these contents."""
    published = {
        name: parse_object((json.dumps(value, indent=2) + "\n").encode(), name)
        for name, value in checked_contents(contents).items()
    }
    index = contents.get(INDEX)
    scale_tensors = sum(map(is_kv_scale, read_index(index)[0])) if isinstance(index, Mapping) else None
    plan = _plan_from(published, published, {}, kv_cache, rules)
    return _describe(plan, rules, scale_tensors if _declares(published, rules) else None)


def published_contents(folder: Path) -> Contents:
    """The two files of a checkpoint as they were published, wherever a patch has left them."""
    state = PatchState(folder)
    records = state.records()
    documents = read_documents(folder)
    return _contents({name: _published(state, document, records.get(name)) for name, document in documents.items()})


def _change(state: PatchState, kv_cache: str, rules: ResolverRules) -> _Plan:
    with state.locked():
        plan = _plan(state, kv_cache, rules)  # another run may have finished meanwhile
        _carry_out(state, plan)
        return plan


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn what the file system refuses into the one error."""
    try:
        yield
    except OSError as error:
        raise ServingError(
            "the checkpoint cannot be changed",
            where=str(error.filename2 or error.filename or folder),
            why=error.strerror,
            remedy="Run the task as a user who may write there (become), where the file system is neither full nor "
            "read-only; the next run completes what this one began",
        ) from error


def _declares(documents: Documents, rules: ResolverRules) -> bool:
    """Whether the files say anything about a quantized KV cache."""
    return any(item.kind != "none" for item in interpret(_contents(documents), rules).declarations)


def _plan(state: PatchState, kv_cache: str, rules: ResolverRules) -> _Plan:
    records = state.records()
    current = read_documents(state.checkpoint)
    published = {name: _published(state, document, records.get(name)) for name, document in current.items()}
    plan = _plan_from(current, published, records, kv_cache, rules)
    strays = [name for name, record in records.items() if name in current and _strays(state, current[name], record)]
    if strays and kv_cache == CHECKPOINT:
        raise ServingError(
            "the file was changed after it was patched, and what was published cannot be put back over that",
            where=strays[0],
            why="it is neither what was published nor what the patch left, and asks for no quantized KV cache either",
            remedy="Download the file again (blackwell.serving.hf_shard_download)",
        )
    kept = {name: records[name] for name in strays if name not in plan.records}
    return replace(plan, records={**plan.records, **kept}, strays=[*kept])


def _strays(state: PatchState, document: JsonDocument, record: FileRecord) -> bool:
    """Whether someone edited the file after the patch: other bytes, but what the patch did to the values still holds.

    A new revision of the repository may look like that as well; the manifest of the download tells the two apart.
    """
    if digest(document.data) in (record.pristine_sha256, record.patched_sha256):
        return False
    return all(_holds(document, edit) for edit in record.edits) and not state.is_as_downloaded(
        Path(document.name).name, document.data
    )


def _holds(document: JsonDocument, edit: Edit) -> bool:
    try:
        return bool(value_at(document.value, edit.pointer) == edit.after)
    except KeyError:
        return True  # deleting the key says the same


def _plan_from(
    current: Documents, published: Documents, records: dict[str, FileRecord], kv_cache: str, rules: ResolverRules
) -> _Plan:
    edits = model_dtype_edits(_contents(published), rules) if kv_cache == MODEL_DTYPE else {}
    target = {name: _edited(document, edits.get(name, [])) for name, document in published.items()}
    kept = {name: FileRecord(digest(published[name].data), digest(target[name].data), edits[name]) for name in edits}
    return _Plan(current, published, target, records, kept)


def _published(state: PatchState, document: JsonDocument, record: FileRecord | None) -> JsonDocument:
    """The file as its publisher wrote it: its pristine copy when it is patched, else the file itself."""
    if record is None or digest(document.data) != record.patched_sha256:
        return document
    return parse_object(state.pristine(record.pristine_sha256), document.name)


def _edited(document: JsonDocument, edits: list[Edit]) -> JsonDocument:
    for edit in edits:
        document = document.replaced(edit.pointer, edit.after)
    return document


def _contents(documents: Documents) -> Contents:
    return {name: document.value for name, document in documents.items()}


def _describe(plan: _Plan, rules: ResolverRules, scale_tensors: int | None) -> Patch:
    files = [
        FileChange(name, plan.current[name].data.decode(), plan.target[name].data.decode(), plan.edits_shown(name))
        for name in sorted(plan.current)
    ]
    published = interpret(_contents(plan.published), rules)
    before = interpret(_contents(plan.current), rules)
    after = interpret(_contents(plan.target), rules)
    notes = notes_on(after, rules, scale_tensors)
    notes += [f"{name} was changed after it was patched: kv_cache=checkpoint cannot undo that" for name in plan.strays]
    return Patch(files, published.resolution, before.resolution, after.resolution, notes)


def _carry_out(state: PatchState, plan: _Plan) -> None:
    """Stage, keep, record, rename: in this order, so that at every moment the record explains what is on the disk.

    While a file waits for its rename the record already knows the bytes to come, and the published bytes in its place
    mean "not patched yet". When files go back to what was published, the record follows them.
    """
    staged = {name: state.stage(name, plan.target[name].data) for name in plan.changed}
    for name in plan.records:
        if name not in plan.strays:
            state.keep_pristine(plan.published[name].data)
    both = {**plan.records_before, **plan.records}
    if both != plan.records_before:
        state.write_records(both)
    state.replace_files(staged)
    if both != plan.records:
        state.write_records(plan.records)
