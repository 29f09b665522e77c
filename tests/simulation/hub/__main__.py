# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""python3 -m simulation.hub: serve folders as repositories until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from pathlib import Path

from .faults import Fault
from .repository import Snapshot
from .server import Hub


def _repository(text: str) -> tuple[str, Path]:
    repo_id, separator, folder = text.partition("=")
    if not separator or repo_id.count("/") != 1 or not Path(folder).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME=FOLDER with an existing folder")
    return repo_id, Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="simulation.hub", description=__doc__)
    parser.add_argument("--repository", action="append", type=_repository, default=[], metavar="NAME=FOLDER")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=18080, help="0 = any free one (default: %(default)s)")
    parser.add_argument("--cdn-port", type=int, help="serve LFS files from a second origin on this port")
    parser.add_argument("--rate", type=int, help="bytes per second of every answer")
    parser.add_argument("--fault", action="append", default=[], metavar="JSON", help="fields of a Fault, as JSON")
    parser.add_argument("--log", type=Path, help="file for one JSON line per request")
    parser.add_argument("--print-commit", type=Path, metavar="FOLDER", help="print the folder's commit and leave")
    options = parser.parse_args()
    if options.print_commit:
        print(Snapshot.of(options.print_commit).commit)
        return

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    cdn = options.cdn_port is not None
    with Hub(
        host=options.host,
        port=options.port,
        cdn=cdn,
        cdn_port=options.cdn_port or 0,
        rate=options.rate,
        log=options.log,
    ) as hub:
        for fault in options.fault:
            hub.faults.add(Fault(**json.loads(fault)))
        for repo_id, folder in options.repository:
            print(f"{repo_id} {hub.add_repository(repo_id, folder)} {folder}", flush=True)
        print(f"HF_ENDPOINT={hub.endpoint}", flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
