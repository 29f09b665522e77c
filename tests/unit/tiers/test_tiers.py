# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of the tests: what it counts, and that nothing that failed or did not run ends as passed."""

from __future__ import annotations

import io
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import checks
import pytest
import tiers
from checks import code, documents, hosts, packaged, running
from checks.running import Done, Result, Tier
from simulation.host import requirements
from simulation.host.commands import HostError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(running, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def test_a_command_is_told_with_its_output_and_logged(cache: Path) -> None:
    tier = Tier("some")
    tier.run([sys.executable, "-c", "print('before')"])
    done = tier.run([sys.executable, "-c", "import sys; print('here'); sys.exit('wrong')"])
    assert (done.status, done.output) == (1, "here\nwrong\n")
    assert done.result("x") == Result("x", 0, 1, done.seconds, "here\nwrong\n")
    assert "before" in (cache / "some.log").read_text()


def test_a_command_that_fails_without_a_word_has_its_status_told() -> None:
    assert Tier("some").run([sys.executable, "-c", "raise SystemExit(3)"]).told() == "exit status 3 without any output"


def test_a_command_over_its_limit_fails_and_none_of_its_processes_is_left(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    started = time.monotonic()
    done = Tier("some").run(["sh", "-c", script], limit=0.5)
    assert done.status is None
    assert "stopped after its limit of 0.5 s" in done.result("x").output
    assert done.result("x").failed == 1
    assert time.monotonic() - started < 20
    state = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    deadline = time.monotonic() + 5
    while state.exists() and state.read_text().rpartition(") ")[2][0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_caller_s_settings_do_not_reach_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_CONFIG", "/nowhere")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--help")
    done = Tier("some").run(["env"])
    assert "ANSIBLE_CONFIG" not in done.output
    assert "PYTEST_ADDOPTS" not in done.output
    assert f"PATH={running.BIN}" in done.output


WHOLE = Result("pytest", 1, 0, 2.0)


@pytest.mark.parametrize(
    ("numbers", "whole", "expected"),
    [
        ('tests="9" failures="0" errors="0" skipped="2"', WHOLE, (7, 0, 2)),
        ('tests="9" failures="1" errors="2" skipped="0"', Result("pytest", 0, 1, 2.0), (6, 3, 0)),
        ('tests="9" failures="0" errors="0" skipped="0"', Result("pytest", 0, 1, 2.0), (9, 1, 0)),
        ('tests="0" failures="0" errors="0" skipped="0"', Result("pytest", 0, 1, 2.0), (0, 1, 0)),
    ],
)
def test_pytest_s_numbers(numbers: str, whole: Result, expected: tuple[int, int, int]) -> None:
    result = code.count_junit(f"<testsuites><testsuite {numbers}/></testsuites>", whole)
    assert (result.passed, result.failed, result.skipped) == expected


SANITY = 'Running sanity test "compile" on Python 3.11\nRunning sanity test "pep8"\nRunning sanity test "pylint"\n'


@pytest.mark.parametrize(
    ("output", "status", "expected"),
    [
        (SANITY, 0, (3, 0)),
        (SANITY + "FATAL: The 2 sanity test(s) listed below (out of 3) failed.\npep8\npylint", 1, (1, 2)),
        (SANITY + "FATAL: Command returned 1", 1, (2, 1)),
        ("ERROR: no git repository", 1, (0, 1)),
        (SANITY, None, (2, 1)),
    ],
)
def test_ansible_test_s_numbers(output: str, status: int | None, expected: tuple[int, int]) -> None:
    result = packaged.count_sanity(Done(status, output, 1.0, 9.0))
    assert (result.passed, result.failed) == expected


def test_what_should_not_be_published_is_found(tmp_path: Path) -> None:
    tarball = tmp_path / "x.tar.gz"
    sizes = {
        "plugins/a.py": 1,
        "tests/unit/test_a.py": 1,
        ".cache": None,
        ".cache/x": 1,
        "tests/simulation/a.py": 1,
        "plugins/__pycache__/a.pyc": 1,
        "big": (1 << 20) + 1,
    }
    with tarfile.open(tarball, "w:gz") as archive:
        for name, size in sizes.items():
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if size is None else tarfile.REGTYPE
            member.size = size or 0
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    assert packaged.unwanted_members(tarball) == [
        ".cache should not be published",
        "plugins/__pycache__/a.pyc should not be published",
        "tests/simulation/a.py should not be published",
        "big is over 1 MiB",
    ]


def test_everything_with_documentation_is_shown() -> None:
    assert "deployment_record" in documents.documented()["module"]
    assert "systemd_exec" in documents.documented()["filter"]


def test_the_whole_road_comes_last_and_no_scenario_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "ROOT", tmp_path)
    assert [(result.passed, result.failed) for result in hosts.molecule(Tier("molecule"))] == [(0, 1)]
    for name in ("default", "alpha", "zeta"):
        (tmp_path / "molecule" / name).mkdir(parents=True)
        (tmp_path / "molecule" / name / "molecule.yml").touch()
    assert hosts.scenarios() == ["alpha", "zeta", "default"]


def test_packages_that_cannot_be_installed_are_one_failure_with_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_packages: list[str]) -> None:
        raise HostError("apt-get ended with 100")

    monkeypatch.setattr(hosts, "scenarios", lambda: ["default"])
    monkeypatch.setattr(requirements, "missing_packages", lambda: ["podman", "runc"])
    monkeypatch.setattr(requirements, "install_packages", fail)
    (result,) = hosts.molecule(Tier("molecule"))
    assert result.failed == 1
    assert "install these packages by hand: podman runc" in result.output


def _good(_tier: Tier) -> Iterator[Result]:
    yield Result("a", 3, 0, 1.0, "quiet", skipped=1)
    yield Result("slow", 1, 0, 99.0)


def _bad(_tier: Tier) -> Iterator[Result]:
    yield Result("b", 2, 1, 1.0, "x" * 30_000 + " the reason")
    raise ValueError("a defect")


def _nothing(_tier: Tier) -> Iterator[Result]:
    return iter(())


@pytest.mark.parametrize(
    ("known", "words", "status", "last"),
    [
        ({"good": _good}, [], 0, "4 passed, 0 failed"),
        ({"bad": _bad, "good": _good}, [], 1, "6 passed, 2 failed"),
        ({"bad": _bad, "good": _good}, ["good"], 0, "4 passed, 0 failed"),
        ({"nothing": _nothing}, [], 1, "0 passed, 0 failed"),
    ],
)
def test_the_end_is_honest(
    known: dict[str, tiers.Checks],
    words: list[str],
    status: int,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tiers, "TIERS", known)
    monkeypatch.setattr(tiers, "CACHE", running.ROOT / ".cache")
    assert tiers.main(words) == status
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == last
    assert "quiet" not in out
    if "bad" in known and not words:
        assert "the reason" in out
        assert "10011 characters before this are in the log" in out
        assert "ValueError: a defect" in out


def test_a_tier_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tiers.main(["statics"])
    assert "there is no tier statics" in capsys.readouterr().err


def test_every_tier_of_the_makefile_exists() -> None:
    named = {
        word
        for text in (running.ROOT / "Makefile").read_text().splitlines()
        if "tests/tiers.py" in text
        for word in text.split("tests/tiers.py")[1].split()
    }
    assert named <= set(checks.TIERS)
