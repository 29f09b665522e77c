#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_info
short_description: Free space of the file systems that paths lie on
version_added: "0.1.0"
description:
  - Says how much the file system of a path can still take.
  - A path that does not exist yet is measured at its nearest existing parent.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
  idempotent:
    support: full
  platform:
    platforms: linux
    support: full
  action_group:
    support: full
options:
  paths:
    description: Absolute paths to ask for.
    type: list
    elements: path
    required: true
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Ask whether the weights would fit
  blackwell.serving.storage_info:
    paths: [/srv/models, /dev/shm]
  register: storage
"""

RETURN = r"""
paths:
  description: One entry for each path, in the order asked.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: The path as asked.
      type: str
    existing_parent:
      description: The path itself, or its nearest parent that exists.
      type: str
    exists:
      description: Whether the path exists.
      type: bool
    total_bytes:
      description: Size of the file system in bytes.
      type: int
    free_bytes:
      description: Bytes that a user without privileges may still use.
      type: int
    free_inodes:
      description: Inodes that a user without privileges may still use; 0 on file systems without a fixed number.
      type: int
    read_only:
      description: Whether the file system is mounted read-only.
      type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish
from ansible_collections.blackwell.serving.plugins.module_utils.storage import space


def main() -> None:
    module = AnsibleModule(
        argument_spec={"paths": {"type": "list", "elements": "path", "required": True}},
        supports_check_mode=True,
    )
    finish(module, lambda: {"paths": [space.space_of(path).as_dict() for path in module.params["paths"]]})


if __name__ == "__main__":
    main()
