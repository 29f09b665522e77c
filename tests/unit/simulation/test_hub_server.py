# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated Hub is a Hub to the real client, and its faults are the faults they say."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from simulation.hub import Hub, Snapshot, client_environment

pytestmark = pytest.mark.slow

REPOSITORY = "org/tiny-model"
TESTS = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "tiny"}')
    (folder / "sub" / "é file.txt").write_text("text")
    (folder / "model-00001-of-00002.safetensors").write_bytes(bytes(range(256)) * 2000)
    (folder / "model-00002-of-00002.safetensors").write_bytes(bytes(reversed(range(256))) * 1000)
    return folder


def fetch(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


VERIFY = [sys.executable, "-m", "huggingface_hub.cli.hf", "cache", "verify"]
CLIENT = """
import json, sys
from huggingface_hub import HfApi, snapshot_download
endpoint, repository, target = sys.argv[1:]
api = HfApi(endpoint=endpoint, token=False)
snapshot_download(repository, local_dir=target, endpoint=endpoint, token=False)
files = [entry for entry in api.list_repo_tree(repository, recursive=True) if hasattr(entry, "blob_id")]
tree = {file.path: file.lfs.sha256 if file.lfs else file.blob_id for file in files}
paths = [p.path for p in api.get_paths_info(repository, ["config.json", "absent"])]
print(json.dumps({"sha": api.model_info(repository).sha, "tree": tree, "paths": paths}))
"""


@pytest.mark.parametrize("cdn", [False, True], ids=["one origin", "redirect to a CDN"])
def test_the_real_client_downloads_lists_and_verifies(folder: Path, tmp_path: Path, cdn: bool) -> None:
    target = tmp_path / "target"
    with Hub(cdn=cdn, page_size=3) as hub:
        commit = hub.add_repository(REPOSITORY, folder)
        environment = client_environment(hub.endpoint, tmp_path / "hf_home")
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, hub.endpoint, REPOSITORY, str(target)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        verify = subprocess.run(
            [*VERIFY, REPOSITORY, "--local-dir", str(target), "--fail-on-missing-files", "--fail-on-extra-files"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        pages = [record for record in hub.log.records() if "/tree/" in record.path]
        from_cdn = hub.log.records(origin="cdn", method="GET")
    answer = json.loads(client.stdout)
    assert answer["sha"] == commit
    assert answer["tree"].keys() == Snapshot.of(folder).entries.keys()
    assert answer["paths"] == ["config.json"]
    for name in answer["tree"]:
        assert (target / name).read_bytes() == (folder / name).read_bytes()
    assert verify.returncode == 0, verify.stderr + verify.stdout
    assert any("cursor=3" in record.path for record in pages)
    assert len(from_cdn) == (2 if cdn else 0)


def test_the_commit_is_a_function_of_paths_and_contents(folder: Path) -> None:
    commit = Snapshot.of(folder).commit
    os.utime(folder / "config.json", (1, 1))
    (folder / "config.json").chmod(0o600)
    assert Snapshot.of(folder).commit == commit
    (folder / "config.json").write_text("{}")
    assert Snapshot.of(folder).commit != commit


def test_ranges(folder: Path) -> None:
    data = (folder / "model-00001-of-00002.safetensors").read_bytes()
    with Hub() as hub:
        hub.add_repository(REPOSITORY, folder)
        url = f"{hub.endpoint}/{REPOSITORY}/resolve/main/model-00001-of-00002.safetensors"
        status, headers, body = fetch(url, Range="bytes=511000-")
        assert (status, body) == (206, data[511000:])
        assert headers["Content-Range"] == f"bytes 511000-{len(data) - 1}/{len(data)}"
        assert fetch(url, Range="bytes=5-9")[2] == data[5:10]
        status, headers, _body = fetch(url, Range=f"bytes={len(data)}-")
        assert (status, headers["Content-Range"]) == (416, f"bytes */{len(data)}")
        assert next(record.range for record in hub.log.records(file="*.safetensors")) == "bytes=511000-"


def test_errors_carry_the_code_that_the_client_dispatches_on(folder: Path) -> None:
    with Hub() as hub:
        hub.add_repository("org/private", folder, tokens=["right"])
        hub.add_repository("org/gated", folder, tokens=["right"], gated="manual")
        api = f"{hub.endpoint}/api/models"
        file = f"{hub.endpoint}/org/gated/resolve/main/config.json"
        cases: list[tuple[str, str | None, int, str | None]] = [
            (f"{api}/org/unknown", None, 401, "RepoNotFound"),
            (f"{api}/org/private", "wrong", 404, "RepoNotFound"),
            (f"{api}/org/private", "right", 200, None),
            (f"{api}/org/private/revision/v9", "right", 404, "RevisionNotFound"),
            (f"{api}/org/gated/tree/main", None, 200, None),
            (file, None, 401, "GatedRepo"),
            (file, "wrong", 403, "GatedRepo"),
            (file, "right", 200, None),
            (file + "x", "right", 404, "EntryNotFound"),
        ]
        for url, token, status, code in cases:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            answer = fetch(url, **headers)
            assert (answer[0], answer[1].get("X-Error-Code")) == (status, code), url


def test_faults(folder: Path) -> None:
    name = "model-00001-of-00002.safetensors"
    data = (folder / name).read_bytes()
    with Hub() as hub:
        hub.add_repository(REPOSITORY, folder)
        url = f"{hub.endpoint}/{REPOSITORY}/resolve/main/{name}"

        hub.fault(name, corrupt=100_000)
        body = fetch(url)[2]
        assert [i for i in range(len(data)) if body[i] != data[i]] == [100_000]

        hub.fault(name, short=7)
        assert fetch(url)[2] == data[:-7]

        hub.fault(name, ignore_range=True)
        assert fetch(url, Range="bytes=10-")[0::2] == (200, data)

        hub.fault(name, status=429, headers={"Retry-After": "2"}, times=2)
        assert [fetch(url)[0] for _try in range(3)] == [429, 429, 200]
        hub.fault("/api/models/*", status=503)
        assert fetch(f"{hub.endpoint}/api/models/{REPOSITORY}/revision/main")[0] == 503

        hub.fault(name, drop_after=1000)
        with pytest.raises(http.client.IncompleteRead) as caught:
            fetch(url)
        assert len(caught.value.partial) == 1000

        hub.fault(name, stall_after=1000)
        with urllib.request.urlopen(url, timeout=0.3) as answer:
            assert len(answer.read(1000)) == 1000
            with pytest.raises(TimeoutError):
                answer.read(1)
        assert fetch(url)[2] == data


def test_a_branch_moves_and_the_old_commit_stays(folder: Path) -> None:
    with Hub() as hub:
        first = hub.add_repository(REPOSITORY, folder)
        (folder / "added.txt").write_text("new")
        second = hub.push(REPOSITORY, folder)
        assert json.loads(fetch(f"{hub.endpoint}/api/models/{REPOSITORY}/revision/main")[2])["sha"] == second
        assert fetch(f"{hub.endpoint}/{REPOSITORY}/resolve/{first}/added.txt")[0] == 404
        assert fetch(f"{hub.endpoint}/{REPOSITORY}/resolve/{second}/added.txt")[2] == b"new"


def test_stop_cuts_connections_that_a_client_keeps(folder: Path) -> None:
    with Hub() as hub:
        hub.add_repository(REPOSITORY, folder)
        connection = http.client.HTTPConnection(hub.endpoint.removeprefix("http://"), timeout=5)
        connection.request("GET", f"/api/models/{REPOSITORY}")
        connection.getresponse().read()
        hub.stop()
        with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
            connection.request("GET", f"/api/models/{REPOSITORY}")
            connection.getresponse()


def test_the_program_serves_logs_and_prints_commits(folder: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    program = [sys.executable, "-m", "simulation.hub"]
    printed = subprocess.run(
        [*program, "--print-commit", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    ).stdout.strip()
    log = tmp_path / "requests.jsonl"
    server = subprocess.Popen(
        [*program, "--repository", f"{REPOSITORY}={folder}", "--port", "0", "--log", str(log)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        assert server.stdout.readline().split()[:2] == [REPOSITORY, printed]
        endpoint = server.stdout.readline().strip().removeprefix("HF_ENDPOINT=")
        assert fetch(f"{endpoint}/{REPOSITORY}/resolve/{printed}/config.json")[0] == 200
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=10) == 0
        server.stdout.close()
    record = json.loads(log.read_text())
    assert (record["file"], record["status"], record["authorization"]) == ("config.json", 200, False)
