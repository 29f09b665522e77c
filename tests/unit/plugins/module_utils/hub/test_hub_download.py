# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a download does to a folder: fetch, adopt, repair, keep, remove; and a second run does nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub import identity as identity_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub import survey as survey_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub.answers import HubUnavailable
from ansible_collections.blackwell.serving.plugins.module_utils.hub.manifest import Manifest
from simulation.hub import Hub, Snapshot
from simulation.hub.faults import Record
from simulation.hub.samples import REPOSITORY, SHARDS, actions, safetensors, same_files, state_of

pytestmark = pytest.mark.slow

Fetch = Callable[..., dict[str, Any]]
OWN = ".cache/huggingface/blackwell.serving"
INDEX = "model.safetensors.index.json"


def test_the_first_run_brings_every_file(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    result = fetch()
    assert same_files(folder, dest)
    assert result["changed"]
    assert result["commit"] == Snapshot.of(folder).commit
    assert set(actions(result).values()) == {"downloaded"}
    assert result["shards"] == {"expected": 3, "present": 3, "missing": [], "corrupt": []}
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert result["bytes"] == {"total": total, "downloaded": total, "resumed": 0, "on_disk": total}
    assert result["verified"] == "sha256"
    assert Path(result["manifest"]).is_file()
    assert not list((dest / OWN / "parts").iterdir())
    assert [len(hub.log.records(file=shard)) for shard in SHARDS] == [1, 1, 1]
    assert not (dest.parent / "My").exists()


def test_the_second_run_changes_nothing_and_a_commit_needs_no_request(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path
) -> None:
    commit = fetch()["commit"]
    before = state_of(dest)
    hub.log.clear()
    for revision in ("main", commit):
        result = fetch(revision=revision)
        assert not result["changed"]
        assert set(actions(result).values()) == {"kept"}
        assert result["bytes"]["downloaded"] == 0
        assert result["diff"] == {"before": "", "after": ""}
    assert len(hub.log.records()) == 1
    assert state_of(dest) == before


@pytest.mark.parametrize("exists", [False, True])
def test_check_mode_says_what_the_run_does_and_writes_nothing(
    fetch: Fetch, folder: Path, dest: Path, tmp_path: Path, exists: bool
) -> None:
    if exists:
        dest.mkdir(parents=True)
        (dest / "config.json").write_bytes((folder / "config.json").read_bytes())
        (dest / SHARDS[0]).write_bytes(b"broken")
    before = state_of(tmp_path)
    predicted = fetch(check_mode=True)
    assert state_of(tmp_path) == before
    real = fetch()
    for key in ("changed", "commit", "files", "diff"):
        assert predicted[key] == real[key], key
    assert predicted["bytes"]["downloaded"] == real["bytes"]["downloaded"]
    assert predicted["shards"]["present"] == 0
    assert not fetch(check_mode=True)["changed"]


def test_what_is_there_is_adopted_by_its_hash(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    dest.mkdir(parents=True)
    for name in [*SHARDS, INDEX, "config.json"]:
        (dest / name).write_bytes((folder / name).read_bytes())
    result = fetch()
    assert {path for path, action in actions(result).items() if action == "adopted"} == {*SHARDS, INDEX, "config.json"}
    assert not hub.log.records(file="*.safetensors")
    assert not fetch()["changed"]


def test_damage_is_repaired_and_named(fetch: Fetch, folder: Path, dest: Path) -> None:
    fetch()
    (dest / SHARDS[0]).write_bytes(b"short")
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'1' * 64}\nsize 4999802720\n"
    (dest / SHARDS[1]).write_text(pointer)
    flipped = bytearray((dest / SHARDS[2]).read_bytes())
    flipped[1000] ^= 1
    (dest / SHARDS[2]).write_bytes(flipped)
    (dest / "config.json").unlink()
    os.mkfifo(dest / "config.json")
    result = fetch()
    reasons = {file["path"]: file.get("reason", "") for file in result["files"] if file["action"] == "repaired"}
    assert reasons.keys() == {*SHARDS, "config.json"}
    assert "5 bytes" in reasons[SHARDS[0]]
    assert "LFS pointer" in reasons[SHARDS[1]]
    assert "not those that the repository publishes" in reasons[SHARDS[2]]
    assert "regular file" in reasons["config.json"]
    assert same_files(folder, dest)
    assert "LFS pointer" in result["diff"]["before"]


def test_bit_rot_under_an_unchanged_stamp_is_found_by_full_only(fetch: Fetch, folder: Path, dest: Path) -> None:
    fetch()
    path = dest / SHARDS[0]
    status = path.stat()
    with path.open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"rot")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert actions(fetch())[SHARDS[0]] == "kept"
    assert actions(fetch(verify="full"))[SHARDS[0]] == "repaired"
    assert same_files(folder, dest)
    before = state_of(dest)
    assert not fetch(verify="full")["changed"]
    assert state_of(dest) == before


