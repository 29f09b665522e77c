# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The Hub's API with the standard library: resolve a revision, list its tree, read a small file."""

from __future__ import annotations

import json
import re
import urllib.parse
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..errors import ServingError
from .answers import Subject
from .identity import COMMIT, RemoteFile, hasher_for, parse_tree_entry
from .retry import Retry
from .transport import READ_LIMIT_BYTES, ConnectionTrouble, Session, origin_of

REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
NEXT_PAGE = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
MOST_PAGES = 10_000


@dataclass(frozen=True)
class Revision:
    """What a branch, tag or commit is at this moment. `gated` is false, "auto" or "manual"."""

    commit: str
    gated: bool | str = False


class Listing(Protocol):
    """Who can say what a revision is and what is in it."""

    def resolve(self, revision: str) -> Revision: ...

    def tree(self, commit: str) -> list[RemoteFile]: ...


def checked_repo_id(repo_id: str) -> str:
    if not REPO_ID.fullmatch(repo_id) or ".." in repo_id or "--" in repo_id:
        raise ServingError(
            "this is no repository name", where=repr(repo_id), remedy="Set repo_id to namespace/name as on the Hub"
        )
    return repo_id


def checked_revision(revision: str) -> str:
    if not revision.strip():
        raise ServingError("the revision is empty", remedy="Set revision to a branch, a tag or a 40-hex commit")
    return revision


def checked_commit(commit: object, where: str) -> str:
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise ServingError(
            "the Hub's answer is not valid: the commit is not 40 hexadecimal digits",
            where=where,
            why=repr(commit),
            remedy="Check that endpoint is a Hub",
        )
    return commit


def file_url(endpoint: str, repo_id: str, commit: str, path: str) -> str:
    return f"{endpoint}/{repo_id}/resolve/{commit}/{urllib.parse.quote(path)}"


class Api:
    """A Listing without huggingface_hub; also reads small files, each checked against its published hash."""

    def __init__(self, session: Session, repo_id: str, retry: Retry) -> None:
        self.session, self.retry = session, retry
        self.repo_id = checked_repo_id(repo_id)

    def subject(self, revision: str, file: str | None = None) -> Subject:
        return Subject(self.session.endpoint, self.repo_id, revision, self.session.token is not None, file)

    def resolve(self, revision: str) -> Revision:
        url = f"{self._base}/revision/{urllib.parse.quote(revision, safe='')}"
        info, _headers = self._json(url, revision)
        if not isinstance(info, dict):
            raise no_hub(url)
        gated = info.get("gated", False)
        return Revision(checked_commit(info.get("sha"), url), gated if isinstance(gated, (bool, str)) else False)

    def tree(self, commit: str) -> list[RemoteFile]:
        url: str | None = f"{self._base}/tree/{commit}?recursive=true&expand=false"
        files: list[RemoteFile] = []
        seen: set[str] = set()
        while url is not None:
            if url in seen or len(seen) == MOST_PAGES:
                raise no_hub(url)
            seen.add(url)
            page, link = self._json(url, commit)
            if not isinstance(page, list):
                raise no_hub(url)
            files += [file for entry in page if (file := parse_tree_entry(entry)) is not None]
            url = self._next_page(link)
        return sorted(files, key=lambda file: file.path)

    def read(self, commit: str, file: RemoteFile, *, limit: int = READ_LIMIT_BYTES) -> bytes:
        """The bytes of the file, which are those that the tree promises."""
        if file.size > limit:
            raise ServingError(
                "the file is too large to be read into memory", where=file.path, why=f"{file.size} bytes"
            )
        url = file_url(self.session.endpoint, self.repo_id, commit, file.path)
        subject = replace(self.subject(commit), file=file.path)

        def request() -> bytes:
            body, _headers = self.session.read(url, limit=limit)
            hasher = hasher_for(file)
            hasher.update(body)
            if len(body) != file.size or not hasher.is_content_of(file):
                raise ConnectionTrouble(f"{file.path} arrived with other bytes than the Hub publishes", answered=True)
            return body

        return self.retry.run(request, subject)

    @property
    def _base(self) -> str:
        return f"{self.session.endpoint}/api/models/{self.repo_id}"

    def _json(self, url: str, revision: str) -> tuple[Any, str | None]:
        body, headers = self.retry.run(lambda: self.session.read(url), self.subject(revision))
        try:
            return json.loads(body), headers.get("Link")
        except (ValueError, RecursionError):
            raise no_hub(url) from None

    def _next_page(self, link: str | None) -> str | None:
        match = NEXT_PAGE.search(link or "")
        if match is None:
            return None
        url: str = urllib.parse.urljoin(self._base, match[1])
        if origin_of(url) != origin_of(self.session.endpoint):
            raise ServingError(
                "the Hub's answer is not valid: the next page of the file list is on another origin",
                where=url,
                remedy="Set endpoint to the address that the mirror itself uses in its links",
            )
        return url


def no_hub(url: str, why: str | None = None) -> ServingError:
    return ServingError(
        "the Hub's answer is not valid: not the JSON that a Hub sends",
        where=url,
        why=why,
        remedy="Check endpoint; a captive portal or a proxy may have answered instead",
    )
