# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The access token that huggingface_hub of this host would take, by its rules, without the client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

DEFAULT_ENDPOINT = "https://huggingface.co"
TRUE = {"1", "ON", "YES", "TRUE"}


def token_of_host(endpoint: str) -> str | None:
    """HF_TOKEN, then what `hf auth login` stored; nothing when HF_HUB_DISABLE_IMPLICIT_TOKEN is set.

    The stored one is of the Hub that the client would ask here, so it is given to no other endpoint.
    """
    environment = os.environ
    if environment.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in TRUE:
        return None
    given = cleaned(environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN"))
    if given:
        return given
    if endpoint.rstrip("/") != (environment.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/"):
        return None
    try:
        return cleaned(_stored(environment).read_text())
    except (OSError, ValueError):
        return None


def _stored(environment: Mapping[str, str]) -> Path:
    """The client's HF_TOKEN_PATH."""
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = environment.get("HF_HOME") or os.path.join(cache, "huggingface")
    path = environment.get("HF_TOKEN_PATH") or os.path.join(home, "token")
    return Path(os.path.expandvars(os.path.expanduser(path)))


def cleaned(token: str | None) -> str | None:
    """Without the line end that copying leaves."""
    return (token or "").replace("\r", "").replace("\n", "").strip() or None
