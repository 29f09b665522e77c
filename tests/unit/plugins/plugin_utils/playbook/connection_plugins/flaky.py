# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The local connection, which is lost for as many commands as the file FLAKY_FILE says, once the job runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import local

DOCUMENTATION = local.DOCUMENTATION


class Connection(local.Connection):  # type: ignore[misc]
    transport = "flaky"

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> Any:
        left = Path(os.environ["FLAKY_FILE"])
        if "progress" in cmd and (count := int(left.read_text())):
            left.write_text(str(count - 1))
            raise AnsibleConnectionFailure("Connection reset by peer")
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
