# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The ways in which an endpoint fails a request, told apart."""

from __future__ import annotations

REFUSED = "refused"  # nobody listens: down, or vLLM still loading
UNREACHABLE = "unreachable"  # name, route, reset
TLS = "tls"
TIMEOUT = "timeout"
AUTH = "auth_required"
WRONG_MODEL = "wrong_model"
REJECTED = "probe_rejected"  # 4xx: the request is wrong, not the server's health
SERVER_ERROR = "server_error"
REDIRECT = "redirect"
NOT_OPENAI = "not_openai"  # wrong path, not JSON, or not the expected shape
STREAM_ERROR = "stream_error"
STREAM_TRUNCATED = "stream_truncated"
TOO_LARGE = "too_large"
NO_ANSWER = "no_answer"  # tokens were counted, but none of them says anything
TIME_IS_UP = "time_is_up"  # the task's own limit, no word about the endpoint

GONE = (REFUSED, UNREACHABLE)


def printable(text: str) -> str:
    """The text on one line, without what would steer a terminal: a server may say anything."""
    return "".join(character if character.isprintable() else " " for character in text)


class EndpointError(Exception):
    """One failed request. kind: a name above; status: the HTTP status, when there was one."""

    def __init__(self, kind: str, message: str, *, status: int | None = None) -> None:
        self.kind = kind
        self.message = printable(message)
        self.status = status
        super().__init__(f"{kind}: {self.message}")

    @property
    def is_gone(self) -> bool:
        """Nobody is there any more: vLLM refuses connections, or says 503 for some seconds after its engine died."""
        return self.kind in GONE or self.status == 503

    @property
    def is_one_answer(self) -> bool:
        """Only this request failed; the next question may still be asked."""
        return not self.is_gone and self.kind != TIME_IS_UP