@pytest.mark.parametrize(("small_bytes", "state"), [(0, "adopted"), (1 << 24, "kept")], ids=["large", "small"])
def test_a_touched_file_is_hashed_not_fetched(
    fetch: Fetch, hub: Hub, dest: Path, monkeypatch: pytest.MonkeyPatch, small_bytes: int, state: str
) -> None:
    monkeypatch.setattr(survey_module, "SMALL_BYTES", small_bytes)
    fetch()
    hub.log.clear()
    os.utime(dest / SHARDS[0])
    before = state_of(dest)
    result = fetch()
    assert actions(result)[SHARDS[0]] == state
    assert result["changed"] == (state == "adopted")
    assert (state_of(dest) == before) == (state == "kept")
    assert not hub.log.records(file="*")
    assert not fetch()["changed"]


def test_structure_reads_headers_only_and_says_so(fetch: Fetch, folder: Path, dest: Path) -> None:
    dest.mkdir(parents=True)
    for name in SHARDS:
        (dest / name).write_bytes((folder / name).read_bytes())
    cut = (folder / SHARDS[1]).read_bytes()
    (dest / SHARDS[1]).write_bytes(cut[:20] + b"x" + cut[21:])
    result = fetch(verify="structure")
    assert result["verified"] == "structure"
    assert actions(result)[SHARDS[0]] == "adopted"
    assert actions(result)[SHARDS[1]] == "repaired"
    assert not fetch(verify="structure")["changed"]
    hashed = fetch()
    assert hashed["verified"] == "sha256"
    assert actions(hashed)[SHARDS[0]] == "adopted"


