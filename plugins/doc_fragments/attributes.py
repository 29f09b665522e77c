# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The text of the attributes that every module states."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
  diff_mode:
    description: Returns what has changed, or would change in C(check_mode), when in diff mode.
  idempotent:
    description: A second run in a row outside check mode, with the same arguments, reports no change.
  platform:
    description: Target operating systems and families that can be operated against.
  action_group:
    description: Use C(group/blackwell.serving.serving) in C(module_defaults) to set defaults for this module.
    membership:
      - blackwell.serving.serving
"""

    # For the modules with an action plugin of the same name.
    ACTION = r"""
options: {}
attributes:
  action:
    description: Has a corresponding action plugin, so that a part of it runs on the controller.
  async:
    description: Supports being used with the C(async) keyword.
"""
