# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A Listing that asks the host's own huggingface_hub what a revision is, so that its rules and its errors decide.

The file list of the commit is then read without the client, which would take its token along to whatever address a
mirror names as the next page.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import ServingError
from .api import Api, Revision, checked_commit, no_hub
from .retry import Retry
from .transport import ConnectionTrouble, HubAnswer, Session

Value = TypeVar("Value")

# What the client raises when it takes apart an answer that is none of a Hub.
MALFORMED = (AttributeError, KeyError, RecursionError, TypeError, ValueError)


class HubClient(Api):
    """Raises ImportError where huggingface_hub (1.31 or later) is not installed."""

    def __init__(self, session: Session, repo_id: str, retry: Retry) -> None:
        super().__init__(session, repo_id, retry)
        # The client asks the endpoint of its environment, whatever it is told, for things of its own.
        os.environ["HF_ENDPOINT"] = session.endpoint
        # Nothing that this process does may load hf_xet.
        os.environ["HF_HUB_DISABLE_XET"] = "1"
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

    def resolve(self, revision: str) -> Revision:
        info = self._ask(
            lambda: self._api.model_info(self.repo_id, revision=revision, timeout=self.session.stall_s), revision
        )
        gated = getattr(info, "gated", False)
        return Revision(
            checked_commit(info.sha, self.session.endpoint), gated if isinstance(gated, (bool, str)) else False
        )

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
            except MALFORMED as error:
                raise no_hub(self.session.endpoint, f"{type(error).__name__}: {error}") from error

        return self.retry.run(request, self.subject(revision))
