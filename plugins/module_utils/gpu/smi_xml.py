# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The processes in the XML of `nvidia-smi -q -x`: the one output that lists compute and graphics clients alike."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from ..errors import ServingError
from .smi_csv import read_cell

PROCESS_NAME = re.compile(r"<process_name>(.*?)</process_name>", re.DOTALL)
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


@dataclass(frozen=True)
class SmiProcess:
    """A client of one card. kind: C (compute), G (graphics), C+G; used_bytes is None where the driver does not tell."""

    pid: int
    kind: str
    name: str
    used_bytes: int | None


@dataclass(frozen=True)
class SmiLog:
    """driver, cuda: versions; processes by the card's UUID; words: lines before the XML (a lost card is told there)."""

    driver: str | None
    cuda: str | None
    processes: dict[str, list[SmiProcess]]
    words: list[str]


def _escape_name(match: re.Match[str]) -> str:
    # A process chooses its own title: one "<" in it must not hide every other process of the host.
    name = html.escape(NOT_XML.sub("?", html.unescape(match[1])), quote=False)
    return f"<process_name>{name}</process_name>"


def _process(element: ET.Element) -> SmiProcess | None:
    pid = (element.findtext("pid") or "").strip()
    if not pid.isdecimal():
        return None
    return SmiProcess(
        pid=int(pid),
        kind=(element.findtext("type") or "").strip(),
        name=(element.findtext("process_name") or "").strip(),
        used_bytes=read_cell(element.findtext("used_memory") or "").bytes,
    )


def _together(found: list[SmiProcess]) -> list[SmiProcess]:
    """One entry per process: one with several contexts on a card (MIG instances, C and G) is printed several times."""
    merged: dict[int, SmiProcess] = {}
    for process in found:
        before = merged.get(process.pid)
        if before is None:
            merged[process.pid] = process
            continue
        kinds = sorted({*before.kind.split("+"), *process.kind.split("+")})
        parts = (before.used_bytes, process.used_bytes)
        used = None if None in parts else sum(part for part in parts if part is not None)
        merged[process.pid] = SmiProcess(process.pid, "+".join(kinds), before.name, used)
    return list(merged.values())


def read_log(text: str) -> SmiLog:
    """Parse the output of `nvidia-smi -q -x`; a ServingError when it is not the XML of that command."""
    head, marker, body = text.partition("<?xml")
    words = [line.strip() for line in head.splitlines() if line.strip()]
    try:
        root = ET.fromstring(PROCESS_NAME.sub(_escape_name, marker + body))  # noqa: S314  (the driver's own tool)
    except ET.ParseError as error:
        raise ServingError(
            "the output of nvidia-smi cannot be read",
            where="nvidia-smi -q -x",
            why=f"{error}; it begins with {text[:120]!r}",
            remedy="Run `nvidia-smi -q -x` on the host and look at what it prints",
        ) from error
    processes: dict[str, list[SmiProcess]] = {}
    for card in root.iter("gpu"):
        found = [_process(element) for element in card.iterfind("processes/process_info")]
        processes[(card.findtext("uuid") or "").strip()] = _together([process for process in found if process])
    return SmiLog(root.findtext("driver_version"), root.findtext("cuda_version"), processes, words)
