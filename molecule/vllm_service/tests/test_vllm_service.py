# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit is sound, its settings are in effect in the running process, and it restarts when it must and only then."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testinfra.host import Host

PROJECT = Path(__file__).resolve().parents[3]
UNIT = "vllm-kimi.service"
SECRET = os.environ["VLLM_API_KEY"]
Converge = Callable[..., Any]


def shown(host: Host, name: str) -> str:
    return host.check_output("systemctl show --value --property=%s %s", name, UNIT)


def test_systemd_finds_nothing_to_say_about_the_unit(host: Host) -> None:
    verified = host.run("systemd-analyze verify /etc/systemd/system/%s", UNIT)
    assert "vllm-kimi" not in verified.stderr


def test_the_unit_runs_and_starts_at_boot(host: Host) -> None:
    assert host.service(UNIT).is_running
    assert host.service(UNIT).is_enabled


def test_the_limits_follow_one_another(host: Host) -> None:
    """The engine gives up first, then the wait, and the start limit counts more than all allowed starts take."""
    environment = dict(line.split("=", 1) for line in process_environment(host))
    ready = int(environment["VLLM_ENGINE_READY_TIMEOUT_S"])
    text = host.file(f"/etc/systemd/system/{UNIT}").content_string
    unit = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    wait = ready + 120
    assert ready == 300
    assert int(unit["StartLimitIntervalSec"]) > int(unit["StartLimitBurst"]) * (wait + int(unit["RestartSec"]))


def process_environment(host: Host) -> list[str]:
    pid = shown(host, "MainPID")
    return host.check_output("tr '\\0' '\\n' < /proc/%s/environ", pid).splitlines()


def test_settings_are_in_effect_in_the_running_process(host: Host) -> None:
    environment = process_environment(host)
    assert "VLLM_CPU_KVCACHE_SPACE=1" in environment
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7" in environment
    assert f"VLLM_API_KEY={SECRET}" in environment


def test_the_key_is_nowhere_that_others_can_read(host: Host) -> None:
    assert host.file("/etc/blackwell-serving/vllm-kimi.secrets").mode == 0o600
    assert host.file("/etc/blackwell-serving/vllm-kimi.secrets").user == "root"
    public = [
        host.check_output("cat /etc/systemd/system/%s /etc/blackwell-serving/vllm-kimi.env", UNIT),
        host.check_output("systemctl show %s", UNIT),
        host.check_output("ps -eww -o args"),
        host.check_output("journalctl --no-pager --unit=%s", UNIT),
        host.check_output("cat /var/lib/blackwell-serving/vllm-kimi/deployment.json"),
    ]
    assert [text for text in public if SECRET in text] == []


def test_the_engine_runs_as_its_own_user_and_cannot_write_the_weights(host: Host) -> None:
    assert host.process.get(pid=int(shown(host, "MainPID"))).user == "vllm"
    denied = host.run("runuser -u vllm -- touch /srv/models/nvidia/Kimi-K2.5-NVFP4/config.json")
    assert denied.rc != 0


def test_the_prediction_is_the_engines_own_number(host: Host) -> None:
    record = json.loads(host.file("/var/lib/blackwell-serving/vllm-kimi/deployment.json").content_string)
    assert record["predicted"]["token_capacity"] == record["measured"]["tokens"] > 0


def test_a_changed_setting_restarts_the_service_once_and_only_once(host: Host, converge: Converge) -> None:
    """kimi_model_kv_cache: auto asks the engine, names the dtype as an argument and leaves the files as published."""
    soak = {"minutes": 0.2, "concurrency": 2, "long_prompt_words": 50, "max_memory_growth": 0.5, "min_speed_ratio": 0.3}
    changes = {"kimi_model_kv_cache": "auto", "vllm_service_max_num_seqs": 32, "vllm_service_benchmark_soak": soak}
    settings = ("-e", json.dumps(changes))
    before = shown(host, "InvocationID")
    first = converge(*settings)
    assert first.status == 0, first.output[-3000:]
    once = shown(host, "InvocationID")
    second = converge(*settings)
    assert second.status == 0, second.output[-3000:]
    assert before != once == shown(host, "InvocationID")
    assert second.changed == []
    command = host.check_output("tr '\\0' ' ' < /proc/%s/cmdline", shown(host, "MainPID"))
    assert "--max-num-seqs 32 " in command
    assert "--kv-cache-dtype bfloat16 " in command
    model = "/srv/models/nvidia/Kimi-K2.5-NVFP4"
    assert json.loads(host.file(f"{model}/hf_quant_config.json").content_string)["quantization"]["kv_cache_quant_algo"]
    record = json.loads(host.file("/var/lib/blackwell-serving/vllm-kimi/deployment.json").content_string)
    decision = next(each for each in record["decisions"] if each["name"] == "kv_cache_dtype")
    assert decision["value"] == "bfloat16"
    assert [each["value"] for each in decision["rejected"]] == ["fp8_e4m3"]
    withstood = record["benchmark"]["soak"]
    assert withstood["failed_requests"] == withstood["wrong_answers"] == 0
    assert withstood["requests"]["total"] > 2
    # of the unit's control group, and of the cards
    assert withstood["memory"]["peak_bytes"] >= withstood["memory"]["end_bytes"] > 200 << 20
    assert withstood["gpu_memory"]["end_bytes"] > 0


