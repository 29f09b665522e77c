# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How the cards are linked: `nvidia-smi topo -m` (links, NUMA nodes) and `topo -p2p r` (peer access)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
CARD = re.compile(r"GPU(\d+)")


def _matrix(text: str) -> tuple[list[str], dict[int, list[str]]]:
    """The header's names and each card's cells; the header carries terminal escape codes even in a file."""
    header: list[str] = []
    rows: dict[int, list[str]] = {}
    for line in ESCAPES.sub("", text).splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if not header:
            if len(cells) > 1 and not cells[0] and CARD.fullmatch(cells[1]):
                header = cells[1:]
        elif match := CARD.fullmatch(cells[0]):
            rows[int(match[1])] = cells[1:]
    return header, rows


def _pairs(header: list[str], rows: dict[int, list[str]]) -> dict[tuple[int, int], str]:
    found = {}
    for one, cells in rows.items():
        for name, cell in zip(header, cells, strict=False):
            match = CARD.fullmatch(name)
            if match and one < int(match[1]):
                found[one, int(match[1])] = cell
    return found


def read_topology(links_text: str, p2p_text: str | None, gpus: Collection[int]) -> dict[str, Any] | None:
    """The topology of the chosen cards, or None when the text is no matrix.

    links:  [{gpus: [0, 1], link: PIX|PXB|PHB|NODE|SYS|NV#, p2p: OK|CNS|GNS|TNS|NS|U or None}], each pair once
    nvlink: whether any pair is joined by NVLink
    numa:   [{gpu, node (None where the host does not tell), cpus}]
    p2p:    whether every pair may read its peer's memory; None when unknown
    """
    header, rows = _matrix(links_text)
    links = _pairs(header, rows)
    if not rows or not set(gpus) <= set(rows):
        return None
    access = _pairs(*_matrix(p2p_text)) if p2p_text else {}
    pairs = [pair for pair in links if set(pair) <= set(gpus)]
    states = [access.get(pair) for pair in pairs]
    numa = []
    for gpu in sorted(gpus):
        named = dict(zip(header, rows[gpu], strict=False))
        node = named.get("NUMA Affinity", "")
        cpus = named.get("CPU Affinity", "")
        numa.append({"gpu": gpu, "node": int(node) if node.isdecimal() else None, "cpus": cpus or None})
    return {
        "links": [{"gpus": list(pair), "link": links[pair], "p2p": access.get(pair)} for pair in pairs],
        "nvlink": any(links[pair].startswith("NV") for pair in pairs),
        "numa": numa,
        "p2p": None if None in states else all(state == "OK" for state in states),
    }
