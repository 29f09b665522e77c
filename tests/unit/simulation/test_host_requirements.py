# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each lack of the machine is one line with its fix, and looking changes nothing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from simulation.host import requirements
from simulation.host.commands import run as run_command
from simulation.host.state import State, write

LEGACY = "cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0\n"
UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"


@pytest.mark.parametrize("mounts", [LEGACY, UNIFIED])
def test_control_groups_suffice(tmp_path: Path, mounts: str) -> None:
    (tmp_path / "mounts").write_text(mounts)
    assert requirements.control_groups(tmp_path / "mounts") is None


@pytest.mark.parametrize("mounts", ["", UNIFIED.replace("rw", "ro"), LEGACY.replace("name=systemd", "memory")])
def test_control_groups_are_missing(tmp_path: Path, mounts: str) -> None:
    (tmp_path / "mounts").write_text(mounts)
    assert "mount -t cgroup2" in str(requirements.control_groups(tmp_path / "mounts"))


def test_too_little_memory_is_named(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:        4194304 kB\n")
    assert str(requirements.memory(tmp_path / "meminfo")).startswith("4.0 GiB of memory, 6 GiB are needed")
    (tmp_path / "meminfo").write_text("MemTotal:        8388608 kB\n")
    assert requirements.memory(tmp_path / "meminfo") is None


def test_too_little_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert requirements.disk(tmp_path / "not/yet/there") is None
    monkeypatch.setattr(requirements, "DISK_BYTES", 1 << 60)
    line = str(requirements.disk(tmp_path / "not/yet/there"))
    assert f"free on the disk of {tmp_path}," in line
    assert requirements.disk(tmp_path, made=True) is None


def test_shared_memory_that_is_absent_is_named(tmp_path: Path) -> None:
    assert requirements.shared_memory(tmp_path) is None
    assert "mount -t tmpfs" in str(requirements.shared_memory(tmp_path / "shm"))


def test_a_busy_port_is_named_unless_the_host_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("privileges", "shared_memory", "control_groups", "memory"):
        monkeypatch.setattr(requirements, name, lambda: None)
    monkeypatch.setattr(requirements, "missing_packages", list)
    monkeypatch.setattr(requirements, "image_is_built", lambda _state: True)
    monkeypatch.setattr(requirements, "disk", lambda _folder, _made: None)
    state = State(tmp_path / "state")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert f"port {number}" in "".join(requirements.lacks(state, "demo", [number]))
        assert not state.root.exists()
        write(state.host("demo") / "ssh_host_ed25519_key", "half made\n")
        assert requirements.lacks(state, "demo", [number]) == []


def test_every_lack_is_listed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "memory", lambda: "memory line")
    monkeypatch.setattr(requirements, "control_groups", lambda: "cgroup line")
    monkeypatch.setattr(requirements, "missing_packages", lambda: ["podman"])
    monkeypatch.setattr(requirements, "archive", lambda: "apt line")
    lines = requirements.lacks(State(tmp_path), "demo", [])
    assert [line for line in lines if line.endswith("line")] == ["cgroup line", "memory line", "apt line"]


def test_missing_programs_become_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program, path: None if "ssh" in program else program)
    monkeypatch.setattr(requirements, "KEYRING", Path("/absent"))
    assert requirements.missing_packages() == ["debian-archive-keyring", "openssh-client"]


def test_a_machine_without_apt_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _program: None)
    assert "neither Debian nor Ubuntu" in str(requirements.archive())


def test_an_archive_out_of_reach_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program: program)

    def run(argv: list[str], **options: object) -> object:
        words = (
            ["echo", "'http://127.0.0.1:9/dists/x/InRelease' 127.0.0.1_x 0"]
            if argv[1] == "--print-uris"
            else ["sh", "-c", "echo E: refused >&2; exit 100"]
        )
        return run_command(words, timeout=10, check=bool(options["check"]))

    monkeypatch.setattr(requirements, "run", run)
    assert requirements.archive() == (
        "apt cannot reach http://127.0.0.1:9/dists/x/InRelease (E: refused): check the network and apt's proxy settings"
    )
