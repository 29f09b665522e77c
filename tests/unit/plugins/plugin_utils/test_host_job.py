# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shell scripts, run by the real /bin/sh on real files and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.plugin_utils.host_job import (
    FINISHED,
    GONE,
    RUNNING,
    Look,
    ShellScript,
    clean,
    look,
    parse_look,
)

BEGUN = {"started": True, "finished": False, "ansible_job_id": "j4711.99"}
HOURS_AGO = time.time() - 2 * 3600


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / f"j{os.getpid()}4711.99"


@pytest.fixture
def progress(tmp_path: Path) -> Path:
    return tmp_path / "own.progress"


@pytest.fixture
def process(job: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What async_wrapper looks like to others: the first part of the job's name is an argument."""
    words = [sys.executable, "-c", "import time; time.sleep(60)", job.name.partition(".")[0], "3600"]
    with subprocess.Popen(words) as running:
        yield running
        running.kill()


def run(script: ShellScript) -> str:
    read = subprocess.run(
        ["/bin/sh", "-c", script.reading], input=script.text, capture_output=True, text=True, timeout=20, check=False
    )
    assert read.returncode == 0
    assert read.stderr == ""
    return read.stdout


def seen(job: Path, progress: Path, wait_s: float = 0) -> Look:
    answer = parse_look(run(look(str(job), str(progress), wait_s)))
    assert answer is not None
    return answer


@pytest.mark.usefixtures("process")
def test_a_running_job_and_its_progress(job: Path, progress: Path) -> None:
    job.write_text(json.dumps(BEGUN))
    assert seen(job, progress) == Look(RUNNING, None, [])
    progress.write_text(json.dumps({"state": "downloading", "bytes": {"done": 1}}, indent=2))
    assert seen(job, progress) == Look(RUNNING, {"state": "downloading", "bytes": {"done": 1}}, [])


@pytest.mark.usefixtures("process")
def test_the_file_of_older_wrappers(job: Path, progress: Path) -> None:
    job.write_text('{"started": 1, "finished": 0, "ansible_job_id": "j4711.99"}')
    assert seen(job, progress).state == RUNNING


@pytest.mark.usefixtures("process")
def test_a_waiting_job_brings_the_progress_of_the_others(job: Path, progress: Path) -> None:
    job.write_text(json.dumps(BEGUN))
    progress.write_text('{"state": "waiting", "writer": "pid 42 on gpu1"}')
    progress.with_name("other.progress").write_text('{"state": "downloading", "pid": 42}\n')
    progress.with_name("broken.progress").write_text('{"state": "down')
    assert seen(job, progress).others == [{"state": "downloading", "pid": 42}]


@pytest.mark.parametrize("result", ['{"changed": true, "msg": ""finished": false"}', '{"failed": true}\n', ""])
def test_any_result_is_the_end(job: Path, progress: Path, result: str) -> None:
    job.write_text(result)
    assert seen(job, progress, 5).state == FINISHED


def test_a_job_without_a_file_has_ended(job: Path, progress: Path) -> None:
    assert seen(job, progress, 5).state == FINISHED


def test_a_job_without_a_process_and_a_result_is_gone(job: Path, progress: Path) -> None:
    job.write_text(json.dumps(BEGUN))
    assert seen(job, progress).state == GONE


@pytest.mark.usefixtures("process")
def test_the_wait_ends_with_the_job(job: Path, progress: Path) -> None:
    job.write_text(json.dumps(BEGUN))
    script = look(str(job), str(progress), 20)
    began = time.monotonic()
    words = ["/bin/sh", "-c", script.whole]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as waiting:
        time.sleep(0.5)
        job.write_text('{"changed": false}')
        output, _errors = waiting.communicate(timeout=10)
    assert parse_look(output) == Look(FINISHED, None, [])
    assert time.monotonic() - began < 10


@pytest.mark.usefixtures("process")
def test_the_wait_has_an_end(job: Path, progress: Path) -> None:
    job.write_text(json.dumps(BEGUN))
    began = time.monotonic()
    assert seen(job, progress, 0.6).state == RUNNING
    assert time.monotonic() - began >= 0.5


def test_what_a_login_prints_is_passed_over() -> None:
    assert parse_look("Welcome to gpu1\r\nrunning\r\n{}\r\n") == Look(RUNNING, {}, [])
    assert parse_look("sudo: command not found\n") is None
    assert parse_look("") is None


@pytest.mark.usefixtures("process")
def test_clean_removes_the_jobs_files_and_old_ones_that_nobody_asks_about(job: Path, progress: Path) -> None:
    folder = job.parent
    kept = [folder / "j1.1", folder / "young.progress", job.with_name(f"{job.name.partition('.')[0]}.100")]
    old = [folder / "j2.2", folder / "j3.3", folder / "old.progress"]
    for path in (*kept, *old, job, progress):
        path.write_text("{}")
    (folder / "j3.3").write_text(json.dumps(BEGUN))  # it has no process
    kept[2].write_text(json.dumps(BEGUN))  # it has one
    for path in (*old, kept[2]):
        os.utime(path, (HOURS_AGO, HOURS_AGO))
    assert run(clean(str(job), str(progress))) == ""
    assert sorted(folder.iterdir()) == sorted(kept)


def test_names_with_blanks_and_quotes(tmp_path: Path) -> None:
    folder = tmp_path / "it's a $folder"
    folder.mkdir()
    job = folder / "j1.1"
    job.write_text("{}")
    assert seen(job, folder / "own.progress").state == FINISHED
    subprocess.run(["/bin/sh", "-c", clean(str(job), str(folder / "x")).whole], check=True, timeout=20)
    assert not job.exists()
