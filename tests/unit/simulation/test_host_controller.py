# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo host learns of the controller's way to the registries."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from simulation.host import controller, image, provision
from simulation.host.commands import HostError

TARGETS = """\
http://mirror.example/debian/|bookworm|main|Debian
http://mirror.example/debian/|bookworm|contrib|Debian
http://mirror.example/debian/|bookworm|main|Debian
http://mirror.example/debian/|bookworm-backports|main|Debian Backports
http://mirror.example/debian-security/|bookworm-security|main|Debian
https://download.example/linux/debian/|bookworm|stable|Docker
"""

OPTIONS = """\
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::Check-Valid-Until "false";
Acquire::https::CaInfo "/etc/ssl/own.pem";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
DPkg::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";
Acquire::http "";
"""


def test_only_debians_own_suites_become_sources() -> None:
    assert controller.sources_from_targets(TARGETS) == (
        "deb http://mirror.example/debian/ bookworm main contrib\n"
        "deb http://mirror.example/debian-security/ bookworm-security main\n"
    )


@pytest.mark.parametrize("targets", ["", "garbage", "http://archive.example/ubuntu/|noble|main|Ubuntu\n"])
def test_another_release_gives_no_sources(targets: str) -> None:
    assert controller.sources_from_targets(targets) == ""


def test_options_are_those_of_reaching_a_server() -> None:
    assert controller.apt_options(OPTIONS).splitlines() == OPTIONS.splitlines()[:3]


def test_pip_and_uv_settings_pass_and_folders_are_mounted(tmp_path: Path) -> None:
    wheels, bundle = tmp_path / "wheels", tmp_path / "ca.pem"
    wheels.mkdir()
    bundle.write_text("certificate\n")
    environment, mounts = controller.python_settings(
        {
            "PIP_FIND_LINKS": f"{wheels} https://wheels.example/cpu /absent",
            "SSL_CERT_FILE": str(bundle),
            "https_proxy": "http://proxy.example:3128",
            "AWS_SECRET_ACCESS_KEY": "not ours to pass",
        }
    )
    assert environment == {
        "PIP_FIND_LINKS": f"{wheels} https://wheels.example/cpu /absent",
        "UV_FIND_LINKS": f"{wheels},https://wheels.example/cpu,/absent",
        "https_proxy": "http://proxy.example:3128",
        **dict.fromkeys(controller.CA_VARIABLES, controller.CA_BUNDLE),
    }
    assert mounts == {str(bundle): controller.CA_BUNDLE, str(wheels): str(wheels)}


def test_uvs_own_folders_win_over_pips(tmp_path: Path) -> None:
    environment, mounts = controller.python_settings({"PIP_FIND_LINKS": "/absent", "UV_FIND_LINKS": str(tmp_path)})
    assert environment["UV_FIND_LINKS"] == str(tmp_path)
    assert mounts == {str(tmp_path): str(tmp_path)}


def test_a_missing_bundle_is_named() -> None:
    with pytest.raises(HostError, match=r"SSL_CERT_FILE names /absent\.pem"):
        controller.python_settings({"SSL_CERT_FILE": "/absent.pem"})


def registries(**changes: object) -> controller.Registries:
    values: dict[str, object] = {
        "apt_sources": "deb http://mirror.example/debian bookworm main\n",
        "apt_options": f'Acquire::Retries "2";\nAcquire::https::CaInfo "{controller.CA_BUNDLE}";\n',
        "apt_files": (),
        "environment": {"PIP_INDEX_URL": "https://user:password@index.example/simple"},
    }
    return controller.Registries(**{**values, **changes})  # type: ignore[arg-type]


def test_the_archive_carries_one_hosts_files_with_their_modes() -> None:
    data = provision.archive(22099, "ssh-ed25519 AAAA client", ("PRIVATE\n", "ssh-ed25519 BBBB host"), registries())
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        modes = {entry.name: entry.mode for entry in tar if entry.isfile()}
        address = tar.extractfile("etc/ssh/sshd_config.d/address.conf")
        environment = tar.extractfile("etc/environment")
        assert address and address.read() == b"ListenAddress 127.0.0.1:22099\n"
        assert environment and environment.read() == b'PIP_INDEX_URL="https://user:password@index.example/simple"\n'
    assert modes["etc/ssh/ssh_host_ed25519_key"] == 0o600
    assert modes["etc/environment"] == 0o600
    assert modes["usr/bin/nvidia-smi"] == 0o755


def test_the_image_holds_no_credentials_and_no_path_of_the_host(tmp_path: Path) -> None:
    auth = tmp_path / "auth.conf"
    argv = image.mmdebstrap(tmp_path / "sources.list", registries(apt_files=(auth,)))
    assert '--aptopt=Acquire::Retries "2";' in argv
    assert not any(controller.CA_BUNDLE in word for word in argv)
    used, removed = f"--setup-hook=copy-in {auth} /etc/apt", '--customize-hook=rm -rf "$1"/etc/apt/auth.conf'
    assert argv.index(used) < argv.index(removed)


def test_another_recipe_is_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.reference()
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "less"))
    assert image.reference() != before
