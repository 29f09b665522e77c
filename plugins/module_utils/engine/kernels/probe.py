# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Find what the decode kernels of one installation need: in the cache, by compiling them, or among known files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import cache, known
from .child import Runner, Versions, measure, program_text, versions_of
from .decode_call import DecodeCall, read_decode_call
from .terms import KernelShape, Measured, Method, Target, UnknownError


@dataclass(frozen=True)
class Asked:
    """One installation and one target: all that the measurements of its dtypes have in common."""

    file: Path
    sha256: str
    call: DecodeCall
    shape: KernelShape
    target: Target

    def key(self, kv_dtype: str, versions: Versions) -> dict[str, object]:
        """Everything that the measurement for one dtype of the cache depends on."""
        return {
            "source_sha256": self.sha256,
            "program_sha256": hashlib.sha256(program_text().encode()).hexdigest(),
            "triton": versions.triton,
            "torch": versions.torch,
            "literals": dict(self.call.literals),
            "made_up": sorted(self.call.made_up),
            "shape": asdict(self.shape),
            "kv_dtype": kv_dtype,
            "compute_capability": self.target.capability,
            "limit_bytes": self.target.limit_bytes,
        }


@dataclass(frozen=True)
class Found:
    """measured is None where method is unknown; words say how it was measured, or why it is not known."""

    method: Method
    measured: Measured | None
    words: str


def read_installation(site_packages: Path, shape: KernelShape, target: Target) -> Asked:
    """The source that the probe is about; UnknownError where it is not there or has another shape than is known."""
    call = read_decode_call(site_packages)
    file = site_packages / call.file
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise UnknownError(f"{call.file}: {error.strerror}") from error
    return Asked(file, digest, call, shape, target)


def find(
    asked: Asked, kv_dtypes: Sequence[str], *, python: str | None, cache_dir: Path | None, run: Runner, check: bool
) -> dict[str, Found]:
    """{torch dtype of the cache: what was found}; UnknownError where the interpreter does not answer."""
    if python is None:
        return _among_known(asked, kv_dtypes, "no interpreter of the engine was named")
    versions = versions_of(python, run)
    for package, version in (("triton", versions.triton), ("torch", versions.torch)):
        if version is None:
            return _among_known(asked, kv_dtypes, f"the environment of {python} has no {package}")
    if not (versions.triton and versions.torch):
        cache_dir = None  # an upgrade could not be told from what was measured before
    words = f"compiled with {f'triton {versions.triton}' if versions.triton else 'a triton of unknown version'}"
    found: dict[str, Found] = {}
    if cache_dir is not None:
        for kv_dtype in kv_dtypes:
            before = cache.read(cache_dir, asked.key(kv_dtype, versions))
            if before is not None:
                found[kv_dtype] = Found("compiled", before, words)
    missing = [kv_dtype for kv_dtype in kv_dtypes if kv_dtype not in found]
    if missing:
        fresh = measure(python, asked.file, asked.call, asked.shape, asked.target, missing, run)
        keep_in = None if check else cache_dir
        found.update({dtype: _keep(each, words, asked.key(dtype, versions), keep_in) for dtype, each in fresh.items()})
    return found


def _keep(fresh: Measured | str, words: str, key: Mapping[str, object], cache_dir: Path | None) -> Found:
    """Keep what was measured, where it is to be kept; a cache that cannot be written costs time, not the answer."""
    if isinstance(fresh, str):
        return Found("unknown", None, fresh)
    if cache_dir is not None:
        try:
            cache.write(cache_dir, key, fresh)
        except OSError as error:
            words += f", not cached: {error.strerror} ({error.filename})"
    return Found("compiled", fresh, words)


def _among_known(asked: Asked, kv_dtypes: Sequence[str], why: str) -> dict[str, Found]:
    found = {}
    for kv_dtype in kv_dtypes:
        row = known.lookup(asked.sha256, asked.call.literals, asked.shape, kv_dtype, asked.target)
        if row is None:
            nothing = f"nothing was measured before for this {asked.call.file}, shape and card"
            found[kv_dtype] = Found("unknown", None, f"{why}, and {nothing}")
        else:
            found[kv_dtype] = Found("known", row.measured, f"{why}; measured before, {row.provenance}")
    return found
