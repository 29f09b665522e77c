# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Hub as a context manager: two listeners (Hub and CDN), repositories, faults, log."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .faults import Fault, Faults, Record, RequestLog
from .handler import Handler
from .repository import Entry, Repository, Snapshot
from .xet import Store


class _Listener(ThreadingHTTPServer):
    """Threads that end with the process, and connections that can be cut."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[Handler]) -> None:
        super().__init__(address, handler)
        self.connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed while it sends its request is no error of ours."""

    def cut(self) -> None:
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Hub:
    """A local Hub.

    port, cdn_port: 0 = any free one
    cdn:            LFS files are answered with a redirect to another origin (another port, host name `localhost`)
    page_size:      entries of one page of the tree
    rate:           bytes per second of every body, None = as fast as it goes
    log:            file for one JSON line per request
    on_record:      called after every request, e.g. to move a branch between two requests
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        cdn: bool = False,
        cdn_port: int = 0,
        page_size: int = 1000,
        rate: int | None = None,
        log: str | Path | None = None,
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        self.repositories: dict[str, Repository] = {}
        self.xet: Store | None = None
        self.faults = Faults()
        self.log = RequestLog(log, on_record)
        self.page_size = page_size
        self.rate = rate
        self.stopping = threading.Event()
        self._listeners = [self._listen("hub", host, port)]
        self.endpoint = f"http://{host}:{self._listeners[0].server_address[1]}"
        self.cdn_endpoint: str | None = None
        if cdn:
            self._listeners.append(self._listen("cdn", "127.0.0.1", cdn_port))
            self.cdn_endpoint = f"http://localhost:{self._listeners[1].server_address[1]}"
        self._threads = [
            threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True) for listener in self._listeners
        ]

    def _listen(self, origin: str, host: str, port: int) -> _Listener:
        return _Listener((host, port), type("_Handler", (Handler,), {"hub": self, "origin": origin}))

    def __enter__(self) -> Hub:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """The Hub is down: nothing listens, and the connections that clients keep are cut."""
        self.stopping.set()
        for listener, thread in zip(self._listeners, self._threads, strict=True):
            if thread.is_alive():
                listener.shutdown()
                thread.join()
            listener.server_close()
            listener.cut()

    def add_repository(
        self,
        repo_id: str,
        folder: str | Path,
        *,
        branch: str = "main",
        tokens: Iterable[str] | None = None,
        gated: str | None = None,
    ) -> str:
        """Publish the folder and return the commit. Later changes in the folder need another `push`."""
        repository = Repository(repo_id, None if tokens is None else frozenset(tokens), gated)
        repository.push(snapshot := Snapshot.of(folder), branch)
        self.repositories[repo_id] = repository
        return snapshot.commit

    def push(self, repo_id: str, folder: str | Path, *, branch: str = "main") -> str:
        """A new commit with exactly the files of the folder; the branch moves to it, old commits stay served."""
        snapshot = Snapshot.of(folder)
        self.repositories[repo_id].push(snapshot, branch)
        return snapshot.commit

    def fault(self, pattern: str, **settings: Any) -> None:
        self.faults.add(Fault(pattern, **settings))

    def offer_xet(self, folder: Path) -> None:
        """All LFS files that are published by now are in a content-addressed store too, kept in that folder."""
        snapshots = [snapshot for repository in self.repositories.values() for snapshot in repository.commits.values()]
        entries = {entry.sha256: entry.source for snapshot in snapshots for entry in snapshot.entries.values()}
        self.xet = Store(folder)
        self.xet.add([(sha256, source) for sha256, source in entries.items() if sha256])

    def blob(self, sha256: str) -> Entry | None:
        for repository in self.repositories.values():
            for snapshot in repository.commits.values():
                for entry in snapshot.entries.values():
                    if entry.sha256 == sha256:
                        return entry
        return None
