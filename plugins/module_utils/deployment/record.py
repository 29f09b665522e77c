# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One deployed service's record on the host: read it, change a section of it, write it whole."""

from __future__ import annotations

import contextlib
import copy
import difflib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ServingError
from ..files import fsync_directory, write_atomically
from .merging import differing, merge
from .schema import SCHEMA, SECTIONS, VERSION
from .secrets import secrets
from .validation import Flaw, flaws

ROOT = Path("/var/lib/blackwell-serving")
MODE = 0o640
_SHOWN_FLAWS = 5

Record = dict[str, Any]


class Request(NamedTuple):
    """What a task asks for; without a section and with state present, the record is only read.

    section, data: one section; sections: several at once, {name: data}
    """

    service: str
    state: str = "present"
    section: str | None = None
    data: Any = None
    sections: Mapping[str, Any] | None = None

    @property
    def only_reads(self) -> bool:
        return self.state == "present" and not self.written

    @property
    def written(self) -> dict[str, Any]:
        """What is to be written, {section: data}."""
        if self.state == "absent":
            return {}
        return dict(self.sections or {}) | ({self.section: self.data} if self.section is not None else {})


def path_of(service: str) -> Path:
    """Where the record of a service lies; the name is one path component."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.@-]*", service):
        raise ServingError(
            "the name of the service is no name of a unit",
            where="service",
            why=f"{service!r}",
            remedy="Use letters, digits and _ . @ - only, without the ending .service",
        )
    return ROOT / service / "deployment.json"


def load(path: Path, service: str) -> Record:
    """The record at the path, valid and of this service; {} when there is no file."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        record = json.loads(text)
    except ValueError as error:
        raise ServingError(
            "the deployment record is damaged",
            where=str(path),
            why=f"no JSON, {error}",
            remedy="It is left as it is: move it away, and the next run writes a new one, or restore it from a backup",
        ) from error
    if not isinstance(record, dict) or not isinstance(record.get("history"), list):
        raise ServingError(
            "the file is no deployment record",
            where=str(path),
            why="it holds no history",
            remedy="It is left as it is: correct the option path, or move the file away",
        )
    version = record.get("schema_version")
    if version != VERSION:
        raise ServingError(
            "the deployment record is of another version",
            where=f"{path}#/schema_version",
            why=f"found {version!r}, this release of the collection reads {VERSION}",
            remedy="Use the release that wrote it, or move the file away, and the next run writes a new one",
        )
    recorded = record["identity"].get("service") if isinstance(record.get("identity"), dict) else None
    if recorded != service:
        raise ServingError(
            "the deployment record belongs to another service",
            where=f"{path}#/identity/service",
            why=f"found {recorded!r}, expected {service!r}",
            remedy="Correct the option service or path",
        )
    return record


def check(record: Record, path: Path) -> None:
    """Raise for a record that does not fit the schema."""
    found = list(flaws(record, SCHEMA))
    if found:
        raise ServingError(
            "the deployment record would not fit its schema",
            where=str(path),
            why=_listing(found),
            remedy="Correct the data, or remove a section that an older run left there with state absent",
        )


def check_data(section: str, data: Any) -> None:
    """Raise for data that does not fit its section; whoever calls has refused secrets before."""
    found = list(flaws(data, SECTIONS[section], f"/{section}"))
    if found:
        raise ServingError(
            f"the data for section {section} does not fit the schema",
            why=_listing(found),
            remedy="Correct the option data; docs/schema/deployment.schema.json describes every section",
        )


def _listing(found: list[Flaw]) -> str:
    text = "; ".join(f"{flaw.pointer or '/'} {flaw.problem}" for flaw in found[:_SHOWN_FLAWS])
    more = len(found) - _SHOWN_FLAWS
    return f"{text}; {more} more" if more > 0 else text


def refuse_secrets(section: str, data: Any) -> None:
    """Raise where a text must not be in a record; facts: none, as they would carry it."""
    found = [pointer for pointer, text in secrets(data, f"/{section}")]
    if found:
        raise ServingError(
            f"the data for section {section} holds what looks like a secret",
            why=", ".join(dict.fromkeys(found)),
            remedy="Leave it out: people read and copy the record",
        )


def with_section(record: Record, service: str, section: str, data: Any) -> Record:
    """The record after data was written into the section; the same value when that changes nothing."""
    if section == "identity" and data.get("service", service) != service:
        raise ServingError(
            "the data names another service",
            where="/identity/service",
            why=f"{data['service']!r}, expected {service!r}",
            remedy="Leave identity.service out; it is the option service",
        )
    base: Record = record or {"identity": {"service": service}, "history": []}
    merged = merge(base.get(section), data, SECTIONS[section])
    if record and section in record and merged == record[section]:
        return record
    return _changed(base, section, merged)


def without_section(record: Record, service: str, section: str) -> Record:
    """The record after the section was removed; of identity the service's name stays."""
    rest = {"service": service} if section == "identity" else None
    if not record or record.get(section) == rest:
        return record
    return _changed(record, section, rest)


def _changed(record: Record, section: str, value: Any) -> Record:
    """A new record with the section, in the schema's order, and one more line of history."""
    names = differing(record.get(section), value)
    what = f"{section}: " + (", ".join(names) if value is not None else "removed")
    sections = {**record, section: value}
    return {
        "schema_version": VERSION,
        **{name: copy.deepcopy(sections[name]) for name in SECTIONS if sections.get(name) is not None},
        "history": [*record["history"], {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "what": what}],
    }


def text_of(record: Record) -> str:
    """The file's text; "" for no record."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n" if record else ""


@contextlib.contextmanager
def locked(directory: Path, *, timeout: float = 30.0) -> Iterator[None]:
    """One writer at a time: a lock on the directory, which the kernel drops when its holder dies."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ServingError(
                        "another run is writing the deployment record",
                        where=str(directory),
                        why=f"its lock was not free within {timeout:g} s",
                        remedy="Wait for that run, or find its process with: fuser -v " + str(directory),
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def apply(path: Path, request: Request, *, check_mode: bool) -> tuple[Record, Record]:
    """The record before and after the request, which is carried out unless in check mode."""
    _check_request(request)
    if request.only_reads or check_mode or (request.state == "absent" and not path.exists()):
        before = load(path, request.service)
        return before, _after(before, request, path)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with locked(path.parent):
        before = load(path, request.service)
        after = _after(before, request, path)
        if before and not after:
            path.unlink()
            fsync_directory(path.parent)
        elif after != before:
            write_atomically(path, text_of(after).encode(), mode=MODE)
    return before, after


def _check_request(request: Request) -> None:
    if request.state == "absent":
        for name in ("data", "sections"):
            if getattr(request, name) is not None:
                raise ServingError(f"{name} has no meaning with state absent", where=name, remedy="Leave it out")
    for section, data in request.written.items():
        _check_name(section)
        refuse_secrets(section, data)
        check_data(section, data)


def _check_name(section: str) -> None:
    if section not in SECTIONS:
        near = difflib.get_close_matches(section, SECTIONS, 1)
        raise ServingError(
            f"the record has no section {section!r}" + (f"; did you mean {near[0]}?" if near else ""),
            where="sections",
            remedy=f"Its sections are {', '.join(SECTIONS)}",
        )


def _after(before: Record, request: Request, path: Path) -> Record:
    if request.state == "absent":
        after = without_section(before, request.service, request.section) if request.section else {}
    else:
        after = before
        for section, data in request.written.items():
            after = with_section(after, request.service, section, data)
    if after:
        check(after, path)
    return after
