# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_repo_info as a task sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.hub import retry as retry_module
from simulation.hub import Hub, Snapshot

REPOSITORY = "org/model"
RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-2.safetensors"}}
    (folder / "config.json").write_text('{"model_type": "kimi_k25"}')
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model-1.safetensors").write_bytes(b"1" * 100)
    (folder / "model-2.safetensors").write_bytes(b"2" * 200)
    (folder / "consolidated.safetensors").write_bytes(b"3" * 300)
    (folder / "README.md").write_text("text")
    return folder


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(retry_module, "FIRST_PAUSE_S", 0.005)
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with Hub() as hub:
        hub.add_repository(REPOSITORY, folder)
        yield hub


@pytest.mark.parametrize("check", [False, True])
def test_the_repository_as_data(hub: Hub, folder: Path, run_module: RunModule, check: bool) -> None:
    result = run_module("hf_repo_info", {"repo_id": REPOSITORY, "endpoint": hub.endpoint}, check=check)
    assert result["changed"] is False
    assert result["commit"] == Snapshot.of(folder).commit
    assert result["gated"] is False
    assert result["weights_bytes"] == 300
    assert result["total_bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert result["contents"].keys() == {"config.json", "model.safetensors.index.json"}
    assert result["contents"]["config.json"] == {"model_type": "kimi_k25"}
    files = {file["path"]: file for file in result["files"]}
    assert set(files["README.md"]) == {"path", "size", "git_sha1"}
    assert set(files["model-1.safetensors"]) == {"path", "size", "sha256"}
    assert result["notes"] == []


def test_the_index_counts_also_when_its_content_is_not_asked_for(hub: Hub, run_module: RunModule) -> None:
    result = run_module(
        "hf_repo_info", {"repo_id": REPOSITORY, "endpoint": hub.endpoint, "files": ["config.json", "absent.json"]}
    )
    assert result["weights_bytes"] == 300
    assert list(result["contents"]) == ["config.json"]


def test_without_an_index_all_safetensors_count(hub: Hub, folder: Path, run_module: RunModule) -> None:
    (folder / "model.safetensors.index.json").unlink()
    hub.push(REPOSITORY, folder)
    assert run_module("hf_repo_info", {"repo_id": REPOSITORY, "endpoint": hub.endpoint})["weights_bytes"] == 600


def test_an_index_that_lies_is_noted(hub: Hub, folder: Path, run_module: RunModule) -> None:
    (folder / "model-2.safetensors").unlink()
    hub.push(REPOSITORY, folder)
    (note,) = run_module("hf_repo_info", {"repo_id": REPOSITORY, "endpoint": hub.endpoint})["notes"]
    assert "model-2.safetensors" in note


def test_endpoint_and_token_come_from_the_host_where_no_option_is_given(
    hub: Hub, folder: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add_repository("org/private", folder, tokens=["right-token"])
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    assert run_module("hf_repo_info", {"repo_id": "org/private"})["failed"]
    monkeypatch.setenv("HF_TOKEN", "right-token")
    assert run_module("hf_repo_info", {"repo_id": "org/private"})["endpoint"] == hub.endpoint
    other = run_module("hf_repo_info", {"repo_id": "org/private", "token": "wrong-token"})
    assert other["failed"]
    assert "may not see it" in other["msg"]
    assert "wrong-token" not in json.dumps(other)
    assert "right-token" not in json.dumps(other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repo_id": "org/absent"}, "does not exist, or it is private"),
        ({"revision": "v9"}, "revision 'v9' does not exist"),
        ({"repo_id": "no name"}, "no repository name"),
        ({"files": ["README.md"]}, "not JSON"),
        ({"endpoint": "http://127.0.0.1:9"}, "cannot be reached"),
    ],
)
def test_each_error_is_one_message(hub: Hub, run_module: RunModule, arguments: dict[str, Any], message: str) -> None:
    result = run_module("hf_repo_info", {"repo_id": REPOSITORY, "endpoint": hub.endpoint, **arguments})
    assert result["failed"]
    assert message in result["msg"]


def test_rate_limit(hub: Hub, run_module: RunModule) -> None:
    hub.fault("/api/*", status=429, headers={"Retry-After": "1000"})
    result = run_module("hf_repo_info", {"repo_id": REPOSITORY, "endpoint": hub.endpoint})
    assert "rate limit" in result["msg"]
    assert "Set token" in result["msg"]
