# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine import listener, process

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


class Proc:
    """A folder that looks like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "net").mkdir()
        self.tables = {"tcp": HEADER, "tcp6": HEADER}

    def listen(self, port: int, inode: int, *, table: str = "tcp", state: str = "0A") -> None:
        self.tables[table] += (
            f"   0: 00000000:{port:04X} 00000000:0000 {state} 0:0 00:0 0 1000 0 {inode} 1 0 100 0 0 10 0\n"
        )
        for name, text in self.tables.items():
            (self.root / "net" / name).write_text(text)

    def add(self, pid: int, cgroup: str, *, sockets: tuple[int, ...] = (), environ: bytes = b"") -> None:
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (VLLM::Engine (x) y) S 1 " + " ".join(str(n) for n in range(5, 53)))
        (folder / "cmdline").write_bytes(b"python\0-m\0vllm\0--api-key\0sk-test\0")
        (folder / "environ").write_bytes(environ)
        (folder / "cgroup").write_text(cgroup)
        for number, inode in enumerate(sockets):
            os.symlink(f"socket:[{inode}]", folder / "fd" / str(number))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_process_of_another_unit_shape(proc: Proc) -> None:
    proc.add(42, "0::/system.slice/kimi.service\n", environ=b"NCCL_PROTO=LL\0VLLM_API_KEY=x\0EMPTY=\0")
    found = process.read(42, proc=proc.root)
    assert found is not None
    assert found.start_time == 22
    assert found.command == ["python", "-m", "vllm", "--api-key", "sk-test"]
    assert found.environment == {"NCCL_PROTO": "LL", "VLLM_API_KEY": "x", "EMPTY": ""}
    assert found.unit == "kimi.service"
    assert process.read(43, proc=proc.root) is None


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/kimi.service", "kimi.service"),
        (
            "12:memory:/x\n1:name=systemd:/machine.slice/libpod-1.scope/system.slice/kimi.service/sub\n0::/",
            "kimi.service",
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "vllm.service"),
        ("0::/user.slice/session-3.scope", "session-3.scope"),
        ("0::/", None),
        ("", None),
    ],
)
def test_unit_from_control_group(proc: Proc, cgroup: str, unit: str | None) -> None:
    proc.add(7, cgroup)
    assert process.unit_of(7, proc=proc.root) == unit


def test_wiped_environment_is_empty_not_absent(proc: Proc) -> None:
    proc.add(5, "0::/", environ=b"\0" * 20)
    found = process.read(5, proc=proc.root)
    assert found is not None
    assert found.environment == {}


def test_listener_and_nobody(proc: Proc) -> None:
    proc.add(42, "0::/system.slice/kimi.service", sockets=(1001,))
    proc.listen(8000, 1001)
    proc.listen(8001, 1002, state="01")
    assert listener.find(8000, proc=proc.root) == listener.Listener(8000, 42, "kimi.service")
    assert listener.find(8001, proc=proc.root) is None


def test_inherited_socket_belongs_to_the_unit_but_a_second_socket_does_not(proc: Proc) -> None:
    proc.add(40, "0::/system.slice/other.service", sockets=(1001,))
    proc.add(42, "0::/system.slice/kimi.service", sockets=(1001,))
    proc.listen(8000, 1001)
    first = listener.find(8000, prefer_unit="kimi.service", proc=proc.root)
    assert first == listener.Listener(8000, 42, "kimi.service")
    proc.add(50, "0::/system.slice/vllm-glm5.service", sockets=(1002,))
    proc.listen(8000, 1002, table="tcp6")
    second = listener.find(8000, prefer_unit="kimi.service", proc=proc.root)
    assert second == listener.Listener(8000, 50, "vllm-glm5.service")


def test_listener_whose_owner_is_hidden(proc: Proc) -> None:
    proc.listen(8000, 1001)
    assert listener.find(8000, proc=proc.root) == listener.Listener(8000, None, None)


def test_real_proc_finds_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = listener.find(server.getsockname()[1])
    assert found is not None
    assert found.pid == os.getpid()
    here = process.read(os.getpid())
    assert here is not None
    assert here.start_time is not None