def test_an_index_that_disagrees_with_the_headers(fetch: Fetch, hub: Hub, folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["tensor_of_another_model"] = SHARDS[0]
    (folder / INDEX).write_text(json.dumps(index))
    hub.push(REPOSITORY, folder)
    for options in ({"verify": "structure"}, {}, {"verify": "full"}, {"check_mode": True}):
        with pytest.raises(ServingError, match=rf"shards and index disagree.*{SHARDS[0]}.*tensor_of_another_model"):
            fetch(**options)
    assert [len(hub.log.records(file=shard)) for shard in SHARDS] == [1, 1, 1]
    index["weight_map"] = {f"t{number}": SHARDS[0] for number in range(3)}
    (folder / INDEX).write_text(json.dumps(index))
    hub.push(REPOSITORY, folder)
    with pytest.raises(ServingError, match=rf"{SHARDS[0]}: it lacks 2 tensors, for example t1"):
        fetch(update=True)


def test_a_shard_that_is_published_broken(fetch: Fetch, hub: Hub, folder: Path) -> None:
    (folder / SHARDS[1]).write_bytes(safetensors("t1", b"data") + b"more")
    hub.push(REPOSITORY, folder)
    for _run in range(2):
        with pytest.raises(ServingError, match=rf"disagree.*{SHARDS[1]}: its tensors end at byte"):
            fetch()
    assert len(hub.log.records(file=SHARDS[1])) == 1


def test_an_index_that_names_other_shards_or_another_size_is_noted(fetch: Fetch, hub: Hub, folder: Path) -> None:
    (folder / "consolidated.safetensors").write_bytes(safetensors("all", b"data"))
    index = json.loads((folder / INDEX).read_text())
    index["metadata"]["total_size"] = 5
    (folder / INDEX).write_text(json.dumps(index))
    hub.push(REPOSITORY, folder)
    notes = fetch()["notes"]
    assert any("does not name: consolidated.safetensors" in note for note in notes)
    assert any("total_size of 5 bytes and the tensors have 2100000" in note for note in notes)
    assert any(
        "leaves out" in note and SHARDS[2] in note for note in fetch(exclude=[SHARDS[2]], verify="structure")["notes"]
    )


def test_the_structure_is_compared_once(fetch: Fetch, dest: Path) -> None:
    fetch()
    known = json.loads(Manifest.path(dest).read_text())
    assert {path for path, stamp in known["stamps"].items() if stamp["structure"]} == {*SHARDS, INDEX}
    for stamp in known["stamps"].values():
        stamp["structure"] = False
    Manifest.path(dest).write_text(json.dumps(known))
    assert fetch(check_mode=True)["changed"]
    assert fetch()["changed"]
    assert not fetch()["changed"]


def test_an_index_that_names_absent_shards_fails_before_the_shards_each_time(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path
) -> None:
    (folder / SHARDS[2]).unlink()
    hub.push(REPOSITORY, folder)
    for _run in range(2):
        with pytest.raises(ServingError, match=f"absent at commit .*{SHARDS[2]}") as caught:
            fetch()
        assert caught.value.facts["absent_upstream"] == [SHARDS[2]]
        assert not hub.log.records(file="*.safetensors")
    for name in SHARDS[:2]:
        (dest / name).write_bytes((folder / name).read_bytes())
    for check in (False, True):
        with pytest.raises(ServingError, match="does not have"):
            fetch(check_mode=check)
    assert fetch(exclude=["*.index.json"])["shards"]["present"] == 2


def test_include_and_exclude(fetch: Fetch, dest: Path) -> None:
    result = fetch(include=["*.json"], exclude=["config*"])
    assert list(actions(result)) == [INDEX]
    assert sorted(path.name for path in dest.iterdir()) == [".cache", INDEX]
    assert fetch(include=["*.json"])["changed"]
    with pytest.raises(ServingError, match="no file of the repository is wanted"):
        fetch(include=["*.gguf"])


def test_a_moved_branch_is_noted_then_taken(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    first = fetch()["commit"]
    (folder / "config.json").write_text('{"model_type": "new"}')
    (folder / "sub" / "é #100%.txt").unlink()
    second = hub.push(REPOSITORY, folder)
    stays = fetch()
    assert (stays["changed"], stays["commit"]) == (False, first)
    assert any(f"has moved to {second}" in note for note in stays["notes"])
    hub.log.clear()
    moved = fetch(update=True)
    assert (moved["changed"], moved["commit"]) == (True, second)
    assert actions(moved)["config.json"] == "downloaded"
    assert not hub.log.records(file="*.safetensors")
    assert any("sub/é #100%.txt" in note for note in moved["notes"])
    assert (dest / "sub" / "é #100%.txt").exists()
    assert not fetch(update=True)["changed"]
    assert actions(fetch(prune=True))["sub/é #100%.txt"] == "removed"
    assert not (dest / "sub").exists()
    assert not fetch(prune=True)["changed"]


def test_prune_leaves_what_somebody_changed_or_put_there(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    fetch()
    (folder / "config.json").unlink()
    hub.push(REPOSITORY, folder)
    (dest / "config.json").write_text("mine")
    (dest / "consolidated.safetensors").write_text("mine too")
    result = fetch(update=True, prune=True)
    assert (dest / "config.json").read_text() == "mine"
    assert any("consolidated.safetensors" in note for note in result["notes"])
    assert any("config.json" in note for note in result["notes"])


def test_a_branch_that_moves_during_the_run_does_not_mix_commits(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path
) -> None:
    first = Snapshot.of(folder).commit
    other = folder.with_name("other")
    other.mkdir()
    (other / "config.json").write_text("{}")

    def move_the_branch(record: Record) -> None:
        if "/revision/" in record.path:
            hub.push(REPOSITORY, other)

    hub.log.on_record = move_the_branch
    assert fetch()["commit"] == first
    assert {record.revision for record in hub.log.records(file="*")} == {first}
    assert same_files(folder, dest)


def test_a_hub_that_is_down_is_no_success_without_a_manifest(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    dest.mkdir(parents=True)
    for name in (INDEX, SHARDS[0]):
        (dest / name).write_bytes((folder / name).read_bytes())
    hub.fault("/api/*", status=503, times=-1)
    with pytest.raises(HubUnavailable, match="2 of the 3 shards of its index are missing"):
        fetch(attempts=2)
    (dest / SHARDS[1]).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(HubUnavailable, match=f"1 of the 3 shards of its index are Git LFS pointers: {SHARDS[1]}"):
        fetch(attempts=2)
    hub.faults.clear()
    fetch()
    hub.fault("*", status=503, times=-1)
    result = fetch(attempts=2)
    assert not result["changed"]
    assert any("against the manifest" in note for note in result["notes"])
    (dest / SHARDS[1]).unlink()
    with pytest.raises(HubUnavailable) as caught:
        fetch(attempts=2)
    assert caught.value.facts["shards"] == {"expected": 3, "present": 2, "missing": [SHARDS[1]], "corrupt": []}
    with pytest.raises(HubUnavailable):
        fetch(attempts=2, revision="other")


def test_offline(fetch: Fetch, hub: Hub, dest: Path) -> None:
    with pytest.raises(ServingError, match="nothing is known of this revision"):
        fetch(offline=True)
    assert not dest.exists()
    commit = fetch()["commit"]
    hub.log.clear()
    for revision in ("main", commit):
        assert not fetch(offline=True, revision=revision, verify="full")["changed"]
    with pytest.raises(ServingError, match="nothing is known"):
        fetch(offline=True, revision="0" * 40)
    (dest / SHARDS[0]).unlink()
    with pytest.raises(ServingError, match=f"offline, and files are missing.*{SHARDS[0]}"):
        fetch(offline=True)
    assert not hub.log.records()


def test_a_destination_belongs_to_one_repository(fetch: Fetch, hub: Hub, folder: Path) -> None:
    fetch()
    hub.add_repository("org/other", folder)
    with pytest.raises(ServingError, match="belongs to another repository"):
        fetch(repo_id="org/other")


def patch(dest: Path, name: str, data: bytes) -> None:
    """What quant_config_patch does to a file, in its own format."""
    pristine = (dest / name).read_bytes()
    sha256 = hashlib.sha256(pristine).hexdigest()
    (dest / OWN / "pristine").mkdir(exist_ok=True)
    (dest / OWN / "pristine" / sha256).write_bytes(pristine)
    record = {"pristine_sha256": sha256, "patched_sha256": hashlib.sha256(data).hexdigest(), "edits": []}
    (dest / OWN / "patches.json").write_text(json.dumps({name: record}))
    os.unlink(dest / name)
    (dest / name).write_bytes(data)


def test_a_patched_file_is_left_alone_until_its_published_bytes_change(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path
) -> None:
    fetch()
    patch(dest, "config.json", b'{"model_type": "tiny", "patched": true}')
    before = state_of(dest)
    for verify in ("stamp", "full", "structure"):
        result = fetch(verify=verify)
        assert (actions(result)["config.json"], result["changed"]) == ("patched", False)
        assert result["verified"] == "sha256"
    assert state_of(dest) == before

    (dest / "config.json").write_text("something else")
    assert actions(fetch())["config.json"] == "repaired"
    assert any("patched once" in note for note in fetch()["notes"])

    patch(dest, "config.json", b"patched again")
    (folder / "config.json").write_text('{"model_type": "newer"}')
    hub.push(REPOSITORY, folder)
    result = fetch(update=True)
    assert actions(result)["config.json"] == "downloaded"
    assert same_files(folder, dest)


def test_prune_removes_a_patched_file_too_and_none_that_a_person_edited(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path
) -> None:
    for name in ("patched.json", "edited.json"):
        (folder / name).write_text("{}")
    hub.push(REPOSITORY, folder)
    fetch()
    patch(dest, "patched.json", b'{"patched": true}')
    (dest / "edited.json").write_text("by hand")
    for name in ("patched.json", "edited.json"):
        (folder / name).unlink()
    hub.push(REPOSITORY, folder)
    for check_mode in (True, False):
        result = fetch(update=True, prune=True, check_mode=check_mode)
        assert actions(result)["patched.json"] == "removed"
        assert "edited.json" not in actions(result)
    assert not (dest / "patched.json").exists()
    assert (dest / "edited.json").read_text() == "by hand"
    assert not fetch(prune=True)["changed"]


def test_orphans_of_other_clients_and_of_other_commits_are_cleared(fetch: Fetch, dest: Path) -> None:
    download = dest / ".cache/huggingface/download"
    (download / "sub").mkdir(parents=True)
    (download / "x1Ab.9f3c.af6f6b38.incomplete").write_bytes(b"x" * 10_000)
    (download / "sub" / "x1Ab.9f3c.30be6779.incomplete").write_bytes(b"x")
    (dest / OWN / "parts").mkdir(parents=True)
    (dest / OWN / "parts" / f"{'0' * 64}.part").write_bytes(b"x")
    predicted = fetch(check_mode=True)["cleared_orphans"]
    result = fetch()
    assert predicted == result["cleared_orphans"]
    assert [orphan["path"].rpartition(".")[2] for orphan in predicted] == ["incomplete", "incomplete", "part"]
    assert sum(orphan["bytes"] for orphan in predicted) >= 10_000
    assert not list(download.rglob("*.incomplete"))
    assert fetch()["cleared_orphans"] == []


class FewBytes:
    """statvfs with this many bytes and inodes free."""

    def __init__(self, free: int, inodes: int = 1000) -> None:
        self.f_frsize, self.f_bavail, self.f_favail, self.f_files, self.f_flag = 1, free, inodes, 5000, 0


def test_too_little_space_fails_before_the_first_byte(
    fetch: Fetch, hub: Hub, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = fetch(check_mode=True)["bytes"]["total"]
    hub.log.clear()
    monkeypatch.setattr(os, "statvfs", lambda path: FewBytes(int(total * 1.04)))
    for check in (True, False):
        with pytest.raises(ServingError, match="too little space") as caught:
            fetch(check_mode=check)
        assert caught.value.facts["needed_bytes"] == int(total * 1.05)
        assert caught.value.facts["free_bytes"] == int(total * 1.04)
    assert not dest.exists()
    monkeypatch.setattr(os, "statvfs", lambda path: FewBytes(int(total * 1.06), inodes=2))
    with pytest.raises(ServingError, match="too few inodes"):
        fetch()
    monkeypatch.setattr(os, "statvfs", lambda path: FewBytes(int(total * 1.06)))
    with pytest.raises(ServingError, match="too little space"):
        fetch(min_free_bytes=total)
    fetch()
    (dest / SHARDS[0]).unlink()
    monkeypatch.setattr(os, "statvfs", lambda path: FewBytes(700_000))
    assert fetch()["shards"]["present"] == 3  # not the whole repository again
    monkeypatch.setattr(os, "statvfs", lambda path: FewBytes(0))
    assert not fetch()["changed"]


def test_a_read_only_file_system(fetch: Fetch, dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_only = FewBytes(10**9)
    read_only.f_flag = os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    for check in (True, False):
        with pytest.raises(ServingError, match="read-only"):
            fetch(check_mode=check)


def test_missing_rights_in_a_folder_below_are_found_before_the_first_byte(
    fetch: Fetch, hub: Hub, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dest / "sub").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("sub"))
    for check in (True, False):
        with pytest.raises(ServingError, match=r"cannot be written to.*sub"):
            fetch(check_mode=check)
    assert not hub.log.records(file="*")


def test_attributes_of_a_linked_file_are_not_set(fetch: Fetch, folder: Path, dest: Path, tmp_path: Path) -> None:
    dest.mkdir(parents=True)
    (tmp_path / "blob").write_bytes((folder / "config.json").read_bytes())
    (dest / "config.json").symlink_to(tmp_path / "blob")
    asked: list[str] = []

    def set_attributes(path: str, is_folder: bool) -> bool:
        asked.append(os.path.basename(path))
        return False

    fetch(set_attributes=set_attributes)
    assert (dest / "config.json").is_symlink()
    assert "config.json" not in asked


def test_a_file_that_cannot_be_read_ends_the_survey(
    fetch: Fetch, folder: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch()
    hashed: list[str] = []

    def broken(path: Path, hasher: Any, **options: Any) -> Any:
        if path.name == SHARDS[0]:
            raise OSError(errno.EIO, "Input/output error", str(path))
        time.sleep(0.1)
        options["each"](1)  # as between two reads
        hashed.append(path.name)
        return identity_module.hash_file(path, hasher, **options)

    monkeypatch.setattr(survey_module, "hash_file", broken)
    with pytest.raises(ServingError, match="Input/output error"):
        fetch(verify="full")
    assert len(hashed) < 6


def test_missing_rights(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ServingError, match=r"cannot be written to.*become"):
        fetch()


def test_modes_do_not_depend_on_the_umask(fetch: Fetch, dest: Path) -> None:
    before = os.umask(0o077)
    try:
        fetch()
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in [dest, dest.parent, dest / "sub", dest / SHARDS[0]]}
    assert set(modes.values()) == {0o755, 0o644}
    assert Path(dest / OWN / "manifest.json").stat().st_mode & 0o777 == 0o644


def test_attributes_are_asked_of_all_files_and_folders_and_count_as_change(fetch: Fetch, dest: Path) -> None:
    fetch()
    asked: list[tuple[str, bool]] = []

    def set_attributes(path: str, is_folder: bool) -> bool:
        asked.append((os.path.relpath(path, dest), is_folder))
        return path.endswith("sub")

    assert fetch(set_attributes=set_attributes)["changed"]
    assert {path for path, is_folder in asked if is_folder} == {".", "sub"}
    assert {path for path, is_folder in asked if not is_folder} == {
        *SHARDS, INDEX, "config.json", "empty.py", "sub/é #100%.txt"
    }  # fmt: skip


def test_nothing_is_written_outside_of_the_destination(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    dest.mkdir(parents=True)
    (dest / "sub").symlink_to(outside)
    with pytest.raises(ServingError, match="outside of the destination"):
        fetch()
    assert not list(outside.iterdir())
    (dest / "sub").unlink()
    download = dest / ".cache/huggingface/download"
    download.mkdir(parents=True)
    (download / "sub").symlink_to(outside)
    with pytest.raises(ServingError, match="outside of the destination"):
        fetch()
    (download / "sub").unlink()
    (outside / "notes").write_text("of somebody else")
    (download / "config.json.metadata").symlink_to(outside / "notes")
    (outside / "config.json").write_text("blob of somebody else")
    (dest / "config.json").symlink_to(outside / "config.json")
    fetch()
    assert (outside / "config.json").read_text() == "blob of somebody else"
    assert not (dest / "config.json").is_symlink()
    assert (outside / "notes").read_text() == "of somebody else"
    assert not (download / "config.json.metadata").is_symlink()
    entry = Snapshot.of(folder).entries["config.json"]
    object.__setattr__(entry, "path", "../evil")
    hub.repositories[REPOSITORY].push(Snapshot.from_entries({"../evil": entry}), "evil")
    with pytest.raises(ServingError, match="not written"):
        fetch(revision="evil")


def test_files_of_the_same_content(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    for name in ("copy.safetensors", "sub/copy.safetensors", "copy.txt", "sub/copy.txt"):
        (folder / name).write_bytes(safetensors("t", b"the same" * 1000))
    hub.push(REPOSITORY, folder)
    fetch()
    assert same_files(folder, dest)


def test_a_damaged_manifest_costs_a_hash_pass_and_no_transfer(fetch: Fetch, hub: Hub, dest: Path) -> None:
    fetch()
    hub.log.clear()
    Manifest.path(dest).write_text("{")
    assert set(actions(fetch()).values()) == {"adopted"}
    assert not hub.log.records(file="*")
    assert not fetch()["changed"]


@pytest.mark.parametrize(
    "options", [{"min_free_bytes": -1}, {"rate_limit_bytes_per_s": -1}, {"lock_timeout": -1}, {"max_workers": 0}]
)
def test_numbers_out_of_range(fetch: Fetch, options: dict[str, Any]) -> None:
    with pytest.raises(ServingError):
        fetch(**options)
