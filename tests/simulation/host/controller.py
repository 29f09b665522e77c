# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this machine knows about reaching package registries, in a form that the demo host can use.

Read at run time and handed to the host only: nothing of it is written into the repository or the image.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .commands import HostError, as_root, run

CODENAME = "bookworm"
CA_BUNDLE = "/etc/controller/ca-certificates.crt"  # where the host sees the controller's bundle
CA_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PASSED_VARIABLES = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT",
    "PIP_DISABLE_PIP_VERSION_CHECK", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS", "UV_INDEX_STRATEGY", "UV_HTTP_TIMEOUT", "UV_INSECURE_HOST", "UV_NATIVE_TLS",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
# Hooks, caches and index targets of the controller's desktop or container are its own affair.
APT_OPTION = re.compile(r"^Acquire::(https?(::.*)?|Check-.*|Retries|Max-ValidTime.*|ForceIPv[46]) \"[^\"]+\";$")
APT_FILES = ("/etc/apt/auth.conf", "/etc/apt/auth.conf.d", "/etc/apt/trusted.gpg", "/etc/apt/trusted.gpg.d")


@dataclass(frozen=True)
class Registries:
    """How the host reaches Debian's archive and Python's index."""

    apt_sources: str
    apt_options: str
    apt_files: tuple[Path, ...]  # credentials and keys, copied to the same path
    environment: dict[str, str]
    mounts: dict[str, str] = field(default_factory=dict)  # path here -> path in the host, read-only


def registries(environ: Mapping[str, str] = os.environ) -> Registries:
    """Gather everything; `environ` is the environment of whoever runs the demo."""
    environment, mounts = python_settings(environ)
    options = apt_options(run(["apt-config", "dump"], timeout=30).stdout)
    if environment.get("SSL_CERT_FILE") and "Acquire::https::CaInfo" not in options:
        options += f'Acquire::https::CaInfo "{CA_BUNDLE}";\n'
    files = [Path(path) for path in APT_FILES if Path(path).exists()]
    files += [Path(path) for path in re.findall(r'"(/[^"]+)";', options) if Path(path).is_file()]
    return Registries(apt_sources(), options, tuple(files), environment, mounts)


def apt_sources() -> str:
    """One-line sources of Debian's own archive as this machine reaches it; empty where it uses none (Ubuntu), which
    means mmdebstrap's own default. Third-party repositories of the controller are left out."""
    own = _own_sources()
    if not own and CODENAME in _os_release():
        run(as_root(["apt-get", "update"]), timeout=300)  # a release's origin is known only after the first one
        own = _own_sources()
    return own


def _own_sources() -> str:
    layout = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
    targets = run(["apt-get", "indextargets", "--format", layout, "Created-By: Packages"], timeout=60, check=False)
    return sources_from_targets(targets.stdout)


def sources_from_targets(text: str) -> str:
    """Lines `URI|SUITE|COMPONENT|ORIGIN` of `apt-get indextargets` -> sources.list lines of the wanted release."""
    suites = (CODENAME, f"{CODENAME}-updates", f"{CODENAME}-security")
    found: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        uri, suite, component, origin = (line.split("|") + [""] * 4)[:4]
        if origin == "Debian" and suite in suites:
            components = found.setdefault((uri, suite), [])
            if component not in components:
                components.append(component)
    if not any(suite == CODENAME for _, suite in found):
        return ""
    return "".join(f"deb {uri} {suite} {' '.join(parts)}\n" for (uri, suite), parts in found.items())


def apt_options(dump: str) -> str:
    """The lines of `apt-config dump` that say how to reach a server (proxy, certificates, clock)."""
    return "".join(line + "\n" for line in dump.splitlines() if APT_OPTION.match(line))


def python_settings(environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """-> (variables for the host, folders and files to mount read-only) for pip and uv."""
    environment = {name: environ[name] for name in PASSED_VARIABLES if environ.get(name)}
    mounts: dict[str, str] = {}
    bundle = environ.get("SSL_CERT_FILE")
    if bundle:
        if not Path(bundle).is_file():
            raise HostError(f"SSL_CERT_FILE names {bundle}, which is not a file: correct or unset it")
        mounts[str(Path(bundle).resolve())] = CA_BUNDLE
        environment |= dict.fromkeys(CA_VARIABLES, CA_BUNDLE)
    if "PIP_FIND_LINKS" in environment:  # pip separates by spaces, uv by commas
        environment.setdefault("UV_FIND_LINKS", ",".join(environment["PIP_FIND_LINKS"].split()))
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        for place in re.split(r"[ ,]+", environment.get(name, "")):
            path = place.removeprefix("file://")
            if path.startswith("/") and Path(path).is_dir():
                mounts[path] = path
    return environment, mounts


def _os_release() -> str:
    try:
        return Path("/etc/os-release").read_text()
    except OSError:
        return ""
