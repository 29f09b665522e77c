# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The options of every module that asks an endpoint, and the client and model that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ServingError
from . import verdict
from .address import Address
from .checks import ready
from .client import HAS_REQUESTS, Client
from .failure import EndpointError

LIST_TIMEOUT_S = 30.0
_LONGEST_S = 30 * 86400

# Documented in the fragment blackwell.serving.endpoint.
OPTIONS: dict[str, dict[str, Any]] = {
    "api_key": {"type": "str", "no_log": True},
    "ca_path": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
    "thinking_parameter": {"type": "str", "default": "thinking"},
    "python": {"type": "path"},
}


def trust(params: Mapping[str, Any]) -> bool | str:
    """Whether the certificate must be valid, or the file with the certificates to trust."""
    return bool(params["validate_certs"]) and (params["ca_path"] or True)


def client_of(params: Mapping[str, Any], address: Address) -> Client:
    """Raises ServingError where this interpreter has no requests, and for a key that no request can carry."""
    require("requests", HAS_REQUESTS)
    key = params["api_key"] or ""
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise ServingError(
            "api_key cannot be sent",
            why="it begins or ends with white space, or holds a line end or a character outside of ASCII",
            remedy="A key that was read from a file ends with the file's line end: use the filter trim",
        )
    return Client(address, api_key=params["api_key"], verify=trust(params))


def check_seconds(params: Mapping[str, Any], names: Sequence[str], *, least: float = 1) -> None:
    """Raises ServingError naming the option that is no usable time; more than a month no timer can count."""
    for name in names:
        if not least <= params[name] <= _LONGEST_S:
            raise ServingError(f"{name} must be from {least:g} to {_LONGEST_S} seconds", why=f"it is {params[name]}")


def require(library: str, found: bool) -> None:
    """Raises ServingError for a library that was not found."""
    if not found:
        raise ServingError(
            f"this Python has no {library}",
            where="the interpreter of the task",
            remedy="Name an interpreter that has it in python, such as that of the environment that holds vLLM",
        )


def served_model(client: Client, wanted: str | None, purpose: str) -> ready.Served:
    """The model of that name, or the first one. purpose: what the endpoint cannot be where there is none."""
    try:
        served = ready.served_models(client.get_json(ready.MODELS_PATH, timeout=LIST_TIMEOUT_S))
        return ready.choose(served, wanted)
    except EndpointError as error:
        raise ServingError(
            f"the endpoint cannot be {purpose}",
            where=client.address.root,
            why=error.message,
            remedy=verdict.remedy(error),
        ) from error
