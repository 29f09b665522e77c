# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real hf_xet against a store on disk: it brings files, its faults do not matter, it runs only when asked for."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub import xet as xet_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub import xet_process
from ansible_collections.blackwell.serving.plugins.module_utils.hub.answers import HubUnavailable
from ansible_collections.blackwell.serving.plugins.module_utils.hub.identity import RemoteFile
from ansible_collections.blackwell.serving.plugins.module_utils.hub.manifest import Manifest
from ansible_collections.blackwell.serving.plugins.module_utils.hub.retry import Retry
from ansible_collections.blackwell.serving.plugins.module_utils.hub.transport import ConnectionTrouble, HubAnswer
from ansible_collections.blackwell.serving.plugins.module_utils.hub.xet import wants_xet
from ansible_collections.blackwell.serving.plugins.module_utils.hub.xet_process import XetProcess
from simulation.hub import Hub, Snapshot
from simulation.hub.samples import REPOSITORY, SHARDS, actions, same_files

pytestmark = pytest.mark.slow

Fetch = Callable[..., dict[str, Any]]
OWN = ".cache/huggingface/blackwell.serving"


@pytest.fixture
def store(hub: Hub, tmp_path: Path) -> Path:
    hub.offer_xet(tmp_path / "store")
    return tmp_path / "store"


def over_http(hub: Hub) -> list[str]:
    """Shards whose bytes came from the Hub itself."""
    return sorted({str(record.file) for record in hub.log.records(file="*.safetensors", method="GET")})


def tokens_asked_for(hub: Hub) -> int:
    return sum("xet-read-token" in record.path for record in hub.log.records())


def damage(store: Path) -> None:
    """One byte of the stored data, not of the store's own bookkeeping."""
    for block in (store / "xet" / "xorbs" / "xorbs").iterdir():
        if not block.name.endswith(".tagset"):
            block.chmod(0o644)
            with block.open("r+b") as stream:
                stream.seek(300_000)
                byte = stream.read(1)
                stream.seek(300_000)
                stream.write(bytes([byte[0] ^ 1]))


