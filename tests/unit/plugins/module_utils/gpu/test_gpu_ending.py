# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending real processes, and the ones that /proc says cannot be ended."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.gpu import ending
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import Process, ProcessTable
from simulation.cards.beside import STUBBORN
from simulation.cards.proc import FakeProc

TABLE = ProcessTable()


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for child in started:
        child.kill()
        child.communicate()


def of(child: subprocess.Popen[bytes]) -> Process:
    process = TABLE.read(child.pid)
    assert process is not None
    return process


def test_sigterm_first_and_sigkill_for_the_deaf(children: list[subprocess.Popen[bytes]]) -> None:
    polite = subprocess.Popen(["sleep", "60"])
    deaf = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    bystander = subprocess.Popen(["sleep", "60"])
    children += [polite, deaf, bystander]
    assert deaf.stdout is not None and deaf.stdout.readline()
    ended = ending.end([of(polite), of(deaf)], TABLE, 0.3, 5)
    assert (ended.terminated, ended.killed, ended.survivors) == ([polite.pid], [deaf.pid], [])
    assert polite.wait(5) == -signal.SIGTERM and deaf.wait(5) == -signal.SIGKILL
    assert bystander.poll() is None


@pytest.mark.parametrize("pidfd", [True, False])
def test_a_pid_that_was_given_to_another_process_is_left_alone(
    children: list[subprocess.Popen[bytes]], pidfd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    child = subprocess.Popen(["sleep", "60"])
    children.append(child)
    other = dataclasses.replace(of(child), start_time=1)
    ended = ending.end([other], TABLE, 0.3, 0.3)
    assert ended.skipped == {child.pid: "pid_reused"} and child.poll() is None
    assert (ended.terminated, ended.killed, ended.survivors) == ([], [], [])
    assert ending.end([of(child)], TABLE, 5, 5).terminated == [child.pid]


def test_what_left_by_itself_was_not_ended(children: list[subprocess.Popen[bytes]]) -> None:
    child = subprocess.Popen(["sleep", "60"])
    process = of(child)
    child.kill()
    child.wait()
    assert ending.end([process], TABLE, 0.3, 0.3) == ending.Ended()


def test_an_unkillable_process_survives_within_the_time(tmp_path: Path) -> None:
    FakeProc(tmp_path).add(5120, "VLLM::Worker_TP0", state="D")
    table = ProcessTable(tmp_path)
    process = table.read(5120)
    assert process is not None
    sent: list[int] = []

    def deliver(_process: Process, number: int, _table: ProcessTable) -> str:
        sent.append(number)
        return "sent"

    started = time.monotonic()
    ended = ending.end([process], table, 0.2, 0.2, deliver=deliver)
    assert ended.survivors == [5120] and sent == [signal.SIGTERM, signal.SIGKILL]
    assert time.monotonic() - started < 3
