# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine import commands, journal, service, systemd
from ansible_collections.blackwell.serving.plugins.module_utils.engine.watch import UnitWatch
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

LOGS = Path(__file__).parents[3] / "data" / "engine_logs"


class Host:
    """systemctl and journalctl of a host with one unit."""

    def __init__(self, log: str = "", **show: str) -> None:
        self.log = log
        self.logs: dict[str, str] = {}
        self.show = {
            "Id": "kimi.service",
            "LoadState": "loaded",
            "ActiveState": "active",
            "SubState": "running",
            "Result": "success",
            "InvocationID": "one",
            "NRestarts": "0",
            "MainPID": "0",
            "ExecMainStatus": "0",
            "UnitFileState": "enabled",
            **show,
        }
        self.asked: list[list[str]] = []

    def run(self, arguments: list[str]) -> tuple[int, str, str]:
        self.asked.append(arguments)
        if arguments[0] == "systemctl":
            return 0, "".join(f"{name}={value}\n" for name, value in self.show.items()), ""
        if "--output=json" in arguments:
            return 0, '{"_SYSTEMD_INVOCATION_ID": "last"}\n', ""
        invocation = next(a.partition("=")[2] for a in arguments if a.startswith("_SYSTEMD_INVOCATION_ID="))
        return 0, self.logs.get(invocation, self.log), ""


def no_sleep(_seconds: float) -> None:
    """Tests do not wait."""


def test_absent_unit_is_described_without_failure() -> None:
    host = Host(LoadState="not-found", ActiveState="inactive", SubState="dead", InvocationID="", UnitFileState="")
    found = service.describe("kimi", host.run, port=1)
    assert (found["exists"], found["active"], found["stage"], found["root_cause"]) == (False, False, "dead", None)
    assert found["invocation_id"] is None
    assert found["pid"] is None
    assert len(host.asked) == 1


def test_running_unit_is_described() -> None:
    host = Host("INFO:     Application startup complete.")
    found = service.describe("kimi", host.run)
    assert (found["exists"], found["active"], found["enabled"], found["stage"]) == (True, True, True, "listening")


def test_started_log_without_a_listener_is_not_listening() -> None:
    host = Host("INFO:     Application startup complete.")
    assert service.describe("kimi", host.run, port=1)["stage"] == "starting"
    host.log += (
        "\n(EngineCore pid=2) ERROR 11-29 16:03:00 [core.py:1] Traceback (most recent call last):"
        "\n(EngineCore pid=2) ERROR 11-29 16:03:00 [core.py:1] RuntimeError: boom"
    )
    found = service.describe("kimi", host.run, port=1)
    assert (found["stage"], found["root_cause"]["message"]) == ("dead", "RuntimeError: boom")


def test_dead_unit_tells_its_own_reason() -> None:
    log = (LOGS / "big_toolong.log").read_text()
    host = Host(log, ActiveState="activating", SubState="auto-restart", Result="exit-code", ExecMainStatus="1")
    found = service.describe("kimi", host.run)
    assert found["stage"] == "dead"
    assert found["root_cause"]["class"] == "engine_error"
    assert "262144" in found["root_cause"]["message"]


def test_engine_that_ended_well_and_was_forgotten_still_tells_its_reason() -> None:
    host = Host(ActiveState="inactive", SubState="dead", InvocationID="")
    host.logs["last"] = (
        "(APIServer pid=1) INFO:     Application startup complete."
        "\n(EngineCore pid=2) ERROR 11-29 16:03:00 [core.py:1] Traceback (most recent call last):"
        "\n(EngineCore pid=2) ERROR 11-29 16:03:00 [core.py:1] RuntimeError: found Float8_e4m3fn"
    )
    found = service.describe("kimi", host.run)
    assert found["invocation_id"] == "last"
    assert found["root_cause"]["message"] == "RuntimeError: found Float8_e4m3fn"


def test_systemd_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ServingError, match="service manager"):
        systemd.show("kimi", lambda arguments: (1, "", "System has not been booted with systemd as init system"))
    with pytest.raises(ServingError, match="did not answer within 30 s"):
        systemd.show("kimi", lambda arguments: (124, "", ""))


def test_long_journal_is_read_from_both_ends() -> None:
    asked: list[list[str]] = []

    def run(arguments: list[str]) -> tuple[int, str, str]:
        asked.append(arguments)
        grep = any(argument.startswith("--grep=") for argument in arguments)
        return 0, "GPU KV cache size: 190,000 tokens\n" if grep else "GET /health 200\n" * 10, ""

    log = journal.read("one", run, tail_lines=10)
    assert not log.complete
    assert log.lines[0].text == "GPU KV cache size: 190,000 tokens"
    assert len(log.lines) == 11
    assert "--all" in asked[0]
    assert len(asked) == 2


