# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a download is asked to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..errors import ServingError


@dataclass(frozen=True)
class Wanted:
    """The options of hf_shard_download that decide about files; units are bytes and seconds."""

    repo_id: str
    dest: str
    revision: str = "main"
    include: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    verify: str = "stamp"
    update: bool = False
    prune: bool = False
    offline: bool = False
    min_free_bytes: int = 0
    max_workers: int = 8
    wait_for_lock: bool = True
    lock_timeout: float = 0
    rate_limit_bytes_per_s: int = 0
    engine: str = "auto"
    check_mode: bool = False

    def __post_init__(self) -> None:
        for name in ("min_free_bytes", "lock_timeout", "rate_limit_bytes_per_s"):
            if math.isnan(getattr(self, name)) or getattr(self, name) < 0:
                raise ServingError("a number cannot be negative", where=name, remedy=f"Set {name} to 0 or more")
        if self.engine == "xet" and self.rate_limit_bytes_per_s:
            raise ServingError(
                "hf_xet cannot keep to a rate limit",
                where="engine=xet, rate_limit_bytes_per_s",
                remedy="Set engine to auto or http, or leave out the limit",
            )
        if not 1 <= self.max_workers <= 64:
            raise ServingError("max_workers is out of range", where=str(self.max_workers), remedy="Set it to 1 to 64")
