# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Where the packages of a Python environment are, without starting its interpreter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..errors import ServingError

# Below an environment, and where Debian keeps the packages of its own interpreters.
_FOLDERS = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3/dist-packages")
_MORE_OF_USR = ("local/lib/python3*/dist-packages", "local/lib/python3*/site-packages")
REMEDY = "Install the engine (role blackwell.serving.vllm_install), or correct the options python and site_packages"


@dataclass(frozen=True)
class EngineFolder:
    """Where an engine lies.

    site_packages: the folder with its *.dist-info
    root:          the folder with its package vllm; another one for an editable installation
    editable:      whether it is the second
    """

    site_packages: Path
    root: Path
    editable: bool = False


def locate(python: str | None, site_packages: str | None) -> EngineFolder:
    """The engine of an interpreter's environment, or of a folder of packages.

    python: path of the environment's python; it is looked at, never run
    A folder that does not exist or holds no vLLM is a ServingError that names what was searched.
    """
    if site_packages:
        searched = [Path(site_packages)]
    elif python:
        searched = list(folders_of(Path(python)))
    else:
        raise ServingError("no environment is named", remedy=REMEDY)
    for folder in searched:
        if (folder / "vllm" / "__init__.py").is_file():
            return EngineFolder(folder, folder)
        checkout = _editable(folder)
        if checkout is not None:
            return EngineFolder(folder, checkout, editable=True)
    raise ServingError(
        "there is no vLLM in this environment",
        where=site_packages or python,
        why=f"no package vllm below {', '.join(map(str, searched))}" if searched else "it has no folder of packages",
        remedy=REMEDY,
    )


def sources_of(site_packages: str | None) -> str | None:
    """The folder with the package vllm: of an editable installation its checkout, else the folder as it was named."""
    if not site_packages or (Path(site_packages) / "vllm" / "__init__.py").is_file():
        return site_packages
    checkout = _editable(Path(site_packages))
    return site_packages if checkout is None else str(checkout)


def exists(python: str | None, site_packages: str | None) -> bool:
    """Whether what was named is there at all; a module in check mode asks before it reads."""
    named = site_packages or python
    return named is not None and named != "" and Path(named).exists()


def folders_of(python: Path) -> Iterator[Path]:
    """The folders that an interpreter takes packages from, its environment's own first.

    A virtual environment's python is a link to another one, so the path is taken as it is written.
    """
    prefix = python.absolute().parent.parent
    patterns = (*_FOLDERS, *_MORE_OF_USR) if prefix == Path("/usr") else _FOLDERS
    seen: set[Path] = set()
    for pattern in patterns:
        for folder in sorted(prefix.glob(pattern)):
            # lib64 is a link to lib in most environments.
            if folder.is_dir() and folder.resolve() not in seen:
                seen.add(folder.resolve())
                yield folder


def _editable(site_packages: Path) -> Path | None:
    """The checkout that an editable installation of vLLM points at."""
    for path in sorted(site_packages.glob("vllm*.dist-info/direct_url.json")):
        try:
            document = json.loads(path.read_bytes())
            url = urlsplit(document["url"])
            editable = document.get("dir_info", {}).get("editable") is True
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        checkout = Path(unquote(url.path))
        if editable and url.scheme == "file" and (checkout / "vllm" / "__init__.py").is_file():
            return checkout
    return None
