# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A download into a folder that somebody has arranged in an unusual way, and by options that make no sense."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.files import write_atomically
from ansible_collections.blackwell.serving.plugins.module_utils.hub import manifest as manifest_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub import part as part_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub.client_state import metadata_is_right
from ansible_collections.blackwell.serving.plugins.module_utils.hub.manifest import Manifest
from ansible_collections.blackwell.serving.plugins.module_utils.hub.retry import timed
from ansible_collections.blackwell.serving.plugins.module_utils.hub.transport import Session
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, SHARDS, actions, same_files

pytestmark = pytest.mark.slow

Fetch = Callable[..., dict[str, Any]]
OWN = ".cache/huggingface/blackwell.serving"
INDEX = "model.safetensors.index.json"
LYING = json.dumps({"weight_map": {"t0": SHARDS[0], "of another model": SHARDS[0]}})


@pytest.mark.parametrize("text", ["no JSON", "{}", "[]", '{"weight_map": {"t0": 3}}', LYING])
def test_an_index_that_is_not_of_the_repository_says_nothing_about_its_shards(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path, text: str
) -> None:
    (folder / INDEX).unlink()
    hub.push(REPOSITORY, folder)
    dest.mkdir(parents=True)
    (dest / INDEX).write_text(text)
    for changed in (True, False):
        result = fetch()
        assert result["changed"] is changed
        (note,) = result["notes"]
        assert "is not compared with the shards" in note


def test_excluding_a_lying_index_is_the_way_out_that_the_message_names(fetch: Fetch, hub: Hub, folder: Path) -> None:
    (folder / INDEX).write_text(LYING)
    hub.push(REPOSITORY, folder)
    with pytest.raises(ServingError, match=r"shards and index disagree.*exclude"):
        fetch()
    assert fetch(exclude=[INDEX])["shards"]["present"] == 3


def test_an_index_of_an_earlier_commit_is_not_compared_with_the_new_shards(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path
) -> None:
    fetch()
    for shard in SHARDS:
        (folder / shard).rename(folder / f"new-{shard}")
    (folder / INDEX).unlink()
    hub.push(REPOSITORY, folder)
    notes = "\n".join(fetch(update=True)["notes"])
    assert (
        f"no longer in the repository, removed with prune=true while unchanged: {', '.join([*SHARDS, INDEX])}" in notes
    )
    assert "leaves out" not in notes
    assert "does not name" not in notes
    fetch(prune=True)
    assert not (dest / INDEX).exists()


def test_a_branch_of_the_same_commit_stays_at_it_too(fetch: Fetch, hub: Hub, folder: Path) -> None:
    first = fetch()
    hub.push(REPOSITORY, folder, branch="next")
    assert fetch(revision="next", check_mode=True)["changed"]
    second = fetch(revision="next")
    assert second["changed"]
    assert set(actions(second).values()) == {"kept"}
    assert not fetch(revision="next")["changed"]
    assert not fetch(revision="next", offline=True)["changed"]
    (folder / "config.json").write_text("{}")
    moved = hub.push(REPOSITORY, folder, branch="next")
    third = fetch(revision="next")
    assert third["commit"] == first["commit"]
    assert third["notes"] == [f"next has moved to {moved}; update=true takes it"]


def test_prune_removes_nothing_outside_of_the_destination(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path, tmp_path: Path
) -> None:
    fetch()
    shutil.rmtree(folder / "sub")
    hub.push(REPOSITORY, folder)
    (dest / "sub").rename(tmp_path / "kept elsewhere")
    (dest / "sub").symlink_to(tmp_path / "kept elsewhere")
    result = fetch(update=True, prune=True)
    assert "removed" not in actions(result).values()
    assert len(list((tmp_path / "kept elsewhere").iterdir())) == 1


def test_nothing_is_cleared_outside_of_the_destination(fetch: Fetch, dest: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("of somebody")
    (dest / OWN).mkdir(parents=True)
    (dest / OWN / "xet").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ServingError, match="a folder of the destination is a symbolic link"):
        fetch()
    assert (tmp_path / "elsewhere" / "file").exists()


def test_names_on_disk_that_are_no_text_are_shown_escaped(fetch: Fetch, dest: Path) -> None:
    """Ansible takes no result for one that holds a lone surrogate."""
    notes_of_the_client = dest / ".cache/huggingface/download"
    notes_of_the_client.mkdir(parents=True)
    for path in (b"\xff.safetensors", b"\x1b[31m\n.safetensors", b".cache/huggingface/download/\xfe.incomplete"):
        Path(os.fsdecode(os.fsencode(dest) + b"/" + path)).write_bytes(b"x")
    result = fetch()
    assert [entry["path"] for entry in result["cleared_orphans"]] == [".cache/huggingface/download/\\xfe.incomplete"]
    assert r"\x1b[31m\n.safetensors, \xff.safetensors" in result["notes"][0]
    json.dumps(result, ensure_ascii=False).encode()


