# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tier that needs whole hosts: molecule's scenarios, each with its own throw-away host."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.host import requirements
from simulation.host.commands import HostError

from .running import BIN, ROOT, Argv, Result, Tier

LIMIT = 1500  # seconds for one scenario
GLOB = "molecule/*/molecule.yml"


def scenarios() -> list[str]:
    """The scenarios by name; default, the whole road, comes last."""
    names = [path.parent.name for path in ROOT.glob(GLOB)]
    return sorted(names, key=lambda name: (name == "default", name))


def molecule(tier: Tier) -> Iterator[Result]:
    """Every scenario's whole sequence: create, check, converge, idempotence, verify, destroy."""
    names = scenarios()
    if not names:
        yield Result("scenarios", 0, 1, 0.0, f"there is no {GLOB}")
    if failure := _install(tier, requirements.missing_packages()):
        yield failure
        return
    for name in names:
        argv: Argv = [BIN / "molecule", "test", "--scenario-name", name]
        yield tier.run(argv, limit=LIMIT, environment={"MOLECULE_GLOB": GLOB}).result(name)


def _install(tier: Tier, packages: list[str]) -> Result | None:
    """What a throw-away host needs on this machine, before the first scenario looks for an old one to remove."""
    if not packages:
        return None
    print(f"{tier.name}: installing with apt-get: {' '.join(packages)}", flush=True)
    try:
        requirements.install_packages(packages)
    except HostError as error:
        return Result("packages", 0, 1, 0.0, f"{error}\ninstall these packages by hand: {' '.join(packages)}")
    return None
