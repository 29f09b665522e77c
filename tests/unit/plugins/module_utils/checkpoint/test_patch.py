# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patch of config.json and hf_quant_config.json: both or none, reversible, and right again after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import stat
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch as patch_module
import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.json_document import (
    replace_value,
    split_pointer,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch import (
    Patch,
    patch_checkpoint,
    predict,
    published_contents,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch_state import STATE_FOLDER
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[5]

CONFIG = """{\r
  "architectures": ["KimiK25ForConditionalGeneration"],\r
  "model_type": "kimi_k25",\r
  "text_config": {"model_type": "deepseek_v3", "num_hidden_layers": 61, "kv_lora_rank": 512},\r
  "quantization_config": {"ignore": ["lm_head", "é"], "quant_algo": "NVFP4",\r
    "kv_cache_scheme" :  {"dynamic": false,\r
        "num_bits": 8, "type": "float"}, "quant_method": "modelopt", "x": [1.0, 1e-05]}\r
}"""
HF_QUANT = """{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8",
\t"group_size": 16, "exclude_modules": ["lm_head", "model.layers.0.self_attn*"]}}
"""
PATCHED = {
    "config.json": CONFIG.replace(
        '{"dynamic": false,\r\n        "num_bits": 8, "type": "float"}',
        "null",
    ),
    "hf_quant_config.json": HF_QUANT.replace('"FP8"', "null"),
}
PUBLISHED = {"config.json": CONFIG, "hf_quant_config.json": HF_QUANT}


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_bytes().decode() for path in sorted(folder.glob("*.json"))}


def records(folder: Path) -> dict[str, Any]:
    path = folder / STATE_FOLDER / "patches.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def run(folder: Path, kv_cache: str = "model_dtype", vllm: str | None = "0.33.0", *, dry_run: bool = False) -> Patch:
    return patch_checkpoint(folder, kv_cache, rules_for(vllm), dry_run=dry_run)


def changed(patch: Patch) -> list[str]:
    return [file.name for file in patch.files if file.changed]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    for name, text in PUBLISHED.items():
        (path / name).write_bytes(text.encode())
    return path


def test_the_values_change_and_every_other_byte_stays(folder: Path) -> None:
    patch = run(folder)
    assert texts(folder) == PATCHED
    assert changed(patch) == ["config.json", "hf_quant_config.json"]
    assert (patch.before.dtype, patch.after.dtype) == ("fp8_e4m3", "auto")
    assert patch.before.decided_by == "config.json#/quantization_config/kv_cache_scheme"
    assert [edit.pointer for file in patch.files for edit in file.edits] == [
        "/quantization_config/kv_cache_scheme",
        "/quantization/kv_cache_quant_algo",
    ]


def test_the_record_and_the_pristine_copies(folder: Path) -> None:
    run(folder)
    for name, entry in records(folder).items():
        assert entry["pristine_sha256"] == digest(PUBLISHED[name])
        assert entry["patched_sha256"] == digest(PATCHED[name])
        pristine = folder / STATE_FOLDER / "pristine" / entry["pristine_sha256"]
        assert pristine.read_bytes().decode() == PUBLISHED[name]
    assert records(folder)["hf_quant_config.json"]["edits"] == [
        {"pointer": "/quantization/kv_cache_quant_algo", "before": "FP8", "after": None}
    ]


def test_a_second_run_changes_and_writes_nothing(folder: Path) -> None:
    run(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    again = run(folder)
    assert changed(again) == []
    assert (again.before.dtype, again.after.dtype) == ("auto", "auto")
    assert all(not file.edits for file in again.files)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_what_was_published_comes_back_byte_for_byte(folder: Path) -> None:
    run(folder)
    back = run(folder, "checkpoint")
    assert texts(folder) == PUBLISHED
    assert changed(back) == ["config.json", "hf_quant_config.json"]
    assert (back.before.dtype, back.after.dtype) == ("auto", "fp8_e4m3")
    assert back.files[1].edits[0].as_dict() == {
        "pointer": "/quantization/kv_cache_quant_algo",
        "before": None,
        "after": "FP8",
    }
    assert records(folder) == {}
    assert changed(run(folder, "checkpoint")) == []
    run(folder)
    assert texts(folder) == PATCHED


def test_a_dry_run_tells_the_same_and_writes_nothing(folder: Path) -> None:
    foretold = run(folder, dry_run=True)
    assert texts(folder) == PUBLISHED
    assert not (folder / ".cache").exists()
    assert foretold == run(folder)


def test_a_checkpoint_that_asks_for_nothing_gets_no_state_folder(folder: Path) -> None:
    (folder / "config.json").write_text('{"num_hidden_layers": 1}')
    (folder / "hf_quant_config.json").unlink()
    patch = run(folder)
    assert (changed(patch), patch.before.decided_by) == ([], None)
    assert not (folder / ".cache").exists()


def test_a_downloaded_file_in_its_place_is_patched_again(folder: Path) -> None:
    run(folder)
    (folder / "config.json").write_bytes(CONFIG.encode())
    assert changed(run(folder)) == ["config.json"]
    assert texts(folder) == PATCHED


def test_a_new_revision_is_patched_anew_and_its_bytes_come_back(folder: Path) -> None:
    run(folder)
    revision = CONFIG.replace('"x"', '"y"')
    (folder / "config.json").write_bytes(revision.encode())
    assert changed(run(folder)) == ["config.json"]
    assert records(folder)["config.json"]["pristine_sha256"] == digest(revision)
    assert changed(run(folder, "checkpoint")) == ["config.json", "hf_quant_config.json"]
    assert texts(folder) == {"config.json": revision, "hf_quant_config.json": HF_QUANT}
    kept = {path.name for path in (folder / STATE_FOLDER / "pristine").iterdir()}
    assert kept == {digest(revision), digest(CONFIG), digest(HF_QUANT)}


def test_a_new_revision_that_needs_no_patch_loses_its_record(folder: Path) -> None:
    run(folder)
    (folder / "hf_quant_config.json").write_text(HF_QUANT.replace("FP8", "INT8"))
    patch = run(folder)
    assert changed(patch) == []
    assert set(records(folder)) == {"config.json"}
    assert any("kv_cache_quant_algo" in note and '"INT8"' in note for note in patch.notes)


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import conftest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch import patch_checkpoint
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for

left = int(sys.argv[4])

def counted(act):
    def wrapper(*arguments, **keywords):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return act(*arguments, **keywords)
    return wrapper

os.replace, os.fsync = counted(os.replace), counted(os.fsync)
patch_checkpoint(Path(sys.argv[2]), sys.argv[3], rules_for(None), dry_run=False)
"""


@pytest.mark.parametrize("target", ["model_dtype", "checkpoint"])
def test_a_run_killed_at_any_point_is_completed_by_the_next(folder: Path, target: str) -> None:
    """Each turn starts from the opposite state and is killed one durable step later than the one before."""
    opposite = "checkpoint" if target == "model_dtype" else "model_dtype"
    wanted = PATCHED if target == "model_dtype" else PUBLISHED
    seen = set()
    for step in range(1, 40):
        run(folder, opposite)
        killed = subprocess.run(
            [sys.executable, "-c", KILLED_RUN, str(ROOT / "tests"), str(folder), target, str(step)],
            timeout=60,
            check=False,
        )
        now = texts(folder)
        seen.add(tuple(now[name] == wanted[name] for name in sorted(wanted)))
        known = {name: {entry["pristine_sha256"], entry["patched_sha256"]} for name, entry in records(folder).items()}
        for name, text in now.items():
            assert text in (PUBLISHED[name], PATCHED[name])
            assert text == PUBLISHED[name] or digest(text) in known[name]
        run(folder, target)
        assert texts(folder) == wanted
        assert changed(run(folder, target)) == []
        if killed.returncode == 0:
            break
    assert killed.returncode == 0, "the run never got through"
    assert (False, True) in seen, "no kill fell between the two files"


def test_a_link_into_a_shared_cache_is_replaced_and_the_blob_stays(folder: Path, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    (folder / "config.json").rename(blob)
    blob.chmod(0o640)
    (folder / "config.json").symlink_to(blob)
    run(folder)
    assert not (folder / "config.json").is_symlink()
    assert stat.S_IMODE((folder / "config.json").stat().st_mode) == 0o640
    assert blob.read_bytes() == CONFIG.encode()
    assert texts(folder) == PATCHED


@pytest.mark.parametrize("mode", [0o644, 0o440, 0o600])
def test_the_mode_stays(folder: Path, mode: int) -> None:
    for name in PUBLISHED:
        (folder / name).chmod(mode)
    run(folder)
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in PUBLISHED} == {mode}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(folder: Path) -> None:
    os.chown(folder / "config.json", 12345, 54321)
    run(folder)
    status = (folder / "config.json").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_a_prediction_equals_the_run(folder: Path) -> None:
    contents = {**{name: json.loads(text) for name, text in PUBLISHED.items()}, "model.safetensors.index.json": None}
    foretold = predict(contents, "model_dtype", rules_for("0.33.0"))
    real = run(folder)
    assert [(file.name, file.edits) for file in foretold.files] == [(file.name, file.edits) for file in real.files]
    assert (foretold.before, foretold.after) == (real.before, real.after)
    assert changed(predict(contents, "checkpoint", rules_for(None))) == []


@pytest.mark.parametrize("contents", [{}, {"config.json": None}, {"config.json": {}, "hf_quant_config.json": [1]}])
def test_contents_that_are_no_checkpoint_are_refused(contents: dict[str, Any]) -> None:
    with pytest.raises(ServingError):
        predict(contents, "model_dtype", rules_for(None))


def test_scales_that_stay_and_scales_that_are_missing_are_told(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"l.0.k_proj.k_scale": "a", "l.0.v_proj.v_scale": "a", "w": "a"}}))
    assert any("2 KV scale tensors stay" in note for note in run(folder, dry_run=True).notes)
    index.write_text(json.dumps({"weight_map": {"w": "a"}}))
    assert any("uncalibrated" in note for note in run(folder, "checkpoint").notes)


def test_an_architecture_that_asks_by_itself_is_told(folder: Path) -> None:
    (folder / "config.json").write_text('{"architectures": ["GlmMoeDsaForCausalLM"]}')
    (folder / "hf_quant_config.json").unlink()
    assert any("10.x" in note for note in run(folder).notes)
    assert not any("10.x" in note for note in run(folder, vllm="0.31.0").notes)


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("config.json", "\ufeff" + CONFIG, "config.json"),
        ("config.json", CONFIG[:200], "config.json, line"),
        ("config.json", "[]", "config.json#"),
        ("hf_quant_config.json", '{"quantization": 5}', "hf_quant_config.json#/quantization"),
        ("hf_quant_config.json", '{"a": 1, "a": 2}', "hf_quant_config.json#"),
        ("config.json", '{"quantization_config": [1]}', "config.json#/quantization_config"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_written(
    folder: Path, name: str, text: str, where: str
) -> None:
    (folder / name).write_bytes(text.encode())
    before = texts(folder)
    with pytest.raises(ServingError) as caught:
        run(folder)
    assert (caught.value.where or "").startswith(f"{folder}/{where}")
    assert texts(folder) == before
    assert not (folder / ".cache").exists()


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="holds no config"):
        run(tmp_path)
    with pytest.raises(ServingError, match="does not exist"):
        run(tmp_path / "nowhere")


def test_where_the_state_cannot_be_kept_nothing_is_changed(folder: Path) -> None:
    (folder / ".cache").write_text("a file where a folder should be")
    with pytest.raises(ServingError, match="cannot be changed") as caught:
        run(folder)
    assert ".cache" in (caught.value.where or "")
    assert texts(folder) == PUBLISHED


@pytest.mark.parametrize("damage", ["", "x", None])
def test_a_damaged_pristine_copy_is_not_restored(folder: Path, damage: str | None) -> None:
    run(folder)
    copy = folder / STATE_FOLDER / "pristine" / digest(CONFIG)
    copy.unlink() if damage is None else copy.write_text(damage)
    with pytest.raises(ServingError, match="gone" if damage is None else "damaged"):
        run(folder, "checkpoint")
    assert texts(folder) == PATCHED
    (folder / "config.json").write_bytes(CONFIG.encode())  # downloaded again
    run(folder)
    run(folder, "checkpoint")
    assert texts(folder) == PUBLISHED


@pytest.mark.parametrize("text", ["{", '{"config.json": {}}', '{"config.json": 5}', '{"config.json": {"edits": 1}}'])
def test_a_record_that_cannot_be_read_is_refused(folder: Path, text: str) -> None:
    run(folder)
    (folder / STATE_FOLDER / "patches.json").write_text(text)
    with pytest.raises(ServingError) as caught:
        run(folder)
    assert "patches.json" in (caught.value.where or "")
    assert texts(folder) == PATCHED


def test_a_file_that_a_killed_run_was_writing_is_removed_also_when_nothing_is_left_to_do(folder: Path) -> None:
    run(folder)
    leftover = folder / STATE_FOLDER / ".patches.json.x1y2z3.tmp"
    leftover.write_text("{")
    run(folder, dry_run=True)
    assert leftover.exists()
    assert changed(run(folder)) == []
    assert not leftover.exists()


LOOP = """
import itertools, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import conftest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch import patch_checkpoint
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for

print("ready", flush=True)
for target in itertools.cycle(("model_dtype", "checkpoint")):
    patch_checkpoint(Path(sys.argv[2]), target, rules_for(None), dry_run=False)
"""


def test_a_process_killed_at_a_random_moment_leaves_what_the_next_run_completes(folder: Path) -> None:
    """Real processes that patch and restore without end, each killed with SIGKILL after a random while."""
    chance = random.Random(4)
    states = set()
    for turn in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", LOOP, str(ROOT / "tests"), str(folder)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 0.06))
        finally:
            process.kill()
            process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        now = texts(folder)
        states.add(tuple(now[name] == PATCHED[name] for name in sorted(now)))
        assert all(text in (PUBLISHED[name], PATCHED[name]) for name, text in now.items())
        target, wanted = (("model_dtype", PATCHED), ("checkpoint", PUBLISHED))[turn % 2]
        run(folder, target)
        assert texts(folder) == wanted
        assert changed(run(folder, target)) == []
        assert not list((folder / STATE_FOLDER).glob("**/*.tmp"))
        kept = {path.name: path.read_bytes() for path in (folder / STATE_FOLDER / "pristine").iterdir()}
        assert set(kept) <= {digest(text) for text in PUBLISHED.values()}
        assert all(hashlib.sha256(data).hexdigest() == name for name, data in kept.items())
    print(f"\n12 processes killed; the two files were then patched or not: {sorted(states)}", end="")


JSON_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | JSON_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JSON_TEXTS, inner, max_size=3),
    max_leaves=8,
)
SETTINGS: st.SearchStrategy[Any] = st.sampled_from(
    (
        {"dynamic": False, "num_bits": 8, "type": "float"},
        {"dynamic": True, "num_bits": 8, "type": "float"},
        {"num_bits": 4, "type": "float"},
        *("FP8", "fp8", "NVFP4", "auto", None),
    )
)
OTHERS = st.dictionaries(
    JSON_TEXTS.filter(lambda key: "quant" not in key and key != "producer"), JSON_VALUES, max_size=4
)
FORMATS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {"indent": None},
        {"indent": 2},
        {"indent": "\t"},
        {"separators": (",", ":")},
        {"indent": 4, "separators": (" , ", " : ")},
    )
)


@st.composite
def checkpoints(draw: st.DrawFn) -> dict[str, bytes]:
    """Two files with random other content in random order and format: indentation, escapes, line ends, last newline."""
    quant_block = {
        **draw(OTHERS),
        "quant_method": draw(st.sampled_from(["modelopt", "compressed-tensors", "fp8"])),
        "quant_algo": "NVFP4",
        "kv_cache_scheme": draw(SETTINGS),
    }
    inner = {**draw(OTHERS), "quant_algo": "NVFP4", "kv_cache_quant_algo": draw(SETTINGS), "group_size": 16}
    documents: dict[str, dict[str, Any]] = {
        "config.json": {**draw(OTHERS), "quantization_config": quant_block},
        "hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": {**inner, "exclude_modules": ["é"]}},
    }
    files = {}
    for name, document in documents.items():
        keys = draw(st.permutations(sorted(document)))
        shuffled = {key: document[key] for key in keys}
        text = json.dumps(shuffled, ensure_ascii=draw(st.booleans()), **draw(FORMATS))
        text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
        files[name] = (text + draw(st.sampled_from(["", "\n", "\r\n", " \n\n"]))).encode()
    return files


def without_settings(data: bytes, edits: list[Any]) -> Any:
    """The parsed file with each edited value put to its edited state: what the patch may have changed, and no more."""
    value = json.loads(data)
    for edit in edits:
        *parents, key = split_pointer(edit.pointer)
        holder = value
        for token in parents:
            holder = holder[token]
        holder[key] = edit.after
    return value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=checkpoints(), vllm=st.sampled_from(["0.15.0", "0.19.1", "0.25.0", "0.33.0"]))
def test_any_files_keep_all_but_the_values_and_come_back(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], vllm: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    foretold = run(folder, vllm=vllm, dry_run=True)
    patch = run(folder, vllm=vllm)
    assert foretold == patch
    assert patch.after.dtype == "auto"
    for file in patch.files:
        now = (folder / file.name).read_bytes()
        assert json.loads(now) == without_settings(files[file.name], file.edits)
        # Removed from the old text and from the new one, the edited values leave the same text: nothing else moved.
        before, after = files[file.name].decode(), now.decode()
        for edit in file.edits:
            before = replace_value(before, edit.pointer, "edited")
            after = replace_value(after, edit.pointer, "edited")
        assert before == after
    assert changed(run(folder, vllm=vllm)) == []
    run(folder, "checkpoint", vllm)
    assert {name: (folder / name).read_bytes() for name in files} == files
    assert changed(run(folder, "checkpoint", vllm)) == []


def test_a_file_that_was_edited_after_the_patch_is_not_taken_for_published(folder: Path) -> None:
    run(folder)
    edited = PATCHED["config.json"].replace('"x"', '"z"')
    (folder / "config.json").write_bytes(edited.encode())
    before = records(folder)
    again = run(folder)
    assert changed(again) == []
    assert records(folder) == before
    assert any("config.json was changed after it was patched" in note for note in again.notes)
    with pytest.raises(ServingError, match="changed after it was patched") as caught:
        run(folder, "checkpoint")
    assert caught.value.where == str(folder / "config.json")
    assert texts(folder)["config.json"] == edited
    assert texts(folder)["hf_quant_config.json"] == PATCHED["hf_quant_config.json"]


@pytest.mark.parametrize("kind", ["sha256", "git_sha1"])
def test_a_new_revision_without_the_settings_is_known_by_the_manifest(folder: Path, kind: str) -> None:
    run(folder)
    revision = PATCHED["config.json"].replace('"x"', '"z"').encode()
    (folder / "config.json").write_bytes(revision)
    git = hashlib.sha1(b"blob %d\0" % len(revision) + revision, usedforsecurity=False).hexdigest()
    hashes = {"sha256": hashlib.sha256(revision).hexdigest(), "git_sha1": git}
    manifest = {"files": {"config.json": {"size": len(revision), kind: hashes[kind]}}}
    (folder / STATE_FOLDER / "manifest.json").write_text(json.dumps(manifest))
    assert changed(run(folder)) == []
    assert set(records(folder)) == {"hf_quant_config.json"}
    assert changed(run(folder, "checkpoint")) == ["hf_quant_config.json"]
    assert (folder / "config.json").read_bytes() == revision


def test_what_was_published_is_known_while_the_files_are_patched(folder: Path) -> None:
    published = published_contents(folder)
    run(folder)
    assert published_contents(folder) == published == {name: json.loads(text) for name, text in PUBLISHED.items()}


@pytest.fixture
def read_only(folder: Path) -> Iterator[Path]:
    """The folder, in which this process may not write: root gives up its rights for the while."""
    for place in (folder, *folder.parents[:2]):
        place.chmod(0o755)
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        outside = Path(tempfile.mkdtemp(dir="/tmp", prefix="read-only-"))
        outside.chmod(0o755)
        target = outside / "model"
        shutil.copytree(folder, target)
        os.seteuid(65534)
    yield target if root else folder
    if root:
        os.seteuid(0)
        shutil.rmtree(outside)
    folder.chmod(0o755)


def test_a_read_only_folder_is_refused_before_anything_is_written(read_only: Path) -> None:
    before = sorted(read_only.rglob("*"))
    assert changed(run(read_only, dry_run=True)) == ["config.json", "hf_quant_config.json"]
    with pytest.raises(ServingError, match="cannot be changed") as caught:
        run(read_only)
    assert caught.value.where == str(read_only)
    assert "become" in (caught.value.remedy or "")
    assert sorted(read_only.rglob("*")) == before
    assert texts(read_only) == PUBLISHED


def test_a_file_system_that_gives_up_between_the_files_is_made_good_by_the_next_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def refuse_config(source: Any, target: Any) -> None:
        if Path(target).name == "config.json":
            raise OSError(28, "No space left on device", str(source), None, str(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", refuse_config)
    with pytest.raises(ServingError, match="No space left") as caught:
        run(folder)
    assert caught.value.where == str(folder / "config.json")
    assert texts(folder) == {**PUBLISHED, "hf_quant_config.json": PATCHED["hf_quant_config.json"]}
    monkeypatch.undo()
    assert changed(run(folder)) == ["config.json"]
    assert texts(folder) == PATCHED


def test_a_hard_link_elsewhere_keeps_what_was_published(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "config.json", tmp_path / "elsewhere")
    run(folder)
    assert (tmp_path / "elsewhere").read_bytes() == CONFIG.encode()


@pytest.mark.parametrize("name", ["config.json", "hf_quant_config.json"])
def test_what_is_no_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ServingError, match="no file") as caught:
        run(folder)
    assert caught.value.where == str(folder / name)


def test_a_dangling_link_is_no_file_to_the_engine_either(folder: Path) -> None:
    (folder / "hf_quant_config.json").unlink()
    (folder / "hf_quant_config.json").symlink_to("nowhere")
    assert [file.name for file in run(folder).files] == ["config.json"]


def test_the_index_is_not_searched_where_no_setting_asks_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config.json").write_text('{"num_hidden_layers": 1}')
    (folder / "hf_quant_config.json").unlink()
    (folder / "model.safetensors.index.json").write_text("{}")
    monkeypatch.setattr(patch_module, "count_kv_scales", lambda _folder: pytest.fail("searched"))
    run(folder)


def test_a_prediction_counts_the_scales_of_the_index(folder: Path) -> None:
    contents = {name: json.loads(text) for name, text in PUBLISHED.items()}
    index = {"weight_map": {"l.0.k_proj.k_scale": "a", "w": "a"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    foretold = predict({**contents, "model.safetensors.index.json": index}, "model_dtype", rules_for(None))
    assert foretold.notes == run(folder).notes
    assert any("1 KV scale tensors stay" in note for note in foretold.notes)


def test_one_patch_takes_milliseconds(folder: Path) -> None:
    """Printed, not judged: the clock of a shared machine is no proof. The index has the size of a 1T model's."""
    names = ("weight", "weight_scale", "weight_scale_2", "input_scale")
    tensors = {
        f"language_model.model.layers.{number}.mlp.experts.up_proj.{name}": "model-00001-of-00119.safetensors"
        for number in range(70_000)
        for name in names
    }
    index = folder / "model.safetensors.index.json"
    for size, content in (("no", {}), ("a small", {"w": "a"}), ("a 1T model's", tensors)):
        if content:
            index.write_text(json.dumps({"weight_map": content}, indent=2))
        first: list[tuple[float, float]] = []
        again: list[tuple[float, float]] = []
        for _turn in range(7):
            run(folder, "checkpoint")
            for taken in (first, again):
                wall, processor = time.perf_counter(), time.process_time()
                run(folder)
                taken.append((time.perf_counter() - wall, time.process_time() - processor))
        for what, taken in (("one patch", first), ("run again", again)):
            wall, processor = (1000 * statistics.median(column) for column in zip(*taken, strict=True))
            print(f"\n{what}, {size} index: {wall:.1f} ms, {processor:.1f} ms of them computing (medians of 7)", end="")
