# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One check against a server that answers as the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, questions
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from simulation.endpoint.server import QUESTIONS, Endpoint, Exchange

CHAT = "/v1/chat/completions"


@pytest.fixture
def run_check() -> Iterator[Callable[..., tuple[Check, Context]]]:
    """run_check(module, answer, section, **members of Context) -> the check and its context.

    answer(exchange) answers a chat request and returns True; False leaves it to the server.
    """
    with ExitStack() as stack:

        def run(
            module: ModuleType, answer: Callable[[Exchange], bool], section: Any = None, **members: Any
        ) -> tuple[Check, Context]:
            endpoint = Endpoint(fault=lambda exchange: exchange.path == CHAT and answer(exchange))
            stack.enter_context(endpoint.running())
            asked = members.pop("questions", None) or questions.load(QUESTIONS)
            context = Context(Client(address.parse(endpoint.url)), asked, model=endpoint.model, **members)
            if hasattr(module, "read"):
                name = module.__name__.rpartition(".")[2]
                context.probes = {name: module.read(section or {}, f"questions.{name}")}
            return module.run(context), context

        yield run
