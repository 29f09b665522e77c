# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A download in the terminal: how far it is, and what Ctrl-C leaves behind, over ssh and sudo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulation.hub import Hub
from simulation.play import Play, Task
from testinfra.host import Host

PROJECT = Path(__file__).resolve().parents[3]
PUBLISHED = PROJECT / "tests/simulation/model/checkpoint"
SHARDS = sorted(path.name for path in PUBLISHED.glob("*.safetensors"))
REPOSITORY = "acme/slow"
RATE = 300_000  # bytes per second of one answer
CANARY = "hf_canary91c04e"


def jobs_folder(host: Host) -> str:
    """Where the background jobs of tasks with become leave their files."""
    return f"{host.user('root').home}/.ansible_async/blackwell.serving"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub(rate=RATE) as hub:
        hub.add_repository(REPOSITORY, PUBLISHED)
        yield hub


def play(folder: Path, task: Task, *arguments: str, interrupt_at: str | None = None) -> Play:
    return Play(
        folder,
        {"fetched": task},
        *arguments,
        hosts=str(PROJECT / "inventories/demo"),
        connection="ssh",
        become=True,
        environment={
            "ANSIBLE_PYTHON_INTERPRETER": "auto_silent",
            "ANSIBLE_ASYNC_DIR": "~/.ansible_async",
            "ANSIBLE_REMOTE_TMP": "~/.ansible/tmp",
        },
        interrupt_at=interrupt_at,
    )


def fetch(hub: Hub, dest: str) -> Task:
    return {
        "blackwell.serving.hf_shard_download": {
            "repo_id": REPOSITORY,
            "dest": dest,
            "endpoint": hub.endpoint,
            "token": CANARY,
            "python": "/opt/hub-client/bin/python",
            "max_workers": 1,
        }
    }


def jobs(host: Host) -> list[str]:
    with host.sudo():
        return host.run("ls -A %s", jobs_folder(host)).stdout.split()


def test_a_download_shows_how_far_it_is(hub: Hub, host: Host, tmp_path: Path) -> None:
    shown = play(tmp_path, fetch(hub, "/srv/shown"), "-vvv")
    lines = shown.lines(host="demo-host")
    moving = re.compile(r"demo-host: downloading \d+ % [\d.]+/[\d.]+ MB at \d+ kB/s, eta \d+ s, shards \d/\d")
    assert any(moving.match(line) for line in lines), lines
    assert lines[-1].startswith("demo-host: downloaded "), lines
    assert shown.results("demo-host")["fetched"]["changed"]
    assert CANARY not in shown.output
    assert jobs(host) == []


def test_after_ctrl_c_the_next_play_waits_and_says_for_whom(hub: Hub, host: Host, tmp_path: Path) -> None:
    first = play(tmp_path, fetch(hub, "/srv/interrupted"), interrupt_at="demo-host: downloading")
    assert "User interrupted execution" in first.output
    second = play(tmp_path, fetch(hub, "/srv/interrupted"))
    waiting = [line for line in second.lines(host="demo-host") if "waiting for pid " in line]
    assert waiting
    assert re.search(r"pid \d+ on \S+ since \S+: downloading \d+ % ", waiting[0]), waiting
    result = second.results("demo-host")["fetched"]
    assert result["changed"] is False
    assert result["bytes"]["downloaded"] == 0
    assert [len(hub.log.records(file=shard, method="GET")) for shard in SHARDS] == [1] * len(SHARDS)


def test_a_later_run_removes_what_the_interrupted_one_left(hub: Hub, host: Host, tmp_path: Path) -> None:
    with host.sudo():
        host.run_expect([0], "find %s -type f -exec touch -d '2 hours ago' {} +", jobs_folder(host))
    play(tmp_path, fetch(hub, "/srv/interrupted"))
    assert jobs(host) == []
