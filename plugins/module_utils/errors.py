# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The one error that the collection raises on purpose."""

from __future__ import annotations


class ServingError(Exception):
    """Something that a person has to act upon.

    what:   what is wrong, in one clause ("shard 3 is truncated")
    where:  the file, pointer, address or unit it is wrong in
    why:    the observation that shows it
    remedy: what to do next
    facts:  further values for the task result, by return key
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        remedy: str | None = None,
        facts: dict[str, object] | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.why = why
        self.remedy = remedy
        self.facts = facts or {}
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.what
        if self.where:
            text += f" ({self.where})"
        if self.why:
            text += f": {self.why}"
        if self.remedy:
            text += f". {self.remedy}"
        return text
