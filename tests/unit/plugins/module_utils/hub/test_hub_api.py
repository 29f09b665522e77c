# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Hub's API by the standard library: what is believed, what is tried again, who sees the token."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub import retry as retry_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub.answers import HubUnavailable, Subject, explain
from ansible_collections.blackwell.serving.plugins.module_utils.hub.api import Api
from ansible_collections.blackwell.serving.plugins.module_utils.hub.identity import parse_tree_entry
from ansible_collections.blackwell.serving.plugins.module_utils.hub.retry import Retry, asked_pause, timed
from ansible_collections.blackwell.serving.plugins.module_utils.hub.transport import HubAnswer, Session
from simulation.hub import Hub, Snapshot

REPOSITORY = "org/model"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_module, "FIRST_PAUSE_S", 0.005)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "sub" / "é #?%20.txt").write_text("x")
    (folder / "model.safetensors").write_bytes(b"w" * 1000)
    return folder


@pytest.fixture
def hub(folder: Path) -> Iterator[Hub]:
    with Hub(page_size=2, cdn=True) as hub:
        hub.add_repository(REPOSITORY, folder)
        yield hub


def api(hub: Hub, repo_id: str = REPOSITORY, token: str | None = None, **settings: Any) -> Api:
    return Api(Session(hub.endpoint, token, stall_s=10.0), repo_id, Retry(**settings))


def test_a_revision_is_resolved_and_its_tree_is_read_page_by_page(hub: Hub, folder: Path) -> None:
    snapshot = Snapshot.of(folder)
    revision = api(hub).resolve("main")
    assert (revision.commit, revision.gated) == (snapshot.commit, False)
    files = {file.path: file for file in api(hub).tree(revision.commit)}
    assert {(path, file.size, file.sha256) for path, file in files.items()} == {
        (entry.path, entry.size, entry.sha256) for entry in snapshot.entries.values()
    }
    for path, file in files.items():
        assert api(hub).read(revision.commit, file) == (folder / path).read_bytes()
    assert api(hub).resolve(revision.commit) == revision


def test_a_branch_with_a_slash(hub: Hub, folder: Path) -> None:
    commit = hub.push(REPOSITORY, folder, branch="refs/pr/1")
    assert api(hub).resolve("refs/pr/1").commit == commit


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_trouble_is_tried_again(hub: Hub, folder: Path, status: int) -> None:
    hub.fault("/api/*", status=status, times=3)
    client = api(hub)
    assert client.resolve("main").commit == Snapshot.of(folder).commit
    assert client.retry.rate_limited == (3 if status == 429 else 0)


def test_lasting_trouble_ends_with_the_remedy(hub: Hub) -> None:
    hub.fault("/api/*", status=503, times=-1)
    with pytest.raises(HubUnavailable, match=r"not able to answer .*HTTP 503.*mirror"):
        api(hub, attempts=3).resolve("main")
    assert len(hub.log.records()) == 3
    hub.faults.clear()
    hub.fault("/api/*", status=429, headers={"Retry-After": "30"}, times=-1)
    with pytest.raises(HubUnavailable, match=r"rate limit .*Retry-After 30.*Set token"):
        api(hub, deadline=time.monotonic() + 5).resolve("main")


def test_a_hub_that_is_not_there(folder: Path) -> None:
    with Hub() as hub:
        client = api(hub, attempts=2)
    with pytest.raises(HubUnavailable, match=r"cannot be reached .*proxy"):
        client.resolve("main")


def test_silence_is_trouble_too(hub: Hub) -> None:
    hub.fault("/api/*", delay_s=1.0)
    client = Api(Session(hub.endpoint, stall_s=0.1), REPOSITORY, Retry(attempts=1))
    with pytest.raises(HubUnavailable, match="no byte arrived in time"):
        client.resolve("main")


@pytest.mark.parametrize(
    ("repo_id", "token", "revision", "message"),
    [
        ("org/unknown", None, "main", "does not exist, or it is private and no token"),
        ("org/private", "wrong", "main", "or this token may not see it"),
        (REPOSITORY, None, "v9", "revision 'v9' does not exist"),
    ],
)
def test_refusals_of_the_listing(
    hub: Hub, folder: Path, repo_id: str, token: str | None, revision: str, message: str
) -> None:
    hub.add_repository("org/private", folder, tokens=["right"])
    with pytest.raises(ServingError, match=message):
        api(hub, repo_id, token).resolve(revision)
    assert len(hub.log.records()) == 1


def test_a_gated_repository_lists_but_does_not_give(hub: Hub, folder: Path) -> None:
    hub.add_repository("org/gated", folder, tokens=["right"], gated="manual")
    client = api(hub, "org/gated")
    revision = client.resolve("main")
    assert revision.gated == "manual"
    config = client.tree(revision.commit)[0]
    with pytest.raises(ServingError, match=r"gated and no token.*Accept its terms on http"):
        client.read(revision.commit, config)
    with pytest.raises(ServingError, match=r"account of this token has no access"):
        api(hub, "org/gated", "wrong").read(revision.commit, config)
    assert api(hub, "org/gated", "right").read(revision.commit, config) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("answer", "with_token", "message"),
    [
        (HubAnswer(401), False, "asks for a token"),
        (HubAnswer(401), True, "does not accept the token"),
        (HubAnswer(403), True, "no right"),
        (HubAnswer(404), False, "Check repo_id and endpoint"),
        (HubAnswer(403, {"X-Error-Message": "Access to this resource is disabled."}), True, "disabled"),
        (HubAnswer(404, {"X-Error-Code": "EntryNotFound"}), True, "file 'f' does not exist"),
        (HubAnswer(400), True, "refuses the request"),
    ],
)
def test_every_answer_has_its_remedy(answer: HubAnswer, with_token: bool, message: str) -> None:
    error = explain(answer, Subject("http://hub", "o/m", "main", with_token, "f"))
    assert message in str(error)
    assert error.remedy
    assert not isinstance(error, HubUnavailable)


