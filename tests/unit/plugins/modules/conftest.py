# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module's main() as Ansible would, without a connection."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils import testing

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> RunModule:
    """run_module("gpu_info", {...}, check=False, diff=False) -> the JSON result; `failed` is in it when it failed."""

    def run(
        name: str, arguments: dict[str, Any] | None = None, *, check: bool = False, diff: bool = False
    ) -> dict[str, Any]:
        module = importlib.import_module(f"ansible_collections.blackwell.serving.plugins.modules.{name}")
        settings = {
            **(arguments or {}),
            "_ansible_check_mode": check,
            "_ansible_diff": diff,
            "_ansible_remote_tmp": "/tmp",
        }
        capsys.readouterr()
        with testing.patch_module_args(settings), pytest.raises(SystemExit):
            module.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
        return result

    return run
