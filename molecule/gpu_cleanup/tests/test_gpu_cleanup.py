# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cards are free, what was in the way is gone, and nothing of anybody else is."""

from __future__ import annotations

from testinfra.host import Host


def test_the_retired_service_is_stopped_and_disabled(host: Host) -> None:
    service = host.service("vllm-glm5")
    assert not service.is_running
    assert not service.is_enabled


def test_none_of_its_processes_is_left(host: Host) -> None:
    assert host.run("pgrep --full '^VLLM::Worker_TP'").rc == 1


def test_every_card_gave_its_memory_back(host: Host) -> None:
    used = host.check_output("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits").split()
    assert len(used) == 8
    assert all(int(mib) < 1024 for mib in used)


def test_its_shared_memory_is_gone_and_somebody_elses_is_not(host: Host) -> None:
    names = host.check_output("ls /dev/shm").split()
    assert [name for name in names if name.startswith(("psm_", "sem.mp-"))] == []
    assert [name for name in names if name.startswith("pulse-shm-")] != []


def test_the_old_weights_are_gone_because_they_were_listed(host: Host) -> None:
    assert not host.file("/srv/models/zai-org/GLM-5").exists
    assert host.file("/srv/models").exists


def test_what_was_retired_is_recorded(host: Host) -> None:
    record = host.file("/var/lib/blackwell-serving/vllm-kimi/deployment.json").content_string
    assert '"vllm-glm5.service"' in record
    assert '"/srv/models/zai-org/GLM-5"' in record
