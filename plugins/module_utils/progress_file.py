# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The file in which a running module says how far it is: a JSON object that is whole at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from typing import Any


class ProgressFile:
    """Without a path nothing is written. A file that cannot be written is no reason to end what it tells of."""

    def __init__(self, path: str | None) -> None:
        self._path = path if path is not None and _may_be_replaced(path) else None

    @property
    def is_wanted(self) -> bool:
        return self._path is not None

    def write(self, content: dict[str, Any]) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):
                _replace(self._path, json.dumps(content))

    def remove(self) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def _may_be_replaced(path: str) -> bool:
    """A device, a link or a folder is left alone: /dev/null would be gone otherwise."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return True


def _replace(path: str, text: str) -> None:
    """No fsync: after a crash nobody asks for it."""
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=f".{os.path.basename(path)}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
