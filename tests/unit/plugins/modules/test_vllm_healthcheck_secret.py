# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key goes to one origin and into no output, even where that origin says it back."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulation.endpoint.bad_server import BadServer, whole

RunModule = Callable[..., dict[str, Any]]
KEY = "sk-canary-0123456789"
MODELS = b'{"data": [{"id": "kimi", "max_model_len": 8192}]}'


def echo(status: str, template: str) -> Callable[[socket.socket, bytes], bytes]:
    """Whatever the client proved itself with is part of the answer."""

    def respond(connection: socket.socket, request: bytes) -> bytes:
        if request.startswith(b"GET /v1/models ") and status.startswith("200"):
            return whole(MODELS)(connection, request)
        given = re.search(rb"(?i)authorization: ([^\r]*)", request)
        return whole(template.replace("KEY", given[1].decode() if given else "").encode(), status)(connection, request)

    return respond


ANSWER = {"choices": [{"message": {"content": "Your header is KEY", "reasoning": "KEY"}, "finish_reason": "KEY"}]}
ECHOES = {
    "refused": ("401 Unauthorized", '{"error": {"message": "Incorrect API key provided: KEY"}}', "auth_required"),
    "dumped": ("500 Internal Server Error", "Traceback: headers={'authorization': 'KEY'}", "listening"),
    "no JSON": ("200 OK", "you said KEY", "generation_failed"),
    "answered": ("200 OK", json.dumps(ANSWER), "generating"),
    "an error in the answer": ("200 OK", '{"error": "KEY"}', "generation_failed"),
}


@pytest.mark.parametrize("name", ECHOES)
def test_a_key_that_is_said_back_is_in_no_output(run_module: RunModule, tmp_path: Path, name: str) -> None:
    status, template, state = ECHOES[name]
    with BadServer(echo(status, template)).running() as server:
        arguments = {
            "base_url": server.url,
            "api_key": KEY,
            "checks": ["ready", "logprobs", "exact_set", "channels"],
            "request_timeout": 5,
            "progress_file": str(tmp_path / "progress.json"),
        }
        result = run_module("vllm_healthcheck", arguments)
    assert (result["failed"], result["state"]) == (True, state)
    assert KEY not in json.dumps(result)
    assert any(f"Bearer {KEY}".encode() in request for request in server.requests), "it was sent, where it belongs"
    assert not list(tmp_path.iterdir())


CUT = {
    "an error": ("500 Internal Server Error", json.dumps({"error": {"message": f"{'x' * 385}KEY"}})),
    "no JSON": ("200 OK", f"{'x' * 180}KEY"),
    "an answer": ("200 OK", json.dumps({"choices": [{"message": {"content": f"{'x' * 390}KEY"}}]})),
}


@pytest.mark.parametrize("name", CUT)
def test_no_part_of_a_key_is_left_where_a_text_is_cut(run_module: RunModule, name: str) -> None:
    status, template = CUT[name]
    with BadServer(echo(status, template)).running() as server:
        arguments = {"base_url": server.url, "api_key": KEY, "checks": ["ready", "exact_set"], "request_timeout": 5}
        result = run_module("vllm_healthcheck", arguments)
    assert result["failed"] is True
    assert KEY[:6] not in json.dumps(result)


def test_a_key_with_a_line_end_is_refused_and_not_shown(run_module: RunModule) -> None:
    with BadServer(whole(MODELS)).running() as server:
        result = run_module("vllm_healthcheck", {"base_url": server.url, "api_key": f"{KEY}\n"})
    assert "use the filter trim" in result["msg"]
    assert KEY not in json.dumps(result)
    assert not server.requests
