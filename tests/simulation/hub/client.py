# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surroundings of a real huggingface_hub client that talks to the simulated Hub."""

from __future__ import annotations

import os
from pathlib import Path


def client_environment(endpoint: str, home: Path) -> dict[str, str]:
    """Environment of a subprocess: this endpoint, nothing of the user's own settings, traces only below `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return {
        **kept,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }
