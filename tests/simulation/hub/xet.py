# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same bytes in a content-addressed store that hf_xet reads without a network: a folder, as `local:///folder`.

hf_xet knows such addresses for its own tests. The store is filled by a process of its own, as hf_xet keeps threads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

UPLOAD = """
import json, sys
import hf_xet
cas, *paths = sys.argv[1:]
with hf_xet.XetSession().new_upload_commit(endpoint=cas) as commit:
    uploads = [commit.start_upload_file(path) for path in paths]
print(json.dumps([upload.result().xet_info.hash for upload in uploads]))
"""
LIFETIME_S = 3600


@dataclass
class Store:
    """`hashes` maps the sha256 of a file to the name that hf_xet knows it by."""

    folder: Path
    hashes: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"local://{self.folder}"

    def add(self, files: Sequence[tuple[str, Path]]) -> None:
        """(sha256, path) of each."""
        self.folder.mkdir(exist_ok=True)
        run = subprocess.run(
            [sys.executable, "-c", UPLOAD, self.url, *(str(path) for _sha256, path in files)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout.splitlines()[-1])
        self.hashes |= {sha256: name for (sha256, _path), name in zip(files, found, strict=True)}

    def token_headers(self) -> dict[str, str]:
        return {
            "X-Xet-Cas-Url": self.url,
            "X-Xet-Access-Token": "token-of-the-store",
            "X-Xet-Token-Expiration": str(int(time.time()) + LIFETIME_S),
        }

    def token(self) -> dict[str, object]:
        return {"accessToken": "token-of-the-store", "exp": int(time.time()) + LIFETIME_S, "casUrl": self.url}
