# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real vLLM on a loopback port, started for a test and ended with all its processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import requests

from .exam import Case

MODEL = "tiny-kimi"
FLAGS = (
    *("--served-model-name", MODEL, "--host", "127.0.0.1", "--enforce-eager", "--language-model-only"),
    *("--reasoning-parser", "kimi_k2", "--tool-call-parser", "kimi_k2", "--enable-auto-tool-choice"),
)
# Without it this release's CPU kernel of rotary embeddings loses the positions, and many answers are incoherent.
NATIVE_OPS = ("--compilation-config", '{"custom_ops":["none"]}')
# On a CPU this release has no prefix cache for MLA; this has the engine compute the same attention without MLA.
PREFIX_CACHE = {"VLLM_MLA_DISABLE": "1"}
KV_SPACE_GIB = 1
START_TIMEOUT = 600.0
STOP_TIMEOUT = 30.0
REQUEST_TIMEOUT = 120.0


@dataclass(frozen=True)
class Reply:
    """A finished answer: what the engine's parsers made of the model's text."""

    reasoning: str | None
    content: str | None
    calls: list[dict[str, Any]]
    finish_reason: str


class Engine:
    """Use as a context manager: started on entry, ended on exit. ``wait()`` returns when it listens or has died."""

    def __init__(
        self,
        python: str,
        checkpoint: Path,
        log: Path,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}"
        self.log = log
        self._environment = environment or {}
        module = "vllm.entrypoints.openai.api_server"
        self._command = [python, "-m", module, "--model", str(checkpoint), "--port", str(port), *FLAGS, *arguments]

    def __enter__(self) -> Engine:
        environment = {
            **os.environ,
            "VLLM_CPU_KVCACHE_SPACE": str(KV_SPACE_GIB),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            **self._environment,
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT)
        with suppress(ProcessLookupError):  # its workers share its session, which is ours alone
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_TIMEOUT)

    def wait(self) -> bool:
        """Whether it came to listen; False when its process ended instead."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            with suppress(requests.RequestException):
                if requests.get(f"{self.base_url}/health", timeout=5).ok:
                    return True
            time.sleep(1)
        raise TimeoutError(f"the engine did not listen within {START_TIMEOUT:.0f} s:\n{self.output()[-2000:]}")

    def exit_code(self, timeout: float) -> int:
        """The exit code of an engine that dies within ``timeout`` seconds."""
        return self._process.wait(timeout)

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def post(self, case: Case) -> requests.Response:
        """Send a case as a chat request at temperature 0."""
        body: dict[str, Any] = {
            "model": MODEL,
            "messages": [as_sent(message) for message in case.messages],
            "max_tokens": case.max_tokens,
            "temperature": 0,
        }
        if case.tools:
            body["tools"] = list(case.tools)
        if not case.thinking:  # thinking is the default
            body["chat_template_kwargs"] = {"thinking": False}
        return requests.post(f"{self.base_url}/v1/chat/completions", json=body, timeout=REQUEST_TIMEOUT)

    def ask(self, case: Case) -> Reply:
        """The engine's answer to a case."""
        response = self.post(case)
        response.raise_for_status()
        choice = response.json()["choices"][0]
        message = choice["message"]
        calls = [
            {
                "id": call["id"],
                "name": call["function"]["name"],
                "arguments": json.loads(call["function"]["arguments"]),
            }
            for call in message.get("tool_calls") or ()
        ]
        return Reply(message.get("reasoning"), message.get("content"), calls, choice["finish_reason"])


def as_sent(message: dict[str, Any]) -> dict[str, Any]:
    """A message as clients send it: the arguments of a call as text."""
    if "tool_calls" not in message:
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}
