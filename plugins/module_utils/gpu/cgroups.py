# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which systemd unit, and which container, a process belongs to: the text of /proc/PID/cgroup."""

from __future__ import annotations

import re

CONTAINER = re.compile(
    r"(?:^|/)(?:(?:docker|libpod|crio|cri-containerd|containerd|nerdctl)[-/])?([0-9a-f]{64})(?:\.scope)?(?=/|$)"
)


def _paths(text: str) -> tuple[str | None, list[str]]:
    """The path in systemd's own hierarchy, and the paths in all of them."""
    named: str | None = None
    unified: str | None = None
    paths = []
    for line in text.splitlines():
        number, _colon, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if not separator or not path.startswith("/"):
            continue
        path = path.removesuffix(" (deleted)")
        paths.append(path)
        if controllers == "name=systemd":
            named = path
        elif number == "0" and not controllers:
            unified = path
    # On a hybrid host the unified line exists too and may be just "/": systemd manages by its named hierarchy.
    return (unified if named is None else named), paths


def manager_root(text: str) -> str:
    """The prefix below which the manager of /proc/1/cgroup keeps its units: "" on a host, a path inside a container."""
    path, _all = _paths(text)
    return path.removesuffix("/init.scope") if path and path.endswith("/init.scope") else ""


def _below(path: str, root: str) -> str:
    return path[len(root) :] if root and f"{path}/".startswith(f"{root}/") else path


def unit_of(text: str, root: str = "") -> str | None:
    """The unit of this host's manager: the first service or scope below slices, as systemd itself reads it.

    None for a process outside any unit. A unit of a systemd inside a container is not a unit of the host: there the
    answer is the container's scope.
    """
    path, _all = _paths(text)
    if path is None:
        return None
    for part in _below(path, root).split("/"):
        if part in ("", "..") or part.endswith(".slice"):
            continue
        return part.removeprefix("_") if part.endswith((".service", ".scope")) else None
    return None


def container_of(text: str, root: str = "") -> str | None:
    """The 64 hexadecimal digits by which a container runtime (docker, podman, containerd, CRI-O) knows the process."""
    _own, paths = _paths(text)
    for path in paths:
        if match := CONTAINER.search(_below(path, root)):
            return match[1]
    return None
