# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiers that read and run the Python of the repository: static, unit, integration."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from .running import BIN, CACHE, ROOT, Argv, Result, Tier, install_packages

# Types are checked where they are promised; Ansible itself has none for us.
TYPED = ("plugins", "tests")


def static(tier: Tier) -> Iterator[Result]:
    """Style, types, YAML and shell, as text."""
    yield tier.run([BIN / "ruff", "check", "."]).result("ruff check")
    yield tier.run([BIN / "ruff", "format", "--check", "."]).result("ruff format")
    yield tier.run([BIN / "mypy", *TYPED], limit=600).result("mypy")
    yield tier.run([BIN / "yamllint", "--strict", "."]).result("yamllint")
    if failure := install_packages(tier, {"shellcheck": "shellcheck"}):
        yield failure
    else:
        yield tier.run(["shellcheck", *_shell_scripts()]).result("shellcheck")


def _shell_scripts() -> list[str]:
    found = [ROOT / ".ci" / "run"]
    found += [path for path in ROOT.rglob("*.sh") if not path.relative_to(ROOT).parts[0].startswith(".")]
    return sorted(str(path) for path in found)


def unit(tier: Tier) -> Iterator[Result]:
    """pytest over tests/unit; the tests of quoting ask systemd's own parser, which Debian packages as systemd."""
    if failure := install_packages(tier, {"systemd-analyze": "systemd", "ssh-keygen": "openssh-client"}):
        yield failure
    yield pytest(tier, "tests/unit", "--numprocesses=auto", "--dist=worksteal")


def integration(tier: Tier) -> Iterator[Result]:
    """pytest over tests/integration: roles and modules that need no host, one after the other: some race on purpose."""
    yield pytest(tier, "tests/integration")


def pytest(tier: Tier, folder: str, *options: str) -> Result:
    """One run of pytest, in its own numbers."""
    report = CACHE / f"{tier.name}.xml"
    report.unlink(missing_ok=True)
    argv: Argv = [
        BIN / "python",
        "-m",
        "pytest",
        folder,
        "-m",
        "not long",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        *options,
    ]
    whole = tier.run(argv, limit=1200).result("pytest")
    return count_junit(report.read_text(), whole) if report.exists() else whole


def count_junit(text: str, whole: Result) -> Result:
    """The command's result with the numbers of its JUnit report; an end in failure is never counted as none failed."""
    suites = list(ElementTree.fromstring(text).iter("testsuite"))  # noqa: S314 - pytest wrote it just now
    tests, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    failed = max(failures + errors, whole.failed)
    return Result(whole.name, max(tests - failures - errors - skipped, 0), failed, whole.seconds, whole.output, skipped)
