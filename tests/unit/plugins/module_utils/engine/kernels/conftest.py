# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fit() asked of an installation in miniature, in an interpreter with a torch and a triton in miniature."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.child import Runner
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.decode_call import BACKEND_FILE
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.fit import fit
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelFit, KernelShape
from simulation.decode_kernels import BACKEND, KERNEL_FILE, KERNELS, PACKAGES, SHAPE, Processes, write_all


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    """An installation with the two files that matter."""
    return write_all(tmp_path / "installation", {BACKEND_FILE: BACKEND, KERNEL_FILE: KERNELS})


def make_environment(home: Path) -> Path:
    """A virtual environment with the small torch and triton -> its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=60)
    return write_all(next(home.glob("lib/python3*/site-packages")), PACKAGES)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a virtual environment that no test changes; its python is bin/python."""
    home = tmp_path_factory.mktemp("kernels") / "venv"
    make_environment(home)
    return home


@pytest.fixture
def own_packages(tmp_path: Path) -> Path:
    """The site-packages of an environment that the test may change; its python is ../../../bin/python."""
    return make_environment(tmp_path / "own")


@pytest.fixture
def processes() -> Processes:
    return Processes()


Ask = Callable[..., list[KernelFit]]


@pytest.fixture
def ask(site_packages: Path, environment: Path, tmp_path: Path, processes: Processes) -> Ask:
    """fit() of the miniature on 12.0, with bfloat16 and fp8; any argument can be given instead."""

    def asked(
        capability: str = "12.0",
        shape: KernelShape = SHAPE,
        dtypes: tuple[str, ...] = ("bfloat16", "fp8"),
        *,
        python: str | None = str(environment / "bin" / "python"),
        cache_dir: Path | None = tmp_path / "cache",
        run: Runner = processes,
        check: bool = False,
        backends: dict[str, str | None] | None = None,
    ) -> list[KernelFit]:
        return fit(
            site_packages,
            capability,
            shape,
            dtypes,
            python=python,
            cache_dir=cache_dir,
            run=run,
            check=check,
            backends=backends,
        )

    return asked