def test_an_aborted_run_is_made_good_by_the_next(host: Host, converge: Converge) -> None:
    """Files that were written before an abort are older than nothing: the process is, and is started anew."""
    host.check_output("sed -i s/32/33/ /etc/systemd/system/%s", UNIT)
    before = shown(host, "InvocationID")
    repaired = converge("-e", "vllm_service_max_num_seqs=33")
    assert repaired.status == 0, repaired.output[-3000:]
    assert shown(host, "InvocationID") != before


def test_an_engine_that_dies_comes_back(host: Host) -> None:
    before = shown(host, "InvocationID")
    host.check_output("kill -9 %s", shown(host, "MainPID"))
    deadline = time.monotonic() + 60
    while shown(host, "InvocationID") == before and time.monotonic() < deadline:
        time.sleep(1)
    assert shown(host, "ActiveState") == "active"
    assert host.run("pgrep --full '^VLLM::EngineCore'").stdout.count("\n") <= 1


def test_arguments_that_the_engine_does_not_know_are_refused_while_it_serves(host: Host, converge: Converge) -> None:
    before = shown(host, "InvocationID")
    for words in (["--no-such-flag"], ["--disable-log-requests"], ["--dtype", "bf16"]):
        refused = converge("-e", json.dumps({"vllm_service_extra_args": words, "vllm_service_max_num_seqs": 33}))
        assert refused.status != 0
        assert words[0] in refused.error
        assert refused.changed == []
    assert shown(host, "InvocationID") == before


def test_questions_that_cannot_be_asked_are_refused_while_it_serves(host: Host, converge: Converge) -> None:
    before = shown(host, "InvocationID")
    refused = converge(
        "-e", '{"vllm_service_health_questions": {"cuont": {"last": 9}}, "vllm_service_max_num_seqs": 34}'
    )
    assert refused.status != 0
    assert "did you mean count?" in refused.error
    assert refused.changed == []
    assert shown(host, "InvocationID") == before


def test_a_kv_cache_that_no_backend_serves_is_refused_while_it_serves(host: Host, converge: Converge) -> None:
    """As published, the checkpoint asks for FP8, with which this engine dies at its first request."""
    before = shown(host, "InvocationID")
    refused = converge("-e", "kimi_model_kv_cache=checkpoint", "-e", "vllm_service_max_num_seqs=33")
    assert refused.status != 0
    assert "no attention backend of this vLLM serves a fp8_e4m3 KV cache on this card" in refused.error
    assert refused.changed == []
    assert shown(host, "InvocationID") == before


def test_an_engine_that_dies_while_loading_is_one_error_with_its_own_words(host: Host, converge: Converge) -> None:
    failed = converge("-e", '{"vllm_service_extra_args": ["--tokenizer", "/srv/no-such-tokenizer"]}')
    assert failed.status != 0
    assert "/srv/no-such-tokenizer" in failed.error
    assert converge("-e", "vllm_service_max_num_seqs=33").status == 0


def test_all_of_it_can_be_taken_away_again(host: Host, converge: Converge) -> None:
    """The last test: it leaves the host as the road found it, but for the user and the system's packages."""
    removal = PROJECT / "playbooks/remove.yml"
    refused = converge(playbook=removal)
    assert refused.status != 0
    assert "remove_confirmed=true" in refused.error
    removed = converge("-e", "remove_confirmed=true", playbook=removal)
    assert removed.status == 0, removed.output[-3000:]
    for path in (
        f"/etc/systemd/system/{UNIT}",
        "/etc/blackwell-serving/vllm-kimi.secrets",
        "/opt/blackwell-serving/engines",
        "/srv/models/nvidia/Kimi-K2.5-NVFP4",
        "/var/lib/blackwell-serving/vllm-kimi",
        "/var/cache/blackwell-serving/vllm-kimi",
    ):
        assert not host.file(path).exists, path
    assert host.run("systemctl cat %s", UNIT).rc != 0
    again = converge("-e", "remove_confirmed=true", playbook=removal)
    assert again.status == 0
    assert again.changed == []
