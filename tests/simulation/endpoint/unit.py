# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

"""A systemctl and a journalctl on PATH that tell what a folder holds."""

from pathlib import Path

SHOW = {
    "Id": "kimi.service",
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
    "InvocationID": "0123456789abcdef0123456789abcdef",
    "NRestarts": "0",
    "MainPID": "0",
    "NeedDaemonReload": "no",
    "ExecMainCode": "0",
    "ExecMainStatus": "0",
    "FragmentPath": "/etc/systemd/system/kimi.service",
    "UnitFileState": "enabled",
}


def tell(folder: Path, log: str = "", **show: str) -> None:
    """Write both programs into the folder; show: properties that differ from a healthy unit's."""
    folder.mkdir(exist_ok=True)
    texts = {"systemctl": "".join(f"{name}={value}\n" for name, value in {**SHOW, **show}.items()), "journalctl": log}
    for program, text in texts.items():
        (folder / f"{program}.txt").write_text(text)
        path = folder / program
        path.write_text(f'#!/bin/sh\ncat "{folder}/{program}.txt"\n')
        path.chmod(0o755)
