# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report says what the record says."""

from __future__ import annotations

from testinfra.host import Host

FOLDER = "/var/lib/blackwell-serving/vllm-kimi"


def test_predicted_and_measured_stand_side_by_side(host: Host) -> None:
    report = host.file(f"{FOLDER}/report.md").content_string
    for text in ("nvidia/Kimi-K2.5-NVFP4", "178,768", "178,000", "c0285e649c34d4386b01e38abca642c06cbe014e"):
        assert text in report


def test_what_is_not_known_is_not_made_up(host: Host) -> None:
    assert "not yet known" in host.file(f"{FOLDER}/report.md").content_string


def test_an_unchanged_record_has_one_line_of_history_a_section(host: Host) -> None:
    assert host.check_output(f"grep --count '\"what\"' {FOLDER}/deployment.json") == "3"
