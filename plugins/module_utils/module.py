# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What every module does alike: end with one result, or with one error that says what to do."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.respawn import has_respawned, respawn_module

from .errors import ServingError


def finish(module: AnsibleModule, work: Callable[[], dict[str, Any]]) -> NoReturn:
    """Run `work` and leave with its result; a ServingError becomes the task's one error."""
    try:
        result = work()
    except ServingError as error:
        module.fail_json(msg=str(error), exception=traceback.format_exc(), **error.facts)
    except OSError as error:
        module.fail_json(
            msg=f"{error.strerror or error} ({error.filename or 'no file'})", exception=traceback.format_exc()
        )
    result.setdefault("changed", False)
    module.exit_json(**result)
    raise AssertionError("unreachable")


def unknown_until(stage: str, missing: str) -> dict[str, Any]:
    """The result in check mode when an input does not exist before an earlier stage has really run."""
    return {"changed": False, "unknown_until": stage, "msg": f"unknown until {stage}: {missing} does not exist yet"}


def respawn_into(module: AnsibleModule, python: str | None) -> None:
    """Go on in the given interpreter (a virtual environment's python); return when already there.

    A virtual environment's python is a link to a base interpreter, so prefixes are compared, not executables.
    """
    if python is None or has_respawned():
        return
    if not os.access(python, os.X_OK):
        raise ServingError(
            "the Python interpreter cannot be run",
            where=python,
            remedy="Install the engine first (role blackwell.serving.vllm_install), or correct the option python",
        )
    if os.path.dirname(os.path.dirname(os.path.abspath(python))) != sys.prefix:
        respawn_module(python)
