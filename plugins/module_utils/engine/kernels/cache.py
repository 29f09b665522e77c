# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What was compiled before: one small file per measurement, named after the sha256 of all that it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ...files import write_atomically
from .child import parse_launches
from .terms import Measured

LARGEST_BYTES = 64 * 1024

Key = Mapping[str, object]


def path_of(cache_dir: Path, key: Key) -> Path:
    """Where the measurement of that key is kept."""
    return cache_dir / f"{hashlib.sha256(_canonical(key)).hexdigest()}.json"


def read(cache_dir: Path, key: Key) -> Measured | None:
    """The measurement; None where there is none, or where the file is not wholly what `write` writes for that key."""
    path = path_of(cache_dir, key)
    try:
        with open(path, "rb") as stream:
            text = stream.read(LARGEST_BYTES + 1)
        content = json.loads(text) if len(text) <= LARGEST_BYTES else None
        if not isinstance(content, dict) or set(content) != {"key", "launches", "refused"}:
            return None
        if _canonical(content["key"]) != _canonical(key):
            return None
    except (OSError, ValueError, RecursionError):
        return None
    refused = content["refused"]
    if isinstance(refused, str) and content["launches"] == []:
        return Measured((), refused)
    launches = parse_launches(content["launches"])
    return Measured(launches) if launches and refused is None else None


def write(cache_dir: Path, key: Key, measured: Measured) -> None:
    """Keep it, whole or not at all. OSError where the folder cannot be written."""
    cache_dir.mkdir(parents=True, exist_ok=True)
    content = {
        "key": dict(key),
        "launches": [asdict(launch) for launch in measured.launches],
        "refused": measured.refused,
    }
    write_atomically(path_of(cache_dir, key), json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
