# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tiers of the tests: `make test` runs all of them, `python tests/tiers.py static docs` the named ones.

Each tier prints one line with its numbers and its time, and the output of what failed. A failed tier does not stop the
next. The last line is `N passed, N failed`; the exit status is 0 only when something passed and nothing failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from checks import TIERS
from checks.running import CACHE, ROOT, Result, Tier

SHOWN_CHARACTERS = 20_000
SLOW = 30  # seconds after which a single check is worth a line of its own

Checks = Callable[[Tier], Iterator[Result]]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tier", nargs="*", metavar="tier", help=f"of {', '.join(TIERS)}; none: all of them")
    names = parser.parse_args(words).tier
    unknown = sorted(set(names) - set(TIERS))
    if unknown:
        parser.error(f"there is no tier {', '.join(unknown)}; there are {', '.join(TIERS)}")
    return summarise({name: run_tier(name, checks) for name, checks in TIERS.items() if name in names or not names})


def run_tier(name: str, checks: Checks) -> Result:
    """All checks of one tier, as one result."""
    tier = Tier(name)
    started = time.monotonic()
    results = []
    try:
        for result in checks(tier):
            results.append(result)
            show(name, result)
    except Exception as error:  # one tier's defect must not hide what the others find
        results.append(Result(name, 0, 1, 0.0, f"{type(error).__name__}: {error}"))
        show(name, results[-1])
    whole = Result(
        name,
        sum(result.passed for result in results),
        sum(result.failed for result in results),
        time.monotonic() - started,
        skipped=sum(result.skipped for result in results),
    )
    print(line(whole), flush=True)
    return whole


def show(tier: str, result: Result) -> None:
    """What a person needs beside the tier's line: a failure's output, the time of a slow check."""
    if result.failed:
        text = result.output.strip()
        if len(text) > SHOWN_CHARACTERS:
            text = f"[{len(text) - SHOWN_CHARACTERS} characters before this are in the log]\n{text[-SHOWN_CHARACTERS:]}"
        print(f"--- {tier}: {result.name} failed\n{text}\n---", flush=True)
    elif result.seconds > SLOW:
        print(f"    {tier}: {result.name} passed in {result.seconds:.0f} s", flush=True)


def line(result: Result) -> str:
    """A row of the table."""
    skipped = f"{result.skipped:5d} skipped" if result.skipped else " " * 13
    return f"{result.name:<10}{result.passed:6d} passed{result.failed:5d} failed{skipped}{result.seconds:8.1f} s"


def summarise(results: dict[str, Result]) -> int:
    """The table, the place of the logs, the last line; -> the exit status."""
    passed = sum(result.passed for result in results.values())
    failed = sum(result.failed for result in results.values())
    seconds = sum(result.seconds for result in results.values())
    print("\n" + "\n".join(line(result) for result in results.values()))
    print(f"took {seconds:.0f} s; logs: {CACHE.relative_to(ROOT)}/*.log")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
