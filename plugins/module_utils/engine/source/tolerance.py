# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What becomes of a source that goes beyond what can be told."""

from __future__ import annotations

from enum import IntEnum


class Tolerance(IntEnum):
    """What may stop the reading.

    NONE: a condition that cannot be told is decided both ways in turn; an exception is the source's or ends the answer
    SURE: what cannot be told is passed over, and both branches are followed where it decides; what the source states
          (a raise that is certainly reached) is not passed over
    ALL:  nothing stops
    """

    NONE = 0
    SURE = 1
    ALL = 2
