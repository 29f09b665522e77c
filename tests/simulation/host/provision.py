# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that make an image one particular host, as one tar archive."""

from __future__ import annotations

import io
import tarfile

from . import cards
from .controller import Registries


def archive(port: int, client_key: str, host_key: tuple[str, str], registries: Registries) -> bytes:
    """ssh on 127.0.0.1:`port` for the holder of `client_key`, the controller's way to the registries, and the cards."""
    private, public = host_key
    lines = [f'{name}="{value}"' for name, value in sorted(registries.environment.items())]
    files = {
        "etc/ssh/sshd_config.d/address.conf": (f"ListenAddress 127.0.0.1:{port}\n", 0o644),
        "etc/ssh/authorized_keys/ops": (client_key + "\n", 0o644),
        "etc/ssh/ssh_host_ed25519_key": (private, 0o600),
        "etc/ssh/ssh_host_ed25519_key.pub": (public + "\n", 0o644),
        "etc/apt/apt.conf.d/90controller": (registries.apt_options, 0o600),
        # ssh and sudo sessions read it through pam_env, as root; an index may carry a password in its address
        "etc/environment": ("".join(line + "\n" for line in lines), 0o600),
    }
    if registries.apt_sources:  # else those that mmdebstrap wrote
        files["etc/apt/sources.list"] = (registries.apt_sources, 0o644)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (content, mode) in files.items():
            _add(tar, name, content.encode(), mode)
        for path in registries.apt_files:
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    _add(tar, str(file).lstrip("/"), file.read_bytes(), 0o600 if "auth.conf" in str(file) else 0o644)
        cards.add(tar)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
