# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-playbook with a long module of its own: the generic controller half, for real."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import cast

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.blackwell.serving.plugins.plugin_utils import progress_action
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_action import ProgressAction
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_display import ProgressDisplay
from simulation.play import Play, Task

PLUGINS = Path(__file__).parent / "playbook"
CANARY = "canary-7f3a"

pytestmark = pytest.mark.slow


def work(**arguments: object) -> Task:
    return {"action": {"module": "long_task", **arguments}}


TASKS: dict[str, Task] = {
    "long": work(steps=8, token=CANARY),
    "short": work(steps=0),
    "failing": work(steps=1, ending="fail"),
    "killed": work(steps=1, ending="kill"),
    "stopped": work(steps=1, ending="stop"),
    "mistaken": work(steps="many"),
    "checked": {**work(steps=4), "check_mode": True},
    "asynchronous": {**work(steps=1), "async": 60, "poll": 1},
    "hidden": {**work(steps=6, token=CANARY), "no_log": True},
    "looped": {**work(steps="{{ item }}"), "loop": [0, 1]},
}


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    return Play(tmp_path_factory.mktemp("play"), TASKS, "-vvv", plugins=PLUGINS)


def test_progress_is_shown_and_the_result_is_the_modules_own(play: Play) -> None:
    shown = play.lines("long")
    assert len(shown) >= 2
    assert all(line.startswith("gpu1: working ") for line in shown[:-1])
    assert shown[-1] == "gpu1: the answer is 42"
    assert play.results()["long"] == {"answer": 42, "background": True, "changed": True, "failed": False}


def test_a_short_task_shows_nothing(play: Play) -> None:
    assert play.lines("short") == []
    assert play.results()["short"]["answer"] == 42


def test_a_failure_is_shown_as_usual(play: Play) -> None:
    result = play.results()["failing"]
    assert (result["msg"], result["answer"], result["failed"]) == ("it went wrong", 42, True)
    assert not {"ansible_job_id", "results_file", "started", "finished"} & result.keys()


@pytest.mark.parametrize("task", ["killed", "stopped"])
def test_a_killed_module_is_a_failure_that_says_so(play: Play, task: str) -> None:
    assert play.results()[task]["failed"]
    assert "ended on the host without a result" in play.results()[task]["msg"]


def test_a_wrong_option_fails_as_usual(play: Play) -> None:
    assert play.results()["mistaken"]["failed"]
    assert "many" in play.results()["mistaken"]["msg"]


def test_check_mode_runs_the_plain_module(play: Play) -> None:
    assert play.lines("checked") == []
    assert play.results()["checked"]["background"] is False


def test_the_users_own_async(play: Play) -> None:
    result = play.results()["asynchronous"]
    assert (result["background"], result["answer"], result["finished"]) == (False, 42, True)


def test_no_log_shows_no_progress(play: Play) -> None:
    assert play.lines("hidden") == []


def test_each_item_of_a_loop(play: Play) -> None:
    items = play.results()["looped"]["results"]
    assert [(item["answer"], item["background"]) for item in items] == [(42, True), (42, True)]


def test_nothing_is_left_on_the_host_and_no_secret_in_the_output(play: Play) -> None:
    assert play.left() == []
    assert CANARY not in play.output


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_each_of_several_hosts_has_its_lines(tmp_path: Path, strategy: str) -> None:
    play = Play(tmp_path, {"long": work(steps=6)}, hosts="gpu1,gpu2,", strategy=strategy, plugins=PLUGINS)
    for host in ("gpu1", "gpu2"):
        assert any("working" in line for line in play.lines(host=host))
        assert play.results(host)["long"]["answer"] == 42
    assert play.left() == []


def test_a_host_without_background_jobs_and_a_progress_file_of_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    tasks = {
        "foreground": {**work(steps=1), "vars": {"ansible_async_dir": "/proc/nothing"}},
        "failing": {**work(steps=1, ending="fail"), "vars": {"ansible_async_dir": "/proc/nothing"}},
        "own": work(steps=6, progress_file=str(own)),
    }
    play = Play(tmp_path, tasks, "-vvv", plugins=PLUGINS)
    (line,) = play.lines("foreground")
    assert line.startswith("gpu1: no progress, as no background job can be started there: could not create directory")
    result = play.results()["foreground"]
    assert (result["answer"], result["background"], result["changed"]) == (42, False, True)
    assert (play.results()["failing"]["msg"], play.results()["failing"]["failed"]) == ("it went wrong", True)
    assert any("working" in line for line in play.lines("own"))
    assert own.exists()
    assert play.left() == []


def processes_of(folder: Path) -> list[str]:
    """Jobs that still run: their module lies below the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            found += [" ".join(words) for word in words if word.startswith(str(folder / "remote"))]
    return found


def test_a_connection_that_is_lost_for_a_while_and_a_limit_of_the_task(tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    lost.write_text("3")
    tasks = {"long": work(steps=8), "limited": {**work(steps=60, seconds=1), "timeout": 3}}
    environment = {"FLAKY_FILE": str(lost), "ANSIBLE_PIPELINING": "false"}
    play = Play(tmp_path, tasks, connection="flaky", plugins=PLUGINS, environment=environment)
    assert "gpu1: connection lost; the task goes on there, trying for 5 min" in play.lines("long")
    assert play.results()["long"]["answer"] == 42
    assert play.results()["limited"]["failed"]
    assert not list((tmp_path / "remote").rglob("*async_status*"))
    end = time.monotonic() + 60
    while processes_of(tmp_path) and time.monotonic() < end:  # async_wrapper looks every few seconds
        time.sleep(0.5)
    assert processes_of(tmp_path) == []


def test_a_connection_that_stays_lost_makes_the_host_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(ProgressAction):
        _connection = None

    class Said(list[str]):
        say = list.append

    said = Said()

    def ask() -> None:
        raise AnsibleConnectionFailure("Connection reset by peer")

    monkeypatch.setattr(progress_action, "RECONNECT_LIMIT_S", 0.2)
    monkeypatch.setattr(progress_action, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(Lost, "__abstractmethods__", frozenset())
    action = Lost.__new__(Lost)
    with pytest.raises(AnsibleConnectionFailure, match=r"Connection reset by peer.*the task goes on on the host"):
        action._patiently(ask, cast(ProgressDisplay, said))
    assert said == ["connection lost; the task goes on there, trying for 0 s"]
