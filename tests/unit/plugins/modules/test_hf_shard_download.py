# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_shard_download as a task and as a process: the real client beside it, killed, doubled, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.hub import retry as retry_module
from simulation.hub import Hub, Snapshot, client_environment
from simulation.hub.samples import REPOSITORY, SHARDS, actions, make_repository, same_files, state_of

pytestmark = pytest.mark.slow

RunModule = Callable[..., dict[str, Any]]
TESTS = Path(__file__).resolve().parents[3]
TASK = """
import json, runpy, sys
sys.path.insert(0, sys.argv[1])
import conftest
from ansible.module_utils import testing
from ansible_collections.blackwell.serving.plugins.modules import hf_shard_download
with testing.patch_module_args({**json.loads(sys.argv[2]), "_ansible_remote_tmp": "/tmp"}):
    hf_shard_download.main()
"""
CLIENT = """
import json, sys
from huggingface_hub import HfApi, snapshot_download
repository, dest, commit = sys.argv[1:]
for revision in ("main", commit):
    snapshot_download(repository, revision=revision, local_dir=dest)
found = HfApi().verify_repo_checksums(repository, local_dir=dest)
wrong = [*map(str, found.mismatches), *found.missing_paths, *found.extra_paths]
print(json.dumps({"checked": found.checked_count, "wrong": wrong}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "origin")


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "dest"


@pytest.fixture
def hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(retry_module, "FIRST_PAUSE_S", 0.005)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf_home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with Hub(page_size=3) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        hub.add_repository(REPOSITORY, folder)
        yield hub


def task(hub: Hub, dest: Path, home: Path, **options: Any) -> subprocess.Popen[str]:
    """The module in a process of its own."""
    arguments = json.dumps({"repo_id": REPOSITORY, "dest": str(dest), **options})
    return subprocess.Popen(
        [sys.executable, "-c", TASK, str(TESTS), arguments],
        env=client_environment(hub.endpoint, home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, error = process.communicate(timeout=40)
    assert out, error
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_first_run_second_run_and_check_mode(
    hub: Hub, folder: Path, dest: Path, tmp_path: Path, run_module: RunModule
) -> None:
    options = {"repo_id": REPOSITORY, "dest": str(dest), "mode": "0640", "directory_mode": "0750"}
    predicted = run_module("hf_shard_download", options, check=True, diff=True)
    assert not dest.exists()
    assert not (tmp_path / "hf_home").exists()
    assert not any("agent-harnesses" in record.path for record in hub.log.records())
    first = run_module("hf_shard_download", options, diff=True)
    assert same_files(folder, dest)
    assert (first["changed"], predicted["changed"]) == (True, True)
    assert (first["files"], first["diff"]) == (predicted["files"], predicted["diff"])
    assert first["bytes"]["downloaded"] == predicted["bytes"]["downloaded"] == first["bytes"]["total"]
    assert {path.stat().st_mode & 0o777 for path in (dest, dest / "sub")} == {0o750}
    assert (dest / SHARDS[0]).stat().st_mode & 0o777 == 0o640
    assert first["commit"] == Snapshot.of(folder).commit

    before = state_of(dest)
    hub.log.clear()
    for check in (False, True):
        again = run_module("hf_shard_download", {**options, "revision": first["commit"]}, check=check, diff=True)
        assert not again["changed"]
        assert set(actions(again).values()) == {"kept"}
    assert hub.log.records() == []
    assert state_of(dest) == before

    options["mode"] = "0644"
    assert run_module("hf_shard_download", options, check=True)["changed"]
    assert state_of(dest) == before
    assert run_module("hf_shard_download", options)["changed"]
    assert not run_module("hf_shard_download", options)["changed"]


@pytest.mark.parametrize("pinned", [False, True])
def test_the_revision_is_resolved_by_the_client_of_the_host(
    hub: Hub, folder: Path, dest: Path, run_module: RunModule, pinned: bool
) -> None:
    revision = Snapshot.of(folder).commit if pinned else "main"
    run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest), "revision": revision})
    (request,) = [record for record in hub.log.records() if "/revision/" in record.path]
    assert "hf_hub/" in (request.user_agent or "")
    assert "xet" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(
    ("where", "environment", "found"),
    [
        ("env", {}, True),
        ("file", {}, True),
        ("file", {"HF_ENDPOINT": "https://another.example"}, False),
        ("file", {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, False),
        ("env", {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "true"}, False),
        ("file", {"HF_TOKEN": "wrong-token"}, False),
    ],
)
def test_the_token_of_the_host_is_found_by_the_rules_of_the_client(
    hub: Hub,
    folder: Path,
    dest: Path,
    tmp_path: Path,
    run_module: RunModule,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    environment: dict[str, str],
    found: bool,
) -> None:
    endpoint = hub.endpoint
    if where == "env":
        monkeypatch.setenv("HF_TOKEN", "canary-token")
    else:
        (tmp_path / "hf_home").mkdir()
        (tmp_path / "hf_home" / "token").write_text("canary-token\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hub.add_repository("org/private", folder, tokens=["canary-token"])
    options = {"repo_id": "org/private", "dest": str(dest), "endpoint": endpoint}
    for check in (True, False):
        result = run_module("hf_shard_download", options, check=check, diff=True)
        assert result.get("failed", False) != found, result.get("msg")
        assert "canary-token" not in json.dumps(result)
        assert not dest.exists() or b"canary-token" not in b"".join(entry[3] for entry in state_of(dest).values())


def test_a_token_that_is_none_is_refused_unseen(hub: Hub, dest: Path, run_module: RunModule) -> None:
    result = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest), "token": "canary\ntoken x"})
    assert "characters that no token has" in result["msg"]
    assert "canary" not in json.dumps(result)


def test_a_pinned_and_complete_destination_needs_no_interpreter(hub: Hub, dest: Path, run_module: RunModule) -> None:
    options = {"repo_id": REPOSITORY, "dest": str(dest), "python": "/nowhere/bin/python"}
    refused = run_module("hf_shard_download", options)
    assert "vllm_install" in refused["msg"]
    assert not dest.exists()
    assert not run_module("hf_shard_download", options, check=True).get("failed")
    commit = run_module("hf_shard_download", {**options, "python": sys.executable})["commit"]
    assert not run_module("hf_shard_download", {**options, "revision": commit})["changed"]


def test_without_the_client_the_message_names_it(
    hub: Hub, dest: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("huggingface_hub", "huggingface_hub.errors", "huggingface_hub.utils"):
        monkeypatch.setitem(sys.modules, name, None)
    result = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)})
    assert "huggingface_hub>=1.31" in result["msg"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repo_id": "org/absent"}, "does not exist, or it is private and no token"),
        ({"repo_id": "org/private", "token": "wrong-token"}, "this token may not see it"),
        ({"repo_id": "org/gated"}, "gated and no token was given"),
        ({"repo_id": "org/gated", "token": "wrong-token"}, "the account of this token has no access"),
        ({"revision": "v9"}, "revision 'v9' does not exist"),
        ({"revision": "0" * 40}, "does not exist"),
        ({"repo_id": "org/na--me"}, "no repository name"),
        ({"endpoint": "http://127.0.0.1:9"}, "cannot be reached"),
        ({"dest": "relative"}, "not an absolute path"),
        ({"dest": "/tmp/new\nline"}, "control characters"),
        ({"engine": "ftp"}, "value of engine must be one of"),
        ({"engine": "xet", "rate_limit_bytes_per_s": 5}, "cannot keep to a rate limit"),
    ],
)
def test_each_refusal_is_one_message(
    hub: Hub, folder: Path, dest: Path, run_module: RunModule, options: dict[str, Any], message: str
) -> None:
    hub.add_repository("org/private", folder, tokens=["right-token"])
    hub.add_repository("org/gated", folder, tokens=["right-token"], gated="auto")
    result = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest), **options})
    assert result["failed"]
    assert message in result["msg"]
    assert "wrong-token" not in json.dumps(result)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"owner": "nobody-of-that-name"}, "the owner does not exist on this host (nobody-of-that-name)"),
        ({"group": "nobody-of-that-name"}, "the group does not exist on this host (nobody-of-that-name)"),
        ({"mode": "0999"}, "mode is no mode ('0999')"),
        ({"directory_mode": "u=q"}, "directory_mode is no mode ('u=q')"),
    ],
)
def test_attributes_that_cannot_be_set_are_refused_before_the_first_byte(
    hub: Hub, dest: Path, run_module: RunModule, option: dict[str, str], message: str
) -> None:
    result = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest), **option})
    assert result["failed"]
    assert result["msg"].startswith(message)
    assert not dest.exists()


@pytest.mark.parametrize("program", ["/bin/cat", "/bin/true", "/tmp"])
def test_another_program_than_python_does_not_get_to_read_the_token(
    hub: Hub, dest: Path, run_module: RunModule, program: str
) -> None:
    options = {"repo_id": REPOSITORY, "dest": str(dest), "python": program, "token": "hf_canary"}
    result = run_module("hf_shard_download", options)
    assert result["msg"] == f"this is no Python interpreter ({program}). Correct the option python"
    assert "hf_canary" not in json.dumps(result)


def test_a_user_whom_an_earlier_task_makes_is_no_failure_of_check_mode(
    hub: Hub, dest: Path, run_module: RunModule
) -> None:
    options = {"repo_id": REPOSITORY, "dest": str(dest), "owner": "nobody-of-that-name", "mode": "u=rw,go=r"}
    assert run_module("hf_shard_download", options, check=True)["changed"]


@pytest.mark.parametrize("body", [b"<html>please log in</html>", b"", b"[]", b"{}", b"null", b'{"sha": 3}', b"\xff"])
@pytest.mark.parametrize("check", [False, True])
def test_an_answer_of_somebody_else_than_a_hub(
    hub: Hub, dest: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch, body: bytes, check: bool
) -> None:
    class Portal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        result = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)}, check=check)
        server.shutdown()
    assert result["failed"]
    assert result["msg"].startswith("the Hub's answer is not valid: ")


def test_errors_of_the_client_s_connection_are_tried_again(hub: Hub, dest: Path, run_module: RunModule) -> None:
    hub.fault("/api/models/*", status=503, times=2)
    hub.fault("/api/models/*", status=429, headers={"Retry-After": "0"})
    result = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)})
    assert result["changed"]
    hub.fault("/api/models/*", status=503, times=-1)
    failed = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest), "revision": "other"})
    assert "not able to answer" in failed["msg"]
    assert "HTTP 503" in failed["msg"]


def test_kill_9_in_the_middle_costs_no_byte_twice(hub: Hub, folder: Path, dest: Path, tmp_path: Path) -> None:
    sizes = {shard: (folder / shard).stat().st_size for shard in SHARDS}
    parts = dest / ".cache/huggingface/blackwell.serving/parts"
    hub.rate = 400_000
    process = task(hub, dest, tmp_path / "home")
    wait_until(lambda: parts.is_dir() and sum(part.stat().st_size for part in parts.iterdir()) > 600_000)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    wait_until(lambda: [record.outcome for record in hub.log.records(file="*.safetensors")] == ["client_gone"] * 3)
    had = {shard: (parts / f"{Snapshot.of(folder).entries[shard].sha256}.part").stat().st_size for shard in SHARDS}
    assert all(0 < had[shard] < sizes[shard] for shard in SHARDS)
    hub.rate = None
    hub.log.clear()
    result = result_of(task(hub, dest, tmp_path / "home"))
    assert same_files(folder, dest)
    assert {actions(result)[shard] for shard in SHARDS} == {"resumed"}
    assert result["bytes"]["resumed"] == sum(had.values())
    for shard in SHARDS:
        (request,) = hub.log.records(file=shard)
        assert request.range == f"bytes={had[shard]}-"
        assert request.bytes_sent == sizes[shard] - had[shard]
    assert not list(parts.iterdir())
    (again,) = [result_of(task(hub, dest, tmp_path / "home"))]
    assert not again["changed"]


def test_two_tasks_at_once(hub: Hub, folder: Path, dest: Path, tmp_path: Path) -> None:
    for shard in SHARDS:
        hub.fault(shard, delay_s=0.5)
    tasks = [task(hub, dest, tmp_path / f"home{number}") for number in (1, 2)]
    results = [result_of(process) for process in tasks]
    assert sorted(result["changed"] for result in results) == [False, True]
    assert [len(hub.log.records(file=shard, method="GET")) for shard in SHARDS] == [1, 1, 1]
    assert same_files(folder, dest)


def test_a_task_that_must_not_wait_names_the_writer(hub: Hub, dest: Path, tmp_path: Path) -> None:
    hub.rate = 50_000
    first = task(hub, dest, tmp_path / "home1")
    lock = dest / ".cache/huggingface/blackwell.serving/lock"
    wait_until(lambda: lock.exists() and bool(lock.read_text()))
    second = result_of(task(hub, dest, tmp_path / "home2", lock="fail"))
    assert second["failed"]
    assert "another writer is active" in second["msg"]
    assert second["writer"].startswith(f"pid {first.pid} on ")
    hub.rate = None
    assert result_of(first)["changed"]
    assert lock.read_text() == ""


def test_the_real_client_transfers_nothing_afterwards_and_verifies(
    hub: Hub, dest: Path, tmp_path: Path, run_module: RunModule
) -> None:
    commit = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)})["commit"]
    hub.log.clear()
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, REPOSITORY, str(dest), commit],
        env=client_environment(hub.endpoint, tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert client.returncode == 0, client.stderr
    assert json.loads(client.stdout) == {"checked": 7, "wrong": []}
    assert hub.log.records(file="*") == []
    assert not run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)})["changed"]


def test_what_the_real_client_downloaded_is_adopted(
    hub: Hub, dest: Path, tmp_path: Path, run_module: RunModule
) -> None:
    subprocess.run(
        [sys.executable, "-m", "huggingface_hub.cli.hf", "download", REPOSITORY, "--local-dir", str(dest)],
        env=client_environment(hub.endpoint, tmp_path / "home"),
        capture_output=True,
        timeout=60,
        check=True,
    )
    hub.log.clear()
    result = run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)})
    assert set(actions(result).values()) == {"adopted"}
    assert hub.log.records(file="*") == []
    assert not run_module("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)})["changed"]


def test_memory_stays_bounded(hub: Hub, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.mkdir()
    for number in range(2):
        with (big / f"model-{number}.bin").open("wb") as stream:
            stream.truncate(60_000_000 + number)
    hub.add_repository("org/big", big)
    # Not ru_maxrss: Linux carries that over from the process that started this one, which is pytest with all its tests.
    measure = TASK.replace(
        "    hf_shard_download.main()",
        "    try:\n        hf_shard_download.main()\n    finally:\n"
        "        (peak,) = [line for line in open('/proc/self/status') if line.startswith('VmHWM:')]\n"
        "        print(peak.split()[1], file=sys.stderr)",
    )
    arguments = json.dumps({"repo_id": "org/big", "dest": str(tmp_path / "dest"), "_ansible_remote_tmp": "/tmp"})
    run = subprocess.run(
        [sys.executable, "-c", measure, str(TESTS), arguments],
        env=client_environment(hub.endpoint, tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(run.stdout.splitlines()[-1])["bytes"]["downloaded"] == 120_000_001
    # In KiB: some 42,000 with the interpreter and the client; one file held as a whole adds 58,600.
    assert int(run.stderr.splitlines()[-1]) < 80_000, run.stderr
    assert os.path.getsize(tmp_path / "dest" / "model-1.bin") == 60_000_001
