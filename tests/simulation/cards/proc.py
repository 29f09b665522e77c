# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree in the form of /proc: invented processes, and real ones in a unit of the test's choice."""

from __future__ import annotations

import os
from pathlib import Path


class FakeProc:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.add(1, title="/sbin/init", executable="/usr/lib/systemd/systemd", cgroup="0::/init.scope\n")

    def add(
        self,
        pid: int,
        title: str = "python3",
        *,
        start_time: int = 100,
        state: str = "S",
        parent: int = 1,
        threads: int = 1,
        uid: int = 990,
        executable: str | None = "/usr/bin/python3.11",
        cgroup: str = "0::/\n",
        maps: str = "",
        files: tuple[Path, ...] = (),
        waits_in: str = "0",
    ) -> None:
        """An invented process; `files` are open in it."""
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        comm = Path(title.split()[0]).name[:15]
        fields = [state, str(parent), *["0"] * 15, str(threads), "0", str(start_time), "0", "0"]
        texts = {
            "stat": f"{pid} ({comm}) {' '.join(fields)}\n",
            "cmdline": title.replace(" ", "\0") + "\0",
            "comm": comm + "\n",
            "status": f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
            "cgroup": cgroup,
            "maps": maps,
            "wchan": waits_in,
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
        if executable is not None and not (folder / "exe").is_symlink():
            (folder / "exe").symlink_to(executable)
        for number, path in enumerate(files):
            (folder / "fd" / str(number)).symlink_to(path)

    def mirror(self, pid: int, *, cgroup: str) -> None:
        """A real process of this machine, in a unit that it is not in: all but its cgroup is the real thing."""
        folder, real = self.root / str(pid), Path("/proc") / str(pid)
        folder.mkdir()
        for name in ("stat", "cmdline", "comm", "status", "maps", "wchan", "fd", "task"):
            (folder / name).symlink_to(real / name)
        (folder / "exe").symlink_to(os.readlink(real / "exe"))
        (folder / "cgroup").write_text(cgroup)


def unit_line(unit: str) -> str:
    """The cgroup line of a system unit under cgroup v2."""
    return f"0::/system.slice/{unit}\n"


def map_line(path: Path) -> str:
    """The line of /proc/PID/maps for a file that exists."""
    status = path.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    return f"7f0000000000-7f0000001000 rw-s 00000000 {device} {status.st_ino}    {path}\n"
