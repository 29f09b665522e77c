# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Processes that are never ended, whatever a rule says."""

from __future__ import annotations

import os
import re

from .processes import Process

# By the file they run, not by their title: a title is anyone's choice.
KEPT = (
    ("display server", re.compile(r"X|Xorg|Xorg\.bin|Xwayland|gnome-shell|kwin_(?:x11|wayland)|weston|sway|mutter")),
    ("persistence daemon", re.compile(r"nvidia-persistenced")),
    ("monitoring", re.compile(r"nv-hostengine|dcgmi|dcgm-exporter|dcgm.*|nvidia-smi")),
    ("fabric manager", re.compile(r"nv-fabricmanager|nvidia-imex|nvlsm")),
    ("power daemon", re.compile(r"nvidia-powerd")),
)


def protection_of(process: Process, own: set[int]) -> str | None:
    """Why the process must not be ended; None when nothing protects it. own: this process and its ancestors."""
    if process.pid in own:
        return "pid 1" if process.pid == 1 else "this automation"
    if process.executable is None and process.unknown.get("executable") == "kernel_thread_or_gone":
        return "kernel thread"
    name = os.path.basename(process.executable or "")
    return next((kind for kind, pattern in KEPT if pattern.fullmatch(name)), None)
