# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python sources of published vLLM releases, as an installation lays them out, outside the repository.

`sources("0.16.0")` is a folder like site-packages with vllm/**/*.py, an empty file in the place of each compiled
extension, and vllm-0.16.0.dist-info/. The first call of a release downloads its wheel with pip (0.2 to 0.6 GB, deleted
at once) and keeps the text (about 30 MB) below $SERVING_SOURCES_CACHE, by default ~/.cache/blackwell-serving/sources.

    python tests/e2e/vllm_sources.py 0.16.0 0.33.0     # fetch ahead of the tests
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

RELEASES = (
    "0.15.1",
    "0.16.0",
    "0.17.1",
    "0.18.0",
    "0.19.1",
    "0.20.2",
    "0.22.1",
    "0.23.0",
    "0.25.1",
    "0.27.1",
    "0.30.0",
    "0.33.0",
)
PYTHON_VERSION = "3.12"
# A wheel is bound to the C library of its build machine; any of them holds the same Python text.
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 17)),
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
]
DOWNLOAD_SECONDS = 1800


def cache() -> Path:
    """The folder that holds one folder per release."""
    named = os.environ.get("SERVING_SOURCES_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "blackwell-serving" / "sources"


def folder_of(release: str, distribution: str = "vllm") -> Path:
    """Where the sources of the release are, or will be."""
    return cache() / (release if distribution == "vllm" else f"{distribution}-{release}")


def sources(release: str, distribution: str = "vllm") -> Path:
    """The folder that stands for the release's site-packages; fetched when it is not there yet."""
    folder = folder_of(release, distribution)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            unpacked = Path(scratch) / "site-packages"
            unpack(download(release, distribution, Path(scratch)), unpacked)
            unpacked.chmod(0o755)
            try:
                os.rename(unpacked, folder)
            except OSError:
                if not folder.is_dir():  # anything but: another process was faster
                    raise
    return folder


def download(release: str, distribution: str, folder: Path) -> Path:
    """The wheel, in the folder; pip asks the index that this machine is set up for."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--only-binary", ":all:", "--python-version", PYTHON_VERSION, "--dest", str(folder)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    subprocess.run([*command, f"{distribution}=={release}"], check=True, timeout=DOWNLOAD_SECONDS)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> None:
    """Python files, metadata and the names of compiled extensions; the wheel is gone afterwards."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py") or ".dist-info/" in name:
                archive.extract(name, folder)
            elif name.endswith(".so"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).touch()
    wheel.unlink()


def main(releases: list[str]) -> None:
    for release in releases or RELEASES:
        print(sources(release), flush=True)
    for leftover in cache().glob(".fetch-*"):  # of a killed run
        shutil.rmtree(leftover, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
