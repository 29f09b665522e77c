# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What went wrong with a request, for the person who has to act: one message with the remedy."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ServingError
from .transport import ConnectionTrouble, HubAnswer

TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


class HubUnavailable(ServingError):
    """Unreachable, overloaded or rate limited: nothing is known about the repository, and later it may work."""


@dataclass(frozen=True)
class Subject:
    """What was asked for, to name it in a message."""

    endpoint: str
    repo_id: str
    revision: str
    with_token: bool
    file: str | None = None

    @property
    def page(self) -> str:
        return f"{self.endpoint}/{self.repo_id}"


def is_transient(error: Exception) -> bool:
    """Worth another try: broken connections, overload, and any refusal of an origin behind a signed address, which
    the next request to the Hub signs anew."""
    if isinstance(error, HubAnswer):
        return error.status in TRANSIENT or (not error.by_hub and error.status in (400, 401, 403, 404, 410))
    return isinstance(error, ConnectionTrouble)


def explain(error: HubAnswer | ConnectionTrouble, subject: Subject) -> ServingError:
    """The error for the task's result."""
    if isinstance(error, ConnectionTrouble) and error.answered:
        return HubUnavailable(
            "the Hub's answers break off or do not fit",
            where=subject.page,
            why=str(error),
            remedy="Run again: what has arrived is kept. If it stays so, check proxies and mirrors on the way",
        )
    if isinstance(error, ConnectionTrouble):
        return HubUnavailable(
            "the Hub cannot be reached",
            where=subject.page,
            why=str(error),
            remedy="Check endpoint, DNS, firewall and the proxy variables (HTTPS_PROXY, NO_PROXY) of this host",
        )
    if error.status == 429:
        return HubUnavailable(
            "the Hub's rate limit is reached",
            where=subject.page,
            why=str(error) + (f", Retry-After {error.retry_after}" if error.retry_after else ""),
            remedy="Wait and run again"
            if subject.with_token
            else "Set token (anonymous requests have the lowest limit)",
        )
    if error.status in TRANSIENT:
        return HubUnavailable(
            "the Hub is not able to answer",
            where=subject.page,
            why=str(error),
            remedy="Run again later, or set endpoint to a mirror",
        )
    what, remedy = _refusal(error, subject)
    return ServingError(what, where=subject.page, why=str(error), remedy=remedy)


def _refusal(error: HubAnswer, subject: Subject) -> tuple[str, str]:
    """(what, remedy) of an answer that another try does not change. The code decides, then the status."""
    option = "token (or HF_TOKEN)"
    if error.code == "GatedRepo":
        if subject.with_token:
            return (
                "the repository is gated and the account of this token has no access",
                f"Ask for access on {subject.page} with that account, or set {option} of one that has it",
            )
        return (
            "the repository is gated and no token was given",
            f"Accept its terms on {subject.page} and set {option} of that account",
        )
    if error.code == "RevisionNotFound":
        return f"revision {subject.revision!r} does not exist", "Set revision to a branch, a tag or a 40-hex commit"
    if error.code == "EntryNotFound":
        return f"file {subject.file!r} does not exist at {subject.revision}", "Correct the file's name or the revision"
    if "disabled" in (error.message or "") and error.code is None:
        return "the Hub has disabled the repository", "Choose another repository or a mirror that still has it"
    if error.code == "RepoNotFound" or (error.status == 404 and error.code is None):
        if subject.with_token:
            return (
                "the repository does not exist, or this token may not see it",
                f"Check repo_id and endpoint, or set {option} of an account that has access",
            )
        return (
            "the repository does not exist, or it is private and no token was given",
            f"Check repo_id and endpoint; for a private repository set {option}",
        )
    if error.status == 401:
        if subject.with_token:
            return "the Hub does not accept the token", f"Set {option} to a valid one; it may have expired"
        return "the Hub asks for a token", f"Set {option}"
    if error.status == 403:
        return "the token has no right to do this", "Give the token the right to read this repository"
    return "the Hub refuses the request", "Check repo_id, revision and endpoint"
