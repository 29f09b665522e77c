# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One card's memory as a stacked bar: lines of text for a terminal, SVG for the report.

Input are the sections `predicted` and `measured` of deployment.json. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .units import gib

_WIDTH = 72  # characters of the bar on a terminal
_LEFT, _BAR, _HEIGHT = 24, 832, 46  # pixels
_FONT = "font-family='DejaVu Sans, Verdana, Arial, sans-serif'"
# (letter, name, colour, colour of the text on it): colours that colour-blind people tell apart (Okabe and Ito)
_KINDS = {
    "weights": ("W", "weights", "#0072B2", "#ffffff"),
    "overhead": ("O", "overhead", "#E69F00", "#000000"),
    "cuda_graphs": ("G", "CUDA graphs", "#CC79A7", "#000000"),
    "request": ("K", "KV cache of one request", "#009E73", "#ffffff"),
    "free": ("+", "KV cache, free for others", "#A8DCC8", "#000000"),
    "outside": (".", "outside gpu_memory_utilization", "#DDDDDD", "#000000"),
}


@dataclass(frozen=True)
class Part:
    """One piece of the bar: its kind, its bytes, and its name."""

    kind: str
    count: int
    name: str


def parts_of(predicted: Mapping[str, Any], measured: Mapping[str, Any] | None = None) -> list[Part]:
    """What a card's memory is used for, from left to right; of a budget without a card, the KV cache alone.

    With `measured`, the terms that the engine printed replace the predicted ones, and the overhead is the rest.
    """
    memory = predicted.get("memory") or {}
    available = max(0, predicted.get("available_kv_cache_bytes") or 0)
    known = {name: memory.get(name) for name in ("weights", "overhead", "cuda_graphs")}
    if measured is not None:
        room = measured.get("available_bytes")
        available = available if room is None else room
        known["weights"] = measured.get("weights_bytes") or known["weights"]
        if known["cuda_graphs"]:
            known["cuda_graphs"] = measured.get("cuda_graph_estimated_bytes") or known["cuda_graphs"]
        if memory.get("usable") is not None:
            rest = memory["usable"] - available - (known["weights"] or 0) - (known["cuda_graphs"] or 0)
            known["overhead"] = max(0, rest)
    if memory.get("total") is None:
        known = {}
    needed = predicted.get("bytes_needed") or 0
    request = min(available, needed)
    length = predicted.get("max_model_len")
    one = _KINDS["request"][1] + (f" of {length:,} tokens" if length else "")
    if needed > available:
        one += f", which needs {gib(needed)}"
    parts = [Part(name, count, _KINDS[name][1]) for name, count in known.items() if count]
    parts += [Part("request", request, one), Part("free", available - request, _KINDS["free"][1])]
    if memory.get("total") is not None:
        used = sum(part.count for part in parts)
        parts.append(Part("outside", max(0, memory["total"] - used), _KINDS["outside"][1]))
    return [part for part in parts if part.count > 0]


def text_lines(parts: Sequence[Part]) -> list[str]:
    """The bar of letters and a line for each; empty where nothing is known."""
    if not parts:
        return []
    total = sum(part.count for part in parts)
    cells = "".join(_KINDS[part.kind][0] * count for part, count in zip(parts, _cells(parts, total), strict=True))
    name_width = max(len(part.name) for part in parts)
    lines = [f"[{cells}] {gib(total)}"]
    for part in parts:
        share = part.count * 100 / total
        lines.append(f" {_KINDS[part.kind][0]} {part.name:<{name_width}} {gib(part.count):>10} {share:5.1f} %")
    return lines


def _cells(parts: Sequence[Part], total: int) -> list[int]:
    """Characters per part: each at least one, all together the width; the largest part gives or takes the rest."""
    cells = [max(1, round(part.count * _WIDTH / total)) for part in parts]
    largest = max(range(len(parts)), key=lambda index: parts[index].count)
    cells[largest] += _WIDTH - sum(cells)
    return cells


def svg(bars: Sequence[tuple[str, Sequence[Part]]], title: str) -> str:
    """A bar with its caption for each (caption, parts), and the legend with every bar's numbers."""
    shown = [(caption, parts) for caption, parts in bars if parts]
    if not shown:
        return ""
    kinds = [kind for kind in _KINDS if any(part.kind == kind for _caption, parts in shown for part in parts)]
    legend_top = 56 + len(shown) * (_HEIGHT + 40)
    height = legend_top + 30 + 24 * len(kinds)
    width = _LEFT * 2 + _BAR
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"role='img' aria-label='{escape(title, quote=True)}'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
        _text(_LEFT, 30, title, size=17, weight="bold"),
    ]
    for number, (caption, parts) in enumerate(shown):
        lines += _bar(56 + number * (_HEIGHT + 40), caption, parts)
    lines += _legend(legend_top, kinds, shown)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _bar(top: int, caption: str, parts: Sequence[Part]) -> list[str]:
    total = sum(part.count for part in parts)
    lines = [_text(_LEFT, top + 12, f"{caption}: {gib(total)}", size=13)]
    start = 0
    for part in parts:
        colour, ink = _KINDS[part.kind][2:4]
        left, right = (_LEFT + _BAR * edge / total for edge in (start, start + part.count))
        lines.append(
            f"<rect x='{left:.2f}' y='{top + 20}' width='{right - left:.2f}' height='{_HEIGHT}' fill='{colour}' "
            f"stroke='#ffffff'><title>{escape(part.name)}: {gib(part.count)}</title></rect>"
        )
        label = gib(part.count)
        if right - left >= 9 * len(label):
            lines.append(
                _text((left + right) / 2, top + 20 + _HEIGHT // 2 + 5, label, size=13, fill=ink, anchor="middle")
            )
        start += part.count
    return lines


def _legend(top: int, kinds: Sequence[str], bars: Sequence[tuple[str, Sequence[Part]]]) -> list[str]:
    columns = (560, 720)[: len(bars)]
    lines = [
        _text(x, top + 12, caption, size=12, anchor="end") for x, (caption, _parts) in zip(columns, bars, strict=False)
    ]
    for row, kind in enumerate(kinds):
        y = top + 24 + 24 * row
        named = next(part.name for _caption, parts in bars for part in parts if part.kind == kind)
        lines.append(f"<rect x='{_LEFT}' y='{y}' width='16' height='16' fill='{_KINDS[kind][2]}'/>")
        lines.append(_text(_LEFT + 26, y + 13, named, size=13))
        for x, (_caption, parts) in zip(columns, bars, strict=False):
            count = sum(part.count for part in parts if part.kind == kind)
            lines.append(_text(x, y + 13, gib(count), size=13, anchor="end"))
    return lines


def _text(
    x: float, y: float, text: str, *, size: int, weight: str = "normal", fill: str = "#222222", anchor: str = "start"
) -> str:
    return (
        f"<text x='{x:g}' y='{y:g}' {_FONT} font-size='{size}' font-weight='{weight}' fill='{fill}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )
