# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils import files


def test_a_new_file_gets_the_mode(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    files.write_atomically(target, b"one", mode=0o640)
    assert target.read_bytes() == b"one"
    assert target.stat().st_mode & 0o7777 == 0o640


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_bytes(b"old")
    target.chmod(0o604)
    files.write_atomically(target, b"new", mode=0o600)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o7777 == 0o604


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(b"shared")
    link = tmp_path / "a.json"
    link.symlink_to(blob)
    files.write_atomically(link, b"own")
    assert not link.is_symlink()
    assert (link.read_bytes(), blob.read_bytes()) == (b"own", b"shared")


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.json"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk gone")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk gone"):
        files.write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_sha256_reads_more_than_one_chunk(tmp_path: Path) -> None:
    data = os.urandom(files.CHUNK_BYTES + 17)
    (tmp_path / "a").write_bytes(data)
    assert files.sha256_of(tmp_path / "a") == hashlib.sha256(data).hexdigest()
