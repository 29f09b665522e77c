# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a backend's class declares: KV-cache dtypes and kernel block sizes."""

from __future__ import annotations

from ..source.names import MISSING
from ..source.operations import literal_values
from ..source.values import Class, External, Instance, Raised, Unresolved, Value
from .selector import Selector

CACHE_DTYPES = ("vllm.config.cache", "CacheDType")


def engine_dtypes(selector: Selector) -> list[str] | None:
    """The values that --kv-cache-dtype takes; None when the source does not list them as strings."""
    try:
        literal = selector.around.value(*CACHE_DTYPES)
    except Unresolved:
        return None
    values = literal_values(literal) if isinstance(literal, External) else ()
    return list(values) if values and all(isinstance(value, str) for value in values) else None


def declared_dtypes(selector: Selector, backend: Class) -> list[str] | None:
    """The class's supported_kv_cache_dtypes; None when they cannot be told."""
    found = selector.reader.class_attribute(backend, "supported_kv_cache_dtypes", backend)
    return list(found) if isinstance(found, (list, tuple)) and all(isinstance(each, str) for each in found) else None


def block_sizes(selector: Selector, backend: Class) -> list[str] | None:
    """Block sizes of the backend's kernels in tokens: "64", or "multiple of 16"."""
    place = backend.scope.place(backend.node)
    try:
        method = selector.reader.class_attribute(backend, "get_supported_kernel_block_sizes", backend)
        ways = [] if method is MISSING else selector.explore(lambda: selector.reader.call(method, [], {}, place))
    except (Unresolved, Raised):
        return None
    shown = [[_block_size(size) for size in way.result] if isinstance(way.result, list) else None for way in ways]
    if not shown or shown[0] is None or any(each != shown[0] for each in shown) or None in shown[0]:
        return None
    return [size for size in shown[0] if size is not None]


def _block_size(size: Value) -> str | None:
    if isinstance(size, int):
        return str(size)
    base = size.fields.get("base") if isinstance(size, Instance) else None
    return f"multiple of {base}" if isinstance(base, int) else None