def test_the_token_is_for_the_hub_alone(hub: Hub, folder: Path) -> None:
    hub.add_repository("org/private", folder, tokens=["right"])
    client = api(hub, "org/private", "right")
    commit = client.resolve("main").commit
    weights = next(file for file in client.tree(commit) if file.sha256)
    assert client.read(commit, weights) == b"w" * 1000
    assert all(record.authorization for record in hub.log.records(origin="hub"))
    (redirected,) = hub.log.records(origin="cdn")
    assert (redirected.status, redirected.authorization) == (200, False)


def test_the_token_follows_a_redirect_within_the_hub(hub: Hub, folder: Path) -> None:
    hub.add_repository("org/private", folder, tokens=["right"])
    commit = Snapshot.of(folder).commit
    hub.fault("/api/models/old/*", status=307, headers={"Location": "/api/models/org/private/revision/main"})
    assert api(hub, "old/name", "right").resolve("main").commit == commit
    hub.fault("/api/models/old/*", status=302, headers={"Location": "file:///etc/passwd"})
    with pytest.raises(ServingError, match="refuses the request"):
        api(hub, "old/name", "right", attempts=1).resolve("main")


def test_an_expired_signature_is_signed_anew(hub: Hub, folder: Path) -> None:
    client = api(hub)
    weights = next(file for file in client.tree(Snapshot.of(folder).commit) if file.sha256)
    hub.fault("model.safetensors", origin="cdn", status=403)
    assert client.read(Snapshot.of(folder).commit, weights) == b"w" * 1000
    assert len(hub.log.records(file="model.safetensors", origin="hub")) == 2


def test_bytes_that_are_not_the_published_ones_are_not_returned(hub: Hub, folder: Path) -> None:
    client = api(hub, attempts=2)
    config = next(file for file in client.tree(Snapshot.of(folder).commit) if file.path == "config.json")
    hub.fault("config.json", corrupt=2)
    assert client.read(Snapshot.of(folder).commit, config) == b'{"a": 1}'
    hub.fault("config.json", corrupt=2, times=-1)
    with pytest.raises(ServingError, match="other bytes than the Hub publishes"):
        client.read(Snapshot.of(folder).commit, config)


GOOD = {"type": "file", "path": "a.bin", "size": 3, "oid": "0" * 40}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "../a"}, "not written"),
        ({"size": -1}, "size"),
        ({"size": True}, "size"),
        ({"size": "3"}, "size"),
        ({"oid": "xyz"}, "blob id"),
        ({"oid": None}, "blob id"),
        ({"lfs": {"oid": "0" * 63, "size": 3}}, "sha256"),
        ({"lfs": []}, "lfs"),
    ],
)
def test_what_the_hub_sends_is_checked(change: dict[str, Any], message: str) -> None:
    assert parse_tree_entry(GOOD) is not None
    with pytest.raises(ServingError, match=message):
        parse_tree_entry({**GOOD, **change})


def test_folders_are_no_files_and_text_is_no_entry() -> None:
    assert parse_tree_entry({**GOOD, "type": "directory"}) is None
    with pytest.raises(ServingError, match="not an object"):
        parse_tree_entry("a")


def test_an_answer_that_is_no_json(hub: Hub, folder: Path) -> None:
    hub.fault("/api/*", status=200, headers={"Content-Type": "text/html"})
    with pytest.raises(ServingError, match="commit is not 40"):
        api(hub).resolve("main")


@pytest.mark.parametrize("repo_id", ["", "a/b/c", "../x", "a/..", "a b/c", "a/b?x", "/a", "a/b\n"])
def test_names_of_repositories(repo_id: str) -> None:
    with pytest.raises(ServingError, match="no repository name"):
        Api(Session("http://hub"), repo_id, Retry())


@pytest.mark.parametrize(
    "endpoint",
    [
        *("", "huggingface.co", "file:///etc", "https://user:secret@hub", "https://:secret@hub", "http://h?x=1"),
        *("http://h:99999", "http://h:port", "http://h:0", "http://[::1", "http://", "http://a b", "http://h\n"),
    ],
)
def test_addresses_of_endpoints(endpoint: str) -> None:
    with pytest.raises(ServingError, match="the endpoint is not") as caught:
        Session(endpoint)
    assert "secret" not in str(caught.value)


def test_an_answer_is_told_in_one_line() -> None:
    assert str(HubAnswer(404, message="no such\n  revision")) == "HTTP 404 no such revision"


def test_the_pause_that_the_hub_asks_for() -> None:
    assert asked_pause(HubAnswer(429, {"Retry-After": "2"})) == 2.0
    date = email.utils.formatdate(time.time() + 10, usegmt=True)
    pause = asked_pause(HubAnswer(503, {"Retry-After": date}))
    assert pause is not None
    assert 8.0 < pause <= 10.0
    assert asked_pause(HubAnswer(429, {"RateLimit": '"api";r=0;t=55'})) == 56.0
    assert asked_pause(HubAnswer(429, {"Retry-After": "soon"})) is None
    assert asked_pause(HubAnswer(429)) is None


def test_a_time_limit() -> None:
    assert timed(0).deadline is None
    with pytest.raises(ServingError, match="negative"):
        timed(-1)
    with pytest.raises(HubUnavailable, match="time limit is over"):
        Retry(deadline=time.monotonic() - 1).check()