def test_journal_that_cannot_be_read_says_so() -> None:
    assert journal.read("", lambda arguments: (0, "", "")).problem is None
    assert "read it as root" in str(journal.read("one", lambda arguments: (0, "", "")).problem)
    assert "denied" in str(journal.read("one", lambda arguments: (1, "", "denied")).problem)


def test_runner_is_bounded_and_decodes_anything() -> None:
    seen: dict[str, object] = {}

    def run_command(arguments: list[str], **options: object) -> tuple[int, str, str]:
        seen.update(options, arguments=arguments)
        return 0, "", ""

    commands.bounded(run_command)(["systemctl"])
    assert seen["arguments"] == ["timeout", "30", "systemctl"]
    assert seen["errors"] == "surrogate_then_replace"


def test_watch_refuses_a_unit_that_is_absent_or_dead() -> None:
    with pytest.raises(ServingError, match="does not exist"):
        UnitWatch("kimi", Host(LoadState="not-found", ActiveState="inactive").run)
    dead = Host((LOGS / "big_toolong.log").read_text(), ActiveState="failed", Result="start-limit-hit")
    with pytest.raises(ServingError, match="too many restarts: ValueError") as caught:
        UnitWatch("kimi", dead.run)
    assert caught.value.facts["stage"] == "dead"


@pytest.mark.parametrize("changed", [{"InvocationID": "two"}, {"NRestarts": "1"}, {"ActiveState": "failed"}])
def test_watch_sees_a_death_at_once_and_reads_the_old_log(changed: dict[str, str]) -> None:
    host = Host()
    watch = UnitWatch("kimi", host.run, sleep=no_sleep)
    watch.check_alive()
    host.logs = {"one": (LOGS / "big_toolong.log").read_text()}
    host.show.update(changed)
    with pytest.raises(ServingError, match="To serve at least one request") as caught:
        watch.check_alive()
    cause = caught.value.facts["root_cause"]
    assert isinstance(cause, dict)
    assert cause["class"] == "engine_error"


def test_progress_is_what_is_new() -> None:
    shard = "Loading safetensors checkpoint shards:  {0}% Completed | {0}/119 [00:19<\n"
    host = Host("Starting to load model /m...\n" + shard.format(1))
    watch = UnitWatch("kimi", host.run)
    assert watch.look().moved
    assert not watch.look().moved
    host.log += shard.format(2)
    seen = watch.look()
    assert (seen.moved, seen.stage, seen.progress) == (
        True,
        "loading_weights",
        "Loading safetensors checkpoint shards 2/119",
    )
    host.log += "(EngineCore pid=1) INFO [shm.py:1] No available shared memory broadcast block found in 60 seconds."
    host.log += '\nINFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n'
    assert not watch.look().moved


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("vLLM is using nccl==2.28.9", "nccl_init_hang"),
        ("Loading safetensors checkpoint shards:  48% Completed | 57/119 [00:19<", "load_stalled"),
    ],
)
def test_a_stall_is_named_after_its_last_line(line: str, kind: str) -> None:
    watch = UnitWatch("kimi", Host(line).run)
    error = watch.stalled(watch.look(), 300)
    cause = error.facts["root_cause"]
    assert isinstance(cause, dict)
    assert cause["class"] == kind
    assert "300 s" in str(error)


def test_owner_of_the_port(tmp_path: Path) -> None:
    watch = UnitWatch("kimi", Host().run)
    assert "no listener" in str(watch.check_owner(8000, proc=tmp_path))
    (tmp_path / "net").mkdir()
    row = "0: 00000000:1F40 00000000:0000 0A 0:0 00:0 0 1000 0 77 1\n"
    (tmp_path / "net" / "tcp").write_text(f"header\n{row}")
    assert "may not be seen" in str(watch.check_owner(8000, proc=tmp_path))
    (tmp_path / "9" / "fd").mkdir(parents=True)
    (tmp_path / "9" / "fd" / "3").symlink_to("socket:[77]")
    (tmp_path / "9" / "cgroup").write_text("0::/system.slice/kimi.service")
    assert watch.check_owner(8000, proc=tmp_path) is None
    (tmp_path / "9" / "cgroup").write_text("0::/system.slice/vllm-glm5.service")
    with pytest.raises(ServingError, match=r"process 9 of vllm-glm5\.service"):
        watch.check_owner(8000, proc=tmp_path)
