# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tier of what people read: documentation of plugins and roles, the changelog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .running import BIN, ROOT, Result, Tier

COLLECTION = "blackwell.serving"
# Tells a reader of ansible-doc that something is wrong although it ends well.
COMPLAINTS = ("[WARNING]", "[DEPRECATION WARNING]", "[ERROR]")


def docs(tier: Tier) -> Iterator[Result]:
    """Every reference and every piece of markup is right, and every page can be shown."""
    lint = ["lint-collection-docs", "--plugin-docs", "--skip-rstcheck", "--disallow-unknown-collection-refs"]
    yield tier.run([BIN / "antsibull-docs", *lint, "--validate-collection-refs=dependent", "."]).result(
        "antsibull-docs"
    )
    yield tier.run([BIN / "antsibull-changelog", "lint"]).result("antsibull-changelog")
    for kind, names in documented().items():
        yield _shown(tier, kind, names)


def documented() -> dict[str, list[str]]:
    """The names of everything that ansible-doc can show, by its kind."""
    return {
        "module": _stems(ROOT / "plugins" / "modules"),
        "filter": _stems(ROOT / "plugins" / "filter"),
        "role": sorted(path.parent.parent.name for path in ROOT.glob("roles/*/meta/argument_specs.yml")),
    }


def _stems(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def _shown(tier: Tier, kind: str, names: list[str]) -> Result:
    title = f"ansible-doc, {len(names)} of kind {kind}"
    done = tier.run([BIN / "ansible-doc", "--type", kind, *[f"{COLLECTION}.{name}" for name in names]])
    result = done.result(title)
    if not names:
        return replace(result, passed=0, failed=1, output=f"there is nothing of kind {kind} to show")
    if any(complaint in done.output for complaint in COMPLAINTS):
        result = replace(result, passed=0, failed=1)
    if result.failed:
        lines = done.output.splitlines()
        told = [line for line in lines if any(complaint in line for complaint in COMPLAINTS)]
        return replace(result, output="\n".join(told) or done.told())
    return replace(result, passed=len(names))
