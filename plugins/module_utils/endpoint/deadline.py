# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A limit on the whole of a request.

A socket's own timeout begins anew with every byte, so a server that sends its headers, or the size of a chunk, byte by
byte would keep the client for ever.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import requests


@contextmanager
def ended_at(deadline: float, session: requests.Session) -> Iterator[None]:
    """Shut the connections that the session opens at that moment of time.monotonic()."""
    timers: list[threading.Timer] = []

    def connect(connection: Any) -> None:
        super(type(connection), connection).connect()
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut, [connection.sock])
        timer.daemon = True
        timer.start()
        timers.append(timer)

    managers: list[Any] = [getattr(adapter, "poolmanager", None) for adapter in session.adapters.values()]
    for manager in filter(None, managers):
        pools = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {
            scheme: type(
                "Pool", (pool,), {"ConnectionCls": type("Bounded", (pool.ConnectionCls,), {"connect": connect})}
            )
            for scheme, pool in pools.items()
        }
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
