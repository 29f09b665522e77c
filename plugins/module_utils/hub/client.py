# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A Listing by the host's own huggingface_hub, with its rules for tokens, mirrors and errors."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import ServingError
from .answers import Subject
from .api import Revision, checked_commit, checked_repo_id
from .identity import RemoteFile, parse_tree_entry
from .retry import Retry
from .transport import ConnectionTrouble, HubAnswer, Session

Value = TypeVar("Value")


class HubClient:
    """Raises ImportError where huggingface_hub (1.31 or later) is not installed."""

    def __init__(self, session: Session, repo_id: str, retry: Retry) -> None:
        # The client asks the endpoint of its environment, whatever it is told, for things of its own.
        os.environ["HF_ENDPOINT"] = session.endpoint
        hub, errors, utils = (
            importlib.import_module(name)
            for name in ("huggingface_hub", "huggingface_hub.errors", "huggingface_hub.utils")
        )
        httpx = getattr(utils, "httpx", None)
        if httpx is None:
            raise ImportError("this huggingface_hub is older than 1.31")
        self._answers: Any = errors.HfHubHTTPError
        self._invalid: Any = errors.HFValidationError
        self._troubles: Any = (httpx.HTTPError, OSError)
        # False, not None: a token that somebody stored on the host is not taken unasked.
        self._api: Any = hub.HfApi(endpoint=session.endpoint, token=session.token or False)
        self._session, self._retry = session, retry
        self._repo_id = checked_repo_id(repo_id)

    def resolve(self, revision: str) -> Revision:
        info = self._ask(
            lambda: self._api.model_info(self._repo_id, revision=revision, timeout=self._session.stall_s), revision
        )
        gated = getattr(info, "gated", False)
        return Revision(
            checked_commit(info.sha, self._session.endpoint), gated if isinstance(gated, (bool, str)) else False
        )

    def tree(self, commit: str) -> list[RemoteFile]:
        entries = self._ask(
            lambda: list(self._api.list_repo_tree(self._repo_id, recursive=True, revision=commit)), commit
        )
        files = [file for entry in entries if (file := parse_tree_entry(_as_sent(entry))) is not None]
        return sorted(files, key=lambda file: file.path)

    def _ask(self, question: Callable[[], Value], revision: str) -> Value:
        def request() -> Value:
            try:
                return question()
            except self._answers as error:
                raise HubAnswer(
                    error.response.status_code, error.response.headers, message=error.server_message
                ) from error
            except self._invalid as error:
                raise ServingError("the Hub's client refuses the request", why=str(error)) from error
            except self._troubles as error:
                raise ConnectionTrouble(str(error) or type(error).__name__) from error

        subject = Subject(self._session.endpoint, self._repo_id, revision, self._session.token is not None)
        return self._retry.run(request, subject)


def _as_sent(entry: Any) -> dict[str, Any]:
    """A RepoFile or RepoFolder as the Hub wrote it, so that it meets the same checks as without the client."""
    if not hasattr(entry, "blob_id"):
        return {"type": "directory"}
    lfs = {"oid": entry.lfs.sha256, "size": entry.lfs.size} if entry.lfs else None
    return {"type": "file", "path": entry.path, "size": entry.size, "oid": entry.blob_id, "lfs": lfs}
