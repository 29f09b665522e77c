# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Hub on loopback, and hf_shard_download beside the plain client, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from simulation.hub import Hub, client_environment
from simulation.hub.samples import REPOSITORY, make_repository
from simulation.task import Task

Start = Callable[..., Task]
StartClient = Callable[..., subprocess.Popen[str]]


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
def environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    return client_environment(hub.endpoint, tmp_path / "home")


@pytest.fixture
def start(dest: Path, environment: dict[str, str]) -> Iterator[Start]:
    """start(lock="fail", ..., check=False, held=()) -> the task hf_shard_download, running."""
    tasks: list[Task] = []

    def run(*, check: bool = False, held: Sequence[str] = (), **options: Any) -> Task:
        arguments = {"repo_id": REPOSITORY, "dest": str(dest), **options}
        tasks.append(Task("hf_shard_download", arguments, environment, check=check, held=held))
        return tasks[-1]

    yield run
    for task in tasks:
        if task.process.poll() is None:
            task.kill()


@pytest.fixture
def start_client(environment: dict[str, str]) -> Iterator[StartClient]:
    """start_client("download", ...) -> the command hf, running."""
    processes: list[subprocess.Popen[str]] = []

    def run(*words: str, **settings: str) -> subprocess.Popen[str]:
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "huggingface_hub.cli.hf", *words],
                env={**environment, **settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
