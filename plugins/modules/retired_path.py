#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: retired_path
short_description: Remove a retired model's folder when nobody uses it
version_added: "0.1.0"
description:
  - Removes a folder of old weights, and refuses wherever that could hurt somebody.
  - Refused are paths close to the root, paths through symbolic links, mount points, folders that contain or lie in a
    protected path, and folders of which a live process has a file open or mapped.
  - The folder is renamed before it is removed; a run that was killed in between is finished by the next one.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    platforms: linux
    support: full
  action_group:
    support: full
options:
  path:
    description: Absolute path of the folder to remove.
    type: path
    required: true
  protected:
    description: Paths that must survive, for instance the folder of the model that is served now.
    type: list
    elements: path
    default: []
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Remove the old weights
  blackwell.serving.retired_path:
    path: /srv/models/zai-org/GLM-5
    protected:
      - /srv/models/nvidia/Kimi-K2.5-NVFP4
"""

RETURN = r"""
files:
  description: Files that were removed, or would be in check mode.
  returned: success
  type: int
freed_bytes:
  description: Bytes on disk that this gives back.
  returned: success
  type: int
shared_bytes:
  description: Bytes that stay because the files have further names outside the folder.
  returned: success
  type: int
holders:
  description: Live processes that use the folder; why the task failed.
  returned: when the folder is in use
  type: list
  elements: dict
  contains:
    pid:
      description: Process id.
      type: int
    command:
      description: The process's short name.
      type: str
    file:
      description: A path below the folder that it uses.
      type: str
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish
from ansible_collections.blackwell.serving.plugins.module_utils.storage import removal


def retire(path: str, protected: list[str], check_mode: bool) -> dict[str, Any]:
    removal.check_path(path, protected)
    leftover = f"{path.rstrip('/')}.removing"
    present = [name for name in (path, leftover) if os.path.lexists(name)]
    contents = [removal.measure(name) for name in present]
    result = {
        "changed": bool(present),
        "files": sum(content.files for content in contents),
        "freed_bytes": sum(content.bytes for content in contents),
        "shared_bytes": sum(content.shared_bytes for content in contents),
        "diff": {"before": "".join(f"{name}\n" for name in present), "after": ""},
    }
    if present:
        holders = removal.holders_of(path)
        if holders:
            raise ServingError(
                "the folder is in use",
                where=path,
                why=", ".join(f"pid {holder['pid']} ({holder['command']}) uses {holder['file']}" for holder in holders),
                remedy="End these processes, or keep the folder",
                facts={"holders": holders},
            )
        if not check_mode:
            removal.remove(path)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "protected": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: retire(module.params["path"], module.params["protected"], module.check_mode))


if __name__ == "__main__":
    main()
