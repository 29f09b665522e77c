# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""From checks to one state of the ladder, and to one message."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import failure
from .check import FAIL, INCONCLUSIVE, NOT_RUN, PASS, Check
from .failure import EndpointError

# Lowest rung first. `generating`: it answers, but a check failed; `degraded`: nothing failed, something is not proven.
LADDER = (
    "no_response",
    "auth_required",
    "wrong_model",
    "loading",
    "listening",
    "generation_failed",
    "generating",
    "degraded",
    "healthy",
)

_REMEDIES = {
    failure.REFUSED: "Is the service started, and is the port right?",
    failure.AUTH: "Give the key of the endpoint in api_key",
    failure.WRONG_MODEL: "Another model is served, or model is not its served name",
    failure.TLS: "Check ca_path, the name in the certificate, and http or https in base_url",
    failure.REDIRECT: "Give the final address in base_url",
    failure.NOT_OPENAI: "base_url must be the root of an OpenAI-compatible server",
    failure.UNREACHABLE: "Check host and port, http or https in base_url, and what listens there",
    failure.TIMEOUT: "See in the log of the service what it does; where it only is slow, allow it more time",
    failure.SERVER_ERROR: "See the log of the service, and of what stands in front of it",
    failure.REJECTED: "The server refuses the request itself; it is not unhealthy",
}


def state_before_generation(error: EndpointError, *, loading: bool) -> str:
    """The rung of an endpoint whose /v1/models failed; loading: its process is known to be starting."""
    if error.kind in (failure.AUTH, failure.WRONG_MODEL):
        return error.kind
    if error.kind in failure.GONE and loading:
        return "loading"
    if error.kind in (*failure.GONE, failure.TIMEOUT, failure.TLS):
        return "no_response"
    return "listening"


def state_of_generation(error: EndpointError) -> str:
    """The rung of an endpoint whose first generation failed."""
    return error.kind if error.kind in (failure.AUTH, failure.WRONG_MODEL) else "generation_failed"


def state_of_checks(checks: Sequence[Check], allowed_not_run: Collection[str]) -> str:
    """healthy only when every check passed, or was not run and need not be."""
    statuses = {check.status for check in checks if not (check.status == NOT_RUN and check.name in allowed_not_run)}
    if FAIL in statuses:
        return "generating"
    if statuses & {INCONCLUSIVE, NOT_RUN}:
        return "degraded"
    return "healthy" if statuses <= {PASS} else "degraded"


def remedy(error: EndpointError) -> str | None:
    return _REMEDIES.get(error.kind)
