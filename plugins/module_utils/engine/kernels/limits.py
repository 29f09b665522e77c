# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Shared memory per thread block that a kernel can opt in to, by compute capability.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", row "Maximum amount of shared
memory per thread block" (device attribute cudaDevAttrMaxSharedMemoryPerBlockOptin). Triton compares a kernel with this
attribute at the first launch (triton/compiler/compiler.py, CompiledKernel) and raises OutOfResources above it.
"""

from __future__ import annotations

import re

from ...errors import ServingError
from .terms import Target, UnknownError

KIB = 1024
SHARED_MEMORY_PER_BLOCK_OPTIN = {
    "7.0": 96 * KIB,
    "7.2": 96 * KIB,
    "7.5": 64 * KIB,
    "8.0": 163 * KIB,
    "8.6": 99 * KIB,
    "8.7": 163 * KIB,
    "8.9": 99 * KIB,
    "9.0": 227 * KIB,
    "10.0": 227 * KIB,
    "10.3": 227 * KIB,
    "11.0": 227 * KIB,
    "12.0": 99 * KIB,
    "12.1": 99 * KIB,
}


def target_of(compute_capability: str) -> Target:
    """The target that "12.0" names.

    ServingError: not of the form MAJOR.MINOR. UnknownError: a capability whose limit is not known here.
    """
    match = re.fullmatch(r"([1-9][0-9]?)\.([0-9])", compute_capability)
    if match is None:
        raise ServingError(
            "not a compute capability",
            where=compute_capability,
            remedy='Give it as NVIDIA writes it: MAJOR.MINOR, "12.0" for RTX PRO 6000 Blackwell',
        )
    limit = SHARED_MEMORY_PER_BLOCK_OPTIN.get(compute_capability)
    if limit is None:
        raise UnknownError(f"the shared memory per block of compute capability {compute_capability} is not known")
    return Target(int(match[1]), int(match[2]), limit)
