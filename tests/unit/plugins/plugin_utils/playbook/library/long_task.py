# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that takes long and says so: it stands for the collection's long modules."""

from __future__ import annotations

import json
import os
import time

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "steps": {"type": "int", "default": 5},
    "seconds": {"type": "float", "default": 0.3},
    "ending": {"type": "str", "choices": ["changed", "fail", "kill", "stop"], "default": "changed"},
    "token": {"type": "str", "no_log": True},
    "progress_file": {"type": "path"},
}


def report(module: AnsibleModule, step: int) -> None:
    path = module.params["progress_file"]
    if path:
        with open(f"{path}.tmp", "w") as stream:
            json.dump({"state": "working", "done": step, "total": module.params["steps"], "pid": os.getpid()}, stream)
        os.replace(f"{path}.tmp", path)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if not module.check_mode:
        for step in range(module.params["steps"]):
            report(module, step)
            time.sleep(module.params["seconds"])
    ending = module.params["ending"]
    if ending == "kill":
        os.kill(os.getpid(), 9)
    if ending == "stop":  # as after a reboot: no process and no result
        os.killpg(os.getpgid(0), 9)
    if ending == "fail":
        module.fail_json(msg="it went wrong", answer=42)
    module.exit_json(changed=True, answer=42, background=module.params["progress_file"] is not None)


if __name__ == "__main__":
    main()
