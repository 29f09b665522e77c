# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the server rather than of the model: it hangs, stops, answers late, or is another one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from . import wire
from .behaviour import Setting
from .proxy import Behaviour, Forward
from .wire import Call, Reply

HANG_S = 4.0


def hangs(_setting: Setting) -> Behaviour:
    """No generation ever answers, and the counters stand still; /health and /v1/models go on as if nothing were."""
    frozen: list[bytes] = []
    lock = threading.Lock()

    def behave(call: Call, forward: Forward) -> Reply:
        if call.generates:
            time.sleep(HANG_S)
            raise ConnectionAbortedError("the client has left long ago")
        if call.path != "/metrics":
            return forward(call)
        with lock:
            if not frozen:
                frozen.append(forward(call).read())
        return Reply(200, [frozen[0]], {"Content-Type": "text/plain"})

    return behave


def unavailable(_setting: Setting) -> Behaviour:
    """The engine behind the server has died: 503 to whatever needs it."""

    def behave(call: Call, forward: Forward) -> Reply:
        return wire.error(503, "EngineCore died", "ServiceUnavailable") if call.generates else forward(call)

    return behave


def slow_first_token(setting: Setting) -> Behaviour:
    """Every answer is right, and every stream begins late."""
    delay = setting.slow_s * setting.rng.uniform(1.2, 1.6)

    def behave(call: Call, forward: Forward) -> Reply:
        reply = forward(call)
        if call.generates and call.streams:
            time.sleep(delay)
        return reply

    return behave


def _stream(setting: Setting, last: bytes) -> Behaviour:
    """Streams end after a random event, with `last`."""

    def behave(call: Call, forward: Forward) -> Reply:
        reply = forward(call)
        if not (call.generates and call.streams and reply.status == 200):
            return reply
        found = [part + b"\n\n" for part in reply.read().split(b"\n\n") if part]
        ends = setting.rng.randrange(1, len(found))
        return Reply(200, [*found[:ends], last], reply.headers)

    return behave


def error_in_stream(setting: Setting) -> Behaviour:
    said = {"message": "EngineCore encountered an issue", "type": "InternalServerError", "param": None, "code": 500}
    return _stream(setting, wire.sent({"error": said}) + b"data: [DONE]\n\n")


def cut_stream(setting: Setting) -> Behaviour:
    return _stream(setting, b"")


def _models(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Behaviour:
    """/v1/models tells of other entries; generation is untouched."""

    def behave(call: Call, forward: Forward) -> Reply:
        reply = forward(call)
        if call.path != "/v1/models" or reply.status != 200:
            return reply
        payload = json.loads(reply.read())
        return wire.as_json(200, {**payload, "data": [change(entry) for entry in payload["data"]]})

    return behave


def wrong_model(setting: Setting) -> Behaviour:
    name = f"model-{setting.rng.randrange(1000)}"
    return _models(lambda entry: {**entry, "id": name})


def shorter_context(setting: Setting) -> Behaviour:
    missing = setting.rng.randint(1, 100)
    return _models(lambda entry: {**entry, "max_model_len": entry["max_model_len"] - missing})


def redirect(setting: Setting) -> Behaviour:
    """Generation is redirected to another origin."""

    def behave(call: Call, forward: Forward) -> Reply:
        if call.generates:
            return Reply(307, [], {"Location": setting.elsewhere + call.path, "Content-Length": "0"})
        return forward(call)

    return behave
