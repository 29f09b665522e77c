# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Hub's routes: model info, tree, paths-info, resolve; and the second origin that serves LFS bytes."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from .body import BadRange, Interrupted, part_of, send_body
from .faults import Fault, Record
from .repository import Entry, Repository, Snapshot

if TYPE_CHECKING:
    from .server import Hub

MODEL = re.compile(
    r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<what>revision|tree|paths-info|xet-read-token)/(?P<revision>[^/]+))?"
)
RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
CDN = re.compile(r"/blobs/(?P<sha256>[0-9a-f]{64})")


class Refusal(Exception):
    """An error answer: status, X-Error-Code, text, more headers."""

    def __init__(self, status: int, code: str | None, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.text, self.headers = status, code, text, headers or {}


class Handler(BaseHTTPRequestHandler):
    """One connection. `hub` and `origin` are set by the server on a subclass."""

    protocol_version = "HTTP/1.1"
    hub: Hub
    origin: str

    def log_message(self, *_: Any) -> None:
        """The request log is kept by Hub.log; nothing goes to standard error."""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        authorization = self.headers.get("Authorization")
        self.record = Record(
            time.time(),
            self.origin,
            self.command,
            self.path,
            range=self.headers.get("Range"),
            authorization=authorization is not None,
            accept_encoding=self.headers.get("Accept-Encoding"),
            user_agent=self.headers.get("User-Agent"),
        )
        self.hub.log.begin()
        self.token = authorization.removeprefix("Bearer ") if authorization else None
        self.query = urllib.parse.parse_qs(url.query)
        self.form = urllib.parse.parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        try:
            self._route(url.path)
        except Refusal as refusal:
            self._refuse(refusal)
        except Interrupted as interruption:
            self.record.outcome = interruption.outcome
            self.close_connection = True
        except (BrokenPipeError, ConnectionResetError):
            self.record.outcome = "client_gone"
            self.close_connection = True
        self.hub.log.add(self.record)

    def _route(self, path: str) -> None:
        resolve = RESOLVE.fullmatch(path)
        if self.origin == "cdn":
            match = CDN.fullmatch(path)
            entry = self.hub.blob(match["sha256"]) if match else None
            if entry is None:
                raise Refusal(404, None, "no such blob")
            self.record.file = entry.path
            self._serve(entry, self._fault(entry.path), {"ETag": '"cdn-does-not-use-the-hub-etag"'})
        elif resolve:
            file, revision = (urllib.parse.unquote(resolve[name]) for name in ("file", "revision"))
            self.record.file, self.record.revision = file, revision
            fault = self._fault(file)
            self._resolve(self._repository(resolve["repo"], files=True), revision, file, fault)
        else:
            self._fault(path)
            if match := MODEL.fullmatch(path):
                self.record.revision = urllib.parse.unquote(match["revision"] or "main")
                self._model(self._repository(match["repo"]), match["what"], self.record.revision)
            elif path == "/api/whoami-v2" and self.token:
                self._json({"name": "tester", "type": "user", "auth": {"type": "access_token"}})
            else:
                raise Refusal(404, "EntryNotFound", "no such route")

    def _fault(self, target: str) -> Fault | None:
        """The fault that falls on this request; silence and error answers happen here."""
        fault = self.hub.faults.take(self.command, target, self.origin)
        if fault and fault.delay_s:
            time.sleep(fault.delay_s)
        if fault and fault.status:
            raise Refusal(fault.status, None, "fault on demand", fault.headers)
        return fault

    def _repository(self, repo_id: str, *, files: bool = False) -> Repository:
        repository = self.hub.repositories.get(repo_id)
        refused = (
            repository.refuses(self.token, files=files) if repository else (404 if self.token else 401, "RepoNotFound")
        )
        if refused or repository is None:
            status, code = refused or (404, "RepoNotFound")
            text = "Access to this model is restricted." if code == "GatedRepo" else "Repository not found"
            raise Refusal(status, code, text)
        return repository

    def _snapshot(self, repository: Repository, revision: str) -> Snapshot:
        snapshot = repository.resolve(revision)
        if snapshot is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return snapshot

    def _model(self, repository: Repository, what: str | None, revision: str) -> None:
        snapshot = self._snapshot(repository, revision)
        if what == "xet-read-token" and self.hub.xet:
            self._json(self.hub.xet.token(), self.hub.xet.token_headers())
        elif what == "tree":
            self._tree(snapshot)
        elif what == "paths-info":
            wanted = set(self.form.get("paths", []))
            self._json([entry for entry in snapshot.tree() if entry["path"] in wanted])
        else:
            self._json(repository.info(snapshot, blobs=self.query.get("blobs", ["false"])[0].lower() == "true"))

    def _tree(self, snapshot: Snapshot) -> None:
        """One page; the cursor is the index of the next entry, in a query of our own."""
        tree = [self._with_xet(entry) for entry in snapshot.tree()]
        start = int(self.query.get("cursor", ["0"])[0])
        end = start + self.hub.page_size
        headers = {}
        if end < len(tree):
            url = urllib.parse.urlsplit(self.path)
            base = f"http://{self.headers['Host']}{url.path}"
            headers["Link"] = f'<{base}?recursive=true&expand=false&cursor={end}>; rel="next"'
        self._json(tree[start:end], headers)

    def _with_xet(self, entry: dict[str, Any]) -> dict[str, Any]:
        name = self.hub.xet.hashes.get(entry.get("lfs", {}).get("oid", "")) if self.hub.xet else None
        return {**entry, "xetHash": name} if name else entry

    def _resolve(self, repository: Repository, revision: str, file: str, fault: Fault | None) -> None:
        snapshot = self._snapshot(repository, revision)
        entry = snapshot.entries.get(file)
        if entry is None:
            raise Refusal(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": snapshot.commit})
        headers = {
            "X-Repo-Commit": snapshot.commit,
            "X-Linked-Etag": f'"{entry.etag}"',
            "X-Linked-Size": str(entry.size),
            "ETag": f'"{entry.etag}"',
        }
        if self.hub.xet and entry.sha256 in self.hub.xet.hashes:
            route = f"{self.hub.endpoint}/api/models/{repository.repo_id}/xet-read-token/{snapshot.commit}"
            headers |= {"X-Xet-Hash": self.hub.xet.hashes[entry.sha256], "Link": f'<{route}>; rel="xet-auth"'}
        if entry.sha256 and self.hub.cdn_endpoint:
            location = f"{self.hub.cdn_endpoint}/blobs/{entry.sha256}"
            self._head(302, {**headers, "Location": location, "Content-Length": "0"})
        else:
            self._serve(entry, fault, headers)

    def _serve(self, entry: Entry, fault: Fault | None, headers: dict[str, str]) -> None:
        """The bytes of the file or of the range asked for, with what the fault does to them."""
        size = entry.size - (fault.short if fault else 0)
        asked = None if fault and fault.ignore_range else self.record.range
        try:
            start, end = part_of(asked, size)
        except BadRange:
            raise Refusal(416, None, "range not satisfiable", {"Content-Range": f"bytes */{size}"}) from None
        if asked:
            headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"}
        self._head(206 if asked else 200, {**headers, "Content-Length": str(end - start), "Accept-Ranges": "bytes"})
        if self.command != "HEAD":
            send_body(self, entry.source, start, end, fault)

    def _json(self, value: object, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)
            self.record.bytes_sent += len(body)

    def _refuse(self, refusal: Refusal) -> None:
        body = json.dumps({"error": refusal.text}).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refusal.headers}
        if refusal.code:
            headers |= {"X-Error-Code": refusal.code, "X-Error-Message": refusal.text}
        self._head(refusal.status, headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.record.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
