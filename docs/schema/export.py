# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write deployment.schema.json from the schema that the modules use."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = HERE / "deployment.schema.json"


def schema_text() -> str:
    """The file's text."""
    sys.path.insert(0, str(HERE.parents[1] / ".collections"))
    from ansible_collections.blackwell.serving.plugins.module_utils.deployment.schema import SCHEMA

    return json.dumps(SCHEMA, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text())
