# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Beside the real `hf`, through a proxy, with hf_xet, under a rate limit: what needs a process of its own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from simulation.hub import Hub, Snapshot, client_environment
from simulation.hub.samples import REPOSITORY, SHARDS, actions, make_repository, same_files
from simulation.task import ROOT, Task, wait_until

pytestmark = pytest.mark.slow

OWN = ".cache/huggingface/blackwell.serving"
Download = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "origin")


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "dest"


@pytest.fixture
def hub(folder: Path) -> Iterator[Hub]:
    with Hub(page_size=3) as hub:
        hub.add_repository(REPOSITORY, folder)
        yield hub


@pytest.fixture
def start(hub: Hub, dest: Path, tmp_path: Path) -> Iterator[Callable[..., Task]]:
    tasks = []

    def begin(environment: dict[str, str] | None = None, **options: Any) -> Task:
        arguments = {"repo_id": REPOSITORY, "dest": str(dest), **options}
        home = client_environment(hub.endpoint, tmp_path / "home")
        tasks.append(Task("hf_shard_download", arguments, {**home, **(environment or {})}))
        return tasks[-1]

    yield begin
    for task in tasks:
        task.kill()


@pytest.fixture
def hf(hub: Hub, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "huggingface_hub.cli.hf", *arguments],
            env=client_environment(hub.endpoint, tmp_path / "home of hf"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_hf_transfers_nothing_afterwards_and_verifies(
    hub: Hub, dest: Path, start: Callable[..., Task], hf: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    commit = start().result()["commit"]
    hub.log.clear()
    for revision in ("main", commit):
        run = hf("download", REPOSITORY, "--revision", revision, "--local-dir", str(dest))
        assert run.returncode == 0, run.stderr
        flags = ["--fail-on-missing-files", "--fail-on-extra-files"]
        run = hf("cache", "verify", REPOSITORY, "--revision", revision, "--local-dir", str(dest), *flags)
        assert run.returncode == 0, run.stdout + run.stderr
    assert hub.log.records(file="*") == []
    assert not start().result()["changed"]


def test_a_patched_file_is_all_that_hf_complains_about_and_is_named(
    dest: Path, start: Callable[..., Task], hf: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    start().result()
    pristine, patched = (dest / "config.json").read_bytes(), b'{"patched": true}'
    sha256 = hashlib.sha256(pristine).hexdigest()
    (dest / OWN / "pristine").mkdir()
    (dest / OWN / "pristine" / sha256).write_bytes(pristine)
    record = {"pristine_sha256": sha256, "patched_sha256": hashlib.sha256(patched).hexdigest(), "edits": []}
    (dest / OWN / "patches.json").write_text(json.dumps({"config.json": record}))
    (dest / "config.json").write_bytes(patched)
    result = start(verify="full").result()
    assert not result["changed"]
    assert (dest / "config.json").read_bytes() == patched
    (note,) = [note for note in result["notes"] if "patched on this host" in note]
    assert "config.json" in note
    run = hf("cache", "verify", REPOSITORY, "--local-dir", str(dest), "--fail-on-extra-files")
    assert run.returncode != 0
    assert "config.json" in run.stdout + run.stderr
    assert not any(shard in run.stdout + run.stderr for shard in SHARDS)


def test_the_proxy_of_the_host_is_used_and_so_is_no_proxy(hub: Hub, dest: Path, start: Callable[..., Task]) -> None:
    """The Hub answers requests for another host name only as that name's proxy."""
    proxy = {"HTTP_PROXY": hub.endpoint}
    result = start(proxy, endpoint="http://hub.invalid").result()
    assert not result.get("failed"), result["msg"]
    assert {record.path.partition("/api")[0].partition("/org")[0] for record in hub.log.records()} == {
        "http://hub.invalid"
    }
    (dest / SHARDS[0]).unlink()
    refused = start({**proxy, "NO_PROXY": "hub.invalid"}, endpoint="http://hub.invalid", timeout=2).result()
    assert "cannot be reached" in refused["msg"]
    assert "HTTPS_PROXY, NO_PROXY" in refused["msg"]


def test_rate_limits_are_waited_for_and_counted(hub: Hub, folder: Path, dest: Path, start: Callable[..., Task]) -> None:
    hub.fault("/api/models/*/tree/*", status=429, headers={"Retry-After": "1"}, times=2)
    hub.fault(SHARDS[1], status=429)
    begun = time.monotonic()
    result = start().result()
    assert time.monotonic() - begun >= 2
    assert result["rate_limited"] == 3
    assert same_files(folder, dest)
    assert [len(hub.log.records(file=shard)) for shard in SHARDS] == [1, 2, 1]


def test_xet_ends_with_a_killed_task_and_the_next_one_cleans_up(
    hub: Hub, folder: Path, dest: Path, tmp_path: Path, start: Callable[..., Task]
) -> None:
    hub.offer_xet(tmp_path / "store")
    hub.fault("*/xet-read-token/*", delay_s=20)
    task = start(engine="xet")
    wait_until(lambda: any((dest / OWN / "xet").glob("*/*")))
    (child,) = wait_for_children(task.process.pid)
    command = Path(f"/proc/{child}/cmdline").read_bytes()
    assert b"hf_xet" in command
    assert task.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists() or is_zombie(child), timeout_s=10)
    hub.faults.clear()
    result = start(engine="xet").result()
    assert [entry["path"].rpartition("/")[0] for entry in result["cleared_orphans"]] == [f"{OWN}/xet"]
    assert same_files(folder, dest)
    assert not hub.log.records(file="*.safetensors", method="GET")
    assert not start().result()["changed"]


def test_xet_never_shows_the_token(
    hub: Hub, folder: Path, dest: Path, tmp_path: Path, start: Callable[..., Task]
) -> None:
    hub.add_repository(REPOSITORY, folder, tokens=["canary-token"])
    hub.offer_xet(tmp_path / "store")
    hub.fault("*/xet-read-token/*", delay_s=2)
    task = start(engine="xet", token="canary-token")
    (child,) = wait_for_children(task.process.pid)
    for name in ("cmdline", "environ"):
        assert b"canary-token" not in Path(f"/proc/{child}/{name}").read_bytes()
    result = task.result()
    assert set(actions(result).values()) == {"downloaded"}
    assert "canary-token" not in json.dumps(result)


def test_the_progress_file_is_there_while_the_task_runs(hub: Hub, tmp_path: Path, start: Callable[..., Task]) -> None:
    hub.rate = 1_000_000
    path = tmp_path / "progress file"
    task = start(progress_file=str(path))
    wait_until(lambda: path.exists() and json.loads(path.read_text())["state"] == "downloading")
    assert json.loads(path.read_text())["shards"]["total"] == 3
    assert not task.result().get("failed")
    assert not path.exists()
    arguments = {"repo_id": REPOSITORY, "dest": str(tmp_path / "new"), "progress_file": str(path)}
    check = Task("hf_shard_download", arguments, client_environment(hub.endpoint, tmp_path / "home"), check=True)
    while check.process.poll() is None:
        assert not path.exists()
        time.sleep(0.005)
    assert check.result()["changed"]


def test_it_goes_on_in_another_interpreter(hub: Hub, folder: Path, dest: Path, tmp_path: Path) -> None:
    """As a real task: a virtual environment with nothing of its own, which sees the client of this one."""
    other = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True, timeout=60)
    (site,) = (other / "lib").glob("python*/site-packages")
    (site / "more.pth").write_text(f"{Path(huggingface_hub.__file__).parents[1]}\n")
    options = {
        "repo_id": REPOSITORY,
        "dest": str(dest),
        "python": str(other / "bin" / "python"),
        "progress_file": str(tmp_path / "progress"),
    }
    module = "blackwell.serving.hf_shard_download"
    task = subprocess.run(
        [sys.executable, "-m", "ansible", "adhoc", "localhost", "-c", "local", "-m", module, "-a", json.dumps(options)],
        env={
            **client_environment(hub.endpoint, tmp_path / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_LOCAL_TEMP": str(tmp_path / "ansible"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert task.returncode == 0, task.stdout + task.stderr
    assert Snapshot.of(folder).commit in task.stdout
    assert same_files(folder, dest)
    assert not (tmp_path / "progress").exists()


def wait_for_children(pid: int) -> list[int]:
    """The process that the task has begun and that has loaded hf_xet by now."""
    found: list[int] = []

    def look() -> bool:
        found.clear()
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(entry.read_text().rpartition(")")[2].split()[1])
                if parent == pid and "hf_xet" in (entry.parent / "maps").read_text():
                    found.append(int(entry.parent.name))
            except OSError:
                continue
        return bool(found)

    wait_until(look)
    return found


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