def test_a_folder_of_another_user(fetch: Fetch, dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith("/lock"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ServingError, match=r"cannot be used \(/.*/lock\): Permission denied. Run the task with become"):
        fetch()


def test_a_link_that_leads_to_itself_is_replaced(fetch: Fetch, folder: Path, dest: Path) -> None:
    dest.mkdir(parents=True)
    (dest / "config.json").symlink_to("config.json")
    assert actions(fetch(check_mode=True))["config.json"] == "repaired"
    assert actions(fetch())["config.json"] == "repaired"
    assert same_files(folder, dest)


def test_a_name_that_is_too_long_for_the_note_of_the_client(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    (folder / ("x" * 250)).write_text("long")
    hub.push(REPOSITORY, folder)
    fetch()
    assert same_files(folder, dest)
    assert not fetch()["changed"]
    assert not list(dest.rglob("*.tmp"))


def test_a_file_of_tomorrow_costs_the_client_no_transfer(fetch: Fetch, folder: Path, dest: Path) -> None:
    shutil.copytree(folder, dest)
    os.utime(dest / "config.json", (time.time() + 86400,) * 2)
    assert actions(fetch())["config.json"] == "adopted"
    manifest = Manifest.load(dest)
    assert manifest is not None
    assert metadata_is_right(dest, manifest.commit, manifest.files["config.json"])


def test_a_full_disk_that_takes_no_manifest_either(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest cannot be written after it, which is no other error."""
    full = False

    def write(path: Path, data: bytes) -> None:
        if full:
            raise OSError(28, "No space left on device")
        write_atomically(path, data)

    def append(self: part_module.Part, data: memoryview) -> None:
        nonlocal full
        full = True
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest_module, "write_atomically", write)
    monkeypatch.setattr(part_module.Part, "append", append)
    with pytest.raises(ServingError, match=r"cannot be (written|used) \(/.*\): No space left.*Correct that") as caught:
        fetch()
    assert caught.value.facts["shards"]


@pytest.mark.parametrize("where", ["dest", "manifest"])
def test_what_the_system_refuses_is_one_message_with_a_remedy(fetch: Fetch, dest: Path, where: str) -> None:
    if where == "manifest":
        (dest / OWN / "manifest.json").mkdir(parents=True)
    options = {"dest": f"/tmp/{'x' * 300}"} if where == "dest" else {}
    with pytest.raises(ServingError, match=r"a file or folder cannot be used \(/.*\): .*Correct that and run again"):
        fetch(**options)


def test_too_few_inodes_for_the_files_and_their_notes(
    fetch: Fetch, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs

    def statvfs(path: Any) -> os.statvfs_result:
        found = list(real(path))
        found[5:8] = [1000, 29, 29]  # f_files, f_ffree, f_favail: seven files, their notes and 16 besides are one more
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", statvfs)
    with pytest.raises(ServingError, match="too few inodes"):
        fetch()
    assert not dest.exists()


def test_a_slow_limit_does_not_outlast_the_time_limit(fetch: Fetch) -> None:
    began = time.monotonic()
    with pytest.raises(ServingError, match="time limit"):
        fetch(rate_limit_bytes_per_s=20_000, deadline=began + 1)
    assert time.monotonic() - began < 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_no_progress_file(fetch: Fetch, tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    fetch(progress_file=str(device))
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_link_is_no_progress_file(fetch: Fetch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of somebody")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    fetch(progress_file=str(tmp_path / "link"))
    assert (tmp_path / "link").read_text() == "of somebody"


def test_options_that_are_no_numbers_and_no_names(fetch: Fetch, hub: Hub) -> None:
    nan = float("nan")
    for stall_s in (0.0, -1.0, nan, float("inf")):
        with pytest.raises(ServingError, match="stall_timeout"):
            Session(hub.endpoint, stall_s=stall_s)
    with pytest.raises(ServingError, match="time limit"):
        timed(nan)
    with pytest.raises(ServingError, match="lock_timeout"):
        fetch(lock_timeout=nan)
    with pytest.raises(ServingError, match="the revision is empty"):
        fetch(revision=" ")
