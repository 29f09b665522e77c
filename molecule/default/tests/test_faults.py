# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy in front of the demo's real engine breaks one thing at a time: all is found, and every check is needed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from simulation.endpoint.matrix import ALLOWED_NOT_RUN, Table, matrix

LOG = Path(__file__).resolve().parents[3] / ".cache/molecule/fault-matrix.txt"
URL = f"http://127.0.0.1:{os.environ['DEMO_SERVICE_PORT']}"


@pytest.fixture(scope="module")
def table() -> Table:
    """Texts, positions and limits of the faults are drawn anew; the seed stands in the table."""
    found = matrix(URL, os.environ["VLLM_API_KEY"], random.SystemRandom().randrange(1 << 31))
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.write_text(f"{found}\n")
    print(found)
    return found


def test_nothing_is_said_against_a_server_without_a_fault(table: Table) -> None:
    assert table.clean.state == "healthy", str(table)


def test_every_fault_is_found(table: Table) -> None:
    assert [row.fault for row in table.faulty if not row.is_found] == [], str(table)
    assert [(row.fault, row.errors) for row in table.rows if row.errors] == []


def test_the_key_stays_with_its_origin(table: Table) -> None:
    assert [row.fault for row in table.rows if row.leaked] == []


def test_without_any_one_check_a_fault_escapes(table: Table) -> None:
    needed = [name for name in table.names if name not in ALLOWED_NOT_RUN]
    assert [name for name in needed if not table.only(name)] == [], str(table)
