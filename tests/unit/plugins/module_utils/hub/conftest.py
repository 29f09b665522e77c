# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small repository, a Hub that serves it, and a download into an empty place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.safetensors_header import read_header
from ansible_collections.blackwell.serving.plugins.module_utils.hub import lock as lock_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub import retry as retry_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub.api import Api
from ansible_collections.blackwell.serving.plugins.module_utils.hub.download import Surroundings, download
from ansible_collections.blackwell.serving.plugins.module_utils.hub.progress import Progress
from ansible_collections.blackwell.serving.plugins.module_utils.hub.retry import Retry
from ansible_collections.blackwell.serving.plugins.module_utils.hub.transport import Session
from ansible_collections.blackwell.serving.plugins.module_utils.hub.wanted import Wanted
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, make_repository

Fetch = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "origin")


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(retry_module, "FIRST_PAUSE_S", 0.005)
    monkeypatch.setattr(lock_module, "POLL_S", 0.01)
    with Hub(page_size=3) as hub:
        hub.add_repository(REPOSITORY, folder)
        yield hub


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "models" / "My Model 100% {{ x }}'é"


def run_process(arguments: list[str], data: str, started: Callable[[Any], None]) -> tuple[int, str, str]:
    """As AnsibleModule.run_command, with what these tests need of it."""
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        started(process)
        out, error = process.communicate(data, timeout=60)
    return process.returncode, out, error


@pytest.fixture
def fetch(hub: Hub, dest: Path) -> Fetch:
    """fetch(revision=..., verify=..., ...) -> the result; `attempts`, `token`, `stall_s` and `set_attributes` too."""

    def run(
        *,
        attempts: int = 4,
        deadline: float | None = None,
        token: str | None = None,
        stall_s: float = 10.0,
        progress_file: str | None = None,
        set_attributes: Callable[[str, bool], bool] = lambda path, is_folder: False,
        **options: Any,
    ) -> dict[str, Any]:
        wanted = Wanted(**{"repo_id": REPOSITORY, "dest": str(dest), **options})
        session = Session(hub.endpoint, token, stall_s=stall_s)
        retry = Retry(attempts=attempts, deadline=deadline)
        around = Surroundings(
            session,
            retry,
            lambda: Api(session, wanted.repo_id, retry),
            read_header,
            set_attributes,
            Progress(progress_file),
            run_process,
            sys.executable,
        )
        return download(wanted, around)

    return run
