# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state folder, podman's settings and the keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib
from simulation.host import cards, container, podman, ssh
from simulation.host.commands import HostError, run
from simulation.host.state import State, read_json, write


def test_a_write_replaces_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write(path, '{"a": 1}')
    write(path, '{"a": 2}')
    assert read_json(path) == {"a": 2}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


@pytest.mark.parametrize("content", [None, "", '{"a": ', "[1]"])
def test_a_half_record_is_no_record(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ready.json").write_text(content)
    assert read_json(tmp_path / "ready.json") == {}


def test_known_hosts_have_one_line_per_port_and_forget_a_host(tmp_path: Path) -> None:
    state = State(tmp_path)
    _private, first = ssh.host_key(state, "one", 22101)
    ssh.host_key(state, "one", 22101)
    _private, second = ssh.host_key(state, "two", 22102)
    assert first != second
    assert [line.split()[0] for line in state.known_hosts.read_text().splitlines()] == [
        "[127.0.0.1]:22101",
        "[127.0.0.1]:22102",
    ]
    ssh.forget(state, "one")
    assert state.known_hosts.read_text().split()[:1] == ["[127.0.0.1]:22102"]
    assert second.split()[1] in state.known_hosts.read_text()


def test_the_clients_key_stays(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert ssh.client_key(state) == ssh.client_key(state)
    assert state.key.stat().st_mode & 0o777 == 0o600


def test_podmans_files_stay_in_the_folder_and_a_reboot_clears_its_runtime(tmp_path: Path) -> None:
    tool = podman.Podman(State(tmp_path / "a clone"))
    tool.prepare()
    settings = tomllib.loads(tool.settings.read_text())
    places = [settings["engine"][name] for name in ("static_dir", "tmp_dir", "volume_path")]
    places.append(settings["network"]["network_config_dir"])
    assert all(place.startswith(f"{tmp_path}/a clone/") for place in places)
    assert settings["engine"]["runtime"] == "runc"
    (tool.folder / "run" / "stale").touch()
    tool.prepare()
    assert (tool.folder / "run" / "stale").exists()
    (tool.folder / "boot_id").write_text("an earlier boot\n")
    tool.prepare()
    assert not (tool.folder / "run" / "stale").exists()


@pytest.mark.parametrize("name", ["", "Upper", "a b", "-x", "x" * 41, "../x"])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(HostError, match="is no name for a host"):
        container.up(name, 22199, state=State(tmp_path / "state"))
    assert not (tmp_path / "state").exists()


def test_missing_cards_are_named(tmp_path: Path) -> None:
    for name in cards.FILES:
        (tmp_path / name).write_text("x")
    before = cards.digest(tmp_path)
    (tmp_path / "cards.json").write_text("y")
    assert cards.digest(tmp_path) != before
    (tmp_path / "nvidia-smi").unlink()
    with pytest.raises(HostError, match="lacks nvidia-smi"):
        cards.content(tmp_path)


def test_a_failed_command_says_its_last_words() -> None:
    with pytest.raises(HostError, match=r"^reading ended with 3: first \| second$"):
        run(["sh", "-c", "echo first >&2; echo second >&2; exit 3"], timeout=10, shown="reading")
    with pytest.raises(HostError, match="absent-program is not installed"):
        run(["absent-program"], timeout=10)
    with pytest.raises(HostError, match="no end within 0 s"):
        run(["sleep", "5"], timeout=0.1)