@pytest.mark.usefixtures("store")
def test_xet_brings_the_shards(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    result = fetch(engine="xet", max_workers=3)
    assert over_http(hub) == []
    assert tokens_asked_for(hub) == 3
    assert same_files(folder, dest)
    assert set(actions(result).values()) == {"downloaded"}
    assert result["bytes"]["downloaded"] == result["bytes"]["total"]
    assert not any("xet" in note for note in result["notes"])
    assert not list((dest / OWN / "xet").iterdir())
    assert (dest / SHARDS[0]).stat().st_mode & 0o777 == 0o644
    assert not fetch(engine="xet")["changed"]
    known = Manifest.load(dest)
    assert known is not None
    assert {path for path, file in known.files.items() if file.xet} == set(SHARDS)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("engine", ["http", "auto"])
def test_nothing_of_xet_is_used_unasked(fetch: Fetch, hub: Hub, folder: Path, dest: Path, engine: str) -> None:
    fetch(engine=engine)
    assert same_files(folder, dest)
    assert over_http(hub) == SHARDS
    assert tokens_asked_for(hub) == 0
    assert "hf_xet" not in sys.modules
    assert "hf_xet" not in Path("/proc/self/maps").read_text()
    assert not (dest / OWN / "xet").exists()


@pytest.mark.usefixtures("store")
def test_auto_takes_xet_for_what_http_does_not_serve(fetch: Fetch, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xet_module, "HTTP_LIMIT_BYTES", 750_000)
    fetch(engine="auto")
    assert over_http(hub) == SHARDS[:2]
    large = RemoteFile("a", 60_000_000_000, "0" * 40, "0" * 64, True)
    monkeypatch.undo()
    assert wants_xet("auto", large, limited=False)
    assert not wants_xet("auto", large, limited=True)
    assert not wants_xet("http", large, limited=False)


def test_wrong_bytes_of_xet_come_once_more_over_http(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path, store: Path
) -> None:
    damage(store)
    result = fetch(engine="xet", max_workers=1)
    assert same_files(folder, dest)
    (note,) = [note for note in result["notes"] if "came by hf_xet with other bytes" in note]
    (shard,) = over_http(hub)
    assert shard in note
    (dest / shard).unlink()
    hub.log.clear()
    hub.fault(shard, corrupt=5, times=-1)
    with pytest.raises(ServingError, match=rf"other bytes.*{shard}"):
        fetch(engine="xet")
    assert len(hub.log.records(file=shard, method="GET")) == 1  # with hf_xet's, it came twice
    assert not (dest / shard).exists()


@pytest.mark.usefixtures("store")
def test_a_stall_is_killed_and_http_goes_on(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    hub.fault("*/xet-read-token/*", delay_s=30, times=-1)
    start = time.monotonic()
    result = fetch(engine="xet", stall_s=1.5)
    assert time.monotonic() - start < 20
    assert same_files(folder, dest)
    assert over_http(hub) == SHARDS
    (note,) = [note for note in result["notes"] if "hf_xet" in note]
    assert "wrote nothing for 2 s and was killed" in note
    assert tokens_asked_for(hub) <= 2  # two tries, not two for each shard
    assert not list((dest / OWN / "xet").iterdir())


@pytest.mark.usefixtures("store")
def test_a_broken_store_is_no_failure(fetch: Fetch, hub: Hub, folder: Path, dest: Path, store: Path) -> None:
    shutil.rmtree(store / "xet" / "xorbs")
    result = fetch(engine="xet")
    assert same_files(folder, dest)
    assert any("hf_xet failed, so HTTP was used" in note for note in result["notes"])


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(("token", "message"), [(None, "no token was given"), ("wrong", "has no access")])
def test_a_refusal_is_explained_as_over_http(
    fetch: Fetch, hub: Hub, folder: Path, token: str | None, message: str
) -> None:
    hub.add_repository(REPOSITORY, folder, tokens=["right"], gated="auto")
    with pytest.raises(ServingError, match=f"gated.*{message}"):
        fetch(token=token, engine="xet", include=["*.safetensors"])


@pytest.mark.usefixtures("store")
def test_the_token_reaches_the_hub_and_no_file(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    hub.add_repository(REPOSITORY, folder, tokens=["canary-token"])
    fetch(token="canary-token", engine="xet")
    assert over_http(hub) == []
    assert not any(b"canary" in path.read_bytes() for path in dest.rglob("*") if path.is_file())


@pytest.mark.usefixtures("store")
def test_a_part_is_continued_over_http(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    sha256 = Snapshot.of(folder).entries[SHARDS[1]].sha256
    (dest / OWN / "parts").mkdir(parents=True)
    (dest / OWN / "parts" / f"{sha256}.part").write_bytes((folder / SHARDS[1]).read_bytes()[:1000])
    assert actions(fetch(engine="xet"))[SHARDS[1]] == "resumed"
    assert over_http(hub) == [SHARDS[1]]


@pytest.mark.usefixtures("store")
def test_the_end_of_time_ends_the_process(fetch: Fetch, hub: Hub) -> None:
    hub.fault("*/xet-read-token/*", delay_s=30, times=-1)
    start = time.monotonic()
    with pytest.raises(HubUnavailable, match="time limit is over"):
        fetch(engine="xet", deadline=time.monotonic() + 2)
    assert time.monotonic() - start < 10


def test_what_a_killed_run_left_is_cleared(fetch: Fetch, dest: Path) -> None:
    left = dest / OWN / "xet" / ("0" * 64)
    (left / "home").mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"x" * 10_000)
    predicted = fetch(check_mode=True)["cleared_orphans"]
    assert [entry["path"] for entry in predicted] == [f"{OWN}/xet/{'0' * 64}"]
    assert predicted[0]["bytes"] >= 10_000
    assert fetch()["cleared_orphans"] == predicted
    assert not left.exists()


@pytest.mark.usefixtures("store")
def test_without_hf_xet_it_cannot_be_asked_for(
    fetch: Fetch, hub: Hub, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xet_process, "CHILD", xet_process.CHILD.replace("import hf_xet", "import no_such_hf_xet"))
    with pytest.raises(ServingError, match="hf_xet and huggingface_hub cannot be loaded"):
        fetch(engine="xet")
    assert not hub.log.records(file="*")
    monkeypatch.setattr(xet_module, "HTTP_LIMIT_BYTES", 0)
    fetch(engine="auto")
    assert over_http(hub) == SHARDS


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ('{"type": "RuntimeError", "text": "CAS", "status": null, "headers": {}}', "", "hf_xet: RuntimeError: CAS"),
        ("", "Segmentation fault", "ended with status 3 Segmentation fault"),
        ("not JSON", "", "ended with status 3"),
        ("{}", "", "ended with status 3"),
    ],
)
def test_what_the_process_says(tmp_path: Path, out: str, error: str, message: str) -> None:
    process = XetProcess(lambda *_order: (3, out, error), sys.executable, 5.0, Retry())
    with pytest.raises(ConnectionTrouble, match=message):
        process.fetch({"endpoint": "http://localhost"}, tmp_path, lambda used: None)


def test_a_status_of_the_hub_is_told_as_such(tmp_path: Path) -> None:
    out = '{"type": "E", "text": "t", "status": 429, "headers": {"retry-after": "7", "ratelimit": "t=5"}}'
    process = XetProcess(lambda *_order: (3, out, ""), sys.executable, 5.0, Retry())
    with pytest.raises(HubAnswer) as caught:
        process.fetch({"endpoint": "http://localhost"}, tmp_path, lambda used: None)
    assert (caught.value.status, caught.value.retry_after, caught.value.rate_limit) == (429, "7", "t=5")
