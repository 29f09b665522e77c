# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public models of more architectures (public_models.jsonl): the fields of config.json that decide the cache.

Written down by hand in the sizes of the models that they are named after; what such a file does not say is left out, so
that the configuration class fills it in on both sides. Experts are few, and vocabularies small: neither decides it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_ROWS = map(json.loads, Path(__file__).with_suffix(".jsonl").read_text().splitlines())
PUBLIC: dict[str, dict[str, Any]] = {row["model"]: row["config"] for row in _ROWS}
