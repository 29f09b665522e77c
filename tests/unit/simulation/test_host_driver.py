# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of `make demo` beside the host: tools, Hub, playbook."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

import pytest
from simulation import demo
from simulation.driver import hub, playbook, tools
from simulation.host import requirements
from simulation.host.commands import HostError
from simulation.host.state import CLONE, State

pytestmark = pytest.mark.slow

PINS = """\
ansible-core==2.19.14 ; python_full_version < '3.12' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via
    #   ansible-lint
ansible-lint==26.1.0 \\
    --hash=sha256:cc
    # via -r requirements-test.in
jinja2==3.1.6 \\
    --hash=sha256:dd
    # via ansible-core
"""
RECAP = (
    "TASK [x]\nfake : ok=9 changed=9 unreachable=0\n\x1b[0;32mPLAY RECAP\x1b[0m ****\r\n"
    "\x1b[0;33mdemo-host\x1b[0m   : \x1b[0;32mok=61  \x1b[0m changed=0    unreachable=0    failed=0\r\n"
)


def test_the_tools_are_a_selection_of_the_pins() -> None:
    assert tools.selection(PINS) == (
        "ansible-core==2.19.14 ; python_full_version < '3.12' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        "jinja2==3.1.6 \\\n    --hash=sha256:dd\n"
    )


def test_every_tool_is_pinned_in_the_repository() -> None:
    chosen = tools.selection((CLONE / "requirements-test.txt").read_text())
    assert {line.split("==")[0].lower() for line in chosen.splitlines() if "==" in line} == set(tools.NAMES)


def test_the_recap_is_read_through_colours() -> None:
    assert playbook.recap(RECAP) == {"demo-host": "ok=61 changed=0 unreachable=0 failed=0"}
    assert playbook.recap("no recap at all") == {}


def test_output_goes_through_and_the_status_comes_back(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = tmp_path / "playbook.log"
    words = ["sh", "-c", "echo out; echo err >&2; test -t 0 || echo no input; exit 4"]
    outcome = playbook.run(words, os.environ, tmp_path, log, limit=20)
    assert (outcome.status, outcome.timed_out) == (4, False)
    assert log.read_text() == "out\nerr\nno input\n"


def test_a_playbook_without_end_is_ended_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    start = time.monotonic()
    words = ["sh", "-c", f"sleep 60 & echo $! > {mark}; wait"]
    outcome = playbook.run(words, os.environ, tmp_path, tmp_path / "log", limit=0.5)
    assert (outcome.status, outcome.timed_out) == (124, True)
    assert time.monotonic() - start < 15
    end = time.monotonic() + 5
    while lives(int(mark.read_text())):
        assert time.monotonic() < end
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_hub_runs_once_and_follows_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, state, port = tmp_path / "checkpoint", State(tmp_path / "state"), free_port()
    checkpoint.mkdir()
    monkeypatch.setattr(hub, "CHECKPOINT", checkpoint)
    assert "restore it from git" in hub.lacks()[0]
    (checkpoint / "config.json").write_text("{}")
    assert hub.lacks() == []
    try:
        first, started = hub.ensure(state, port)
        assert started and len(first) == 40
        record = json.loads((state.root / "hub/process.json").read_text())
        assert hub.ensure(state, port) == (first, False)
        (checkpoint / "config.json").write_text('{"a": 1}')
        second, started = hub.ensure(state, port)
        assert started and second != first
        assert json.loads((state.root / "hub/process.json").read_text())["pid"] != record["pid"]
    finally:
        assert hub.stop(state)
    assert not hub.stop(state)


def test_a_hub_that_cannot_listen_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(hub, "CHECKPOINT", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(HostError, match="the Hub did not start on port"):
            hub.ensure(State(tmp_path / "state"), taken.getsockname()[1])


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    state = State(tmp_path)
    key = demo.api_key(state)
    assert len(key) >= 40 and demo.api_key(state) == key
    assert (tmp_path / "secrets/api_key").stat().st_mode & 0o777 == 0o600


def test_the_key_is_in_the_environment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def run(argv: list[str], environ: dict[str, str], *_rest: object) -> playbook.Outcome:
        seen.update(argv=argv, environ=environ)
        return playbook.Outcome(0, {})

    monkeypatch.setattr(playbook, "run", run)
    state = State(tmp_path)
    demo.play(state, tmp_path / "venv", ["--check"])
    key, argv = demo.api_key(state), seen["argv"]
    assert isinstance(argv, list) and argv[1:] == ["playbooks/site.yml", "-i", "inventories/demo", "--check"]
    assert isinstance(seen["environ"], dict) and seen["environ"]["VLLM_API_KEY"] == key
    assert not any(key in word for word in argv)


def test_all_lacks_are_one_error_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "State", lambda: State(tmp_path))
    monkeypatch.setattr(requirements, "lacks", lambda *_: ["no memory: buy some", "no disk: free some"])
    monkeypatch.setattr(hub, "lacks", lambda: ["no checkpoint: fetch it"])
    monkeypatch.setattr(requirements, "install_packages", lambda _packages: pytest.fail("changed something"))
    assert demo.main(["up"]) == 1
    assert (
        capsys.readouterr().err
        == "error: this machine lacks:\n  - no memory: buy some\n  - no disk: free some\n  - no checkpoint: fetch it\n"
    )


def test_two_demos_of_one_clone_exclude_each_other(tmp_path: Path) -> None:
    with (
        demo.alone(State(tmp_path)),
        pytest.raises(HostError, match="another demo command"),
        demo.alone(State(tmp_path)),
    ):
        pytest.fail("both were let in")


def test_the_command_line_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["sideways"]) == 2
    assert "demo.py up" in capsys.readouterr().err
    assert sys.version_info >= (3, 11)
