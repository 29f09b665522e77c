# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import counting, speed, vllm_bench
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.benchmark import Settings
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import Request
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.samples import Repetition, Sample
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.vllm_bench import Target, read_result
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.endpoint.server import ANSWERS

REQUEST = Request("kimi", [{"role": "user", "content": counting.PROMPT}], 512, thinking=False)
ROW = ANSWERS[counting.PROMPT][1]
TARGET = Target("http://127.0.0.1:8000", "/opt/vllm/bin/python", api_key="sk-canary")


def saved(requests: int = 2, **changed: Any) -> dict[str, Any]:
    """What vLLM 0.32.0 saves with --save-detailed, without the members that are not read."""
    return {
        "completed": requests,
        "failed": 0,
        "duration": 2.0,
        "total_output_tokens": 51 * requests,
        "output_throughput": 25.5 * requests,
        "ttfts": [0.2] * requests,
        "itls": [[0.01] * 50] * requests,
        "input_lens": [18] * requests,
        "output_lens": [51] * requests,
        "generated_texts": [ROW] * requests,
        "errors": [""] * requests,
        **changed,
    }


class Tool:
    """Stands for the process: writes the payloads to the files that the plan names."""

    def __init__(self, payload: Any, code: int = 0, err: str = "") -> None:
        self.payload, self.code, self.err = payload, code, err
        self.commands: list[Sequence[str]] = []
        self.plans: list[dict[str, Any]] = []
        self.environments: list[Mapping[str, str]] = []

    def __call__(self, command: Sequence[str], data: str, environment: Mapping[str, str]) -> tuple[int, str, str]:
        plan = json.loads(data)
        self.commands.append(command)
        self.plans.append(plan)
        self.environments.append(environment)
        folder = Path(plan["arguments"][plan["arguments"].index("--result-dir") + 1])
        for arguments in plan["runs"]:
            text = self.payload if isinstance(self.payload, str) else json.dumps(self.payload)
            (folder / arguments[arguments.index("--result-filename") + 1]).write_text(text)
        return self.code, "", self.err


def test_has_the_shape_of_the_builtin_tool() -> None:
    tool = Tool(saved())
    result = vllm_bench.measure(TARGET, REQUEST, Settings([1, 2], 2, repetitions=3), tool)
    builtin = speed.summarise(1, [Repetition(1.0, [Sample(0.1, 1.0, 9, 51, 50, True)])], [])
    assert [list(run) for run in result["runs"]] == [list(builtin), list(builtin)]
    run = result["runs"][0]
    assert (run["completed"], run["total_output_tokens"], run["output_throughput"]) == (6, 306, 51.0)
    assert (run["mean_ttft_ms"], run["mean_tpot_ms"], run["mean_e2el_ms"]) == (200.0, 10.0, 700.0)
    assert (run["correct"], run["warmup_s"], run["tokens_per_delta"]) == (True, None, None)
    assert result["stable"] is True
    assert "does not report" in result["notes"][0]
    assert len(tool.plans[0]["runs"]) == 6


def test_the_key_is_in_the_environment_alone() -> None:
    tool = Tool(saved())
    vllm_bench.measure(TARGET, REQUEST, Settings([2], repetitions=1), tool)
    assert "sk-canary" not in json.dumps([tool.commands, tool.plans])
    assert tool.environments[0]["OPENAI_API_KEY"] == "sk-canary"
    assert tool.environments[0]["no_proxy"] == "*"
    with pytest.raises(ServingError) as caught:
        broken = Tool(saved(), 1, "Traceback\nValueError: Bearer sk-canary was refused\nnanobind: leaked 4 instances!")
        vllm_bench.measure(TARGET, REQUEST, Settings([2], repetitions=1), broken)
    assert "ValueError: Bearer ... was refused" in str(caught.value)
    assert "sk-canary" not in str(caught.value)


def test_the_request_is_the_builtin_tools() -> None:
    tool = Tool(saved())
    vllm_bench.measure(TARGET, REQUEST, Settings([2], repetitions=1, warmup=3), tool)
    plan = tool.plans[0]
    sent = json.loads(plan["arguments"][plan["arguments"].index("--extra-body") + 1])
    assert sent == {"temperature": 0, "seed": 0, "chat_template_kwargs": {"thinking": False}}
    assert (plan["prompt"], plan["max_tokens"]) == (counting.PROMPT, 512)
    warmups = plan["runs"][0].index("--num-warmups") + 1
    assert plan["runs"][0][warmups] == "6"
    assert "--insecure" not in plan["arguments"]
    vllm_bench.measure(Target("https://h:1", "p", verify=False), REQUEST, Settings([2], repetitions=1), tool)
    assert "--insecure" in tool.plans[1]["arguments"]
    vllm_bench.measure(Target("https://h:1", "p", verify="/ca.pem"), REQUEST, Settings([2], repetitions=1), tool)
    assert tool.environments[2]["SSL_CERT_FILE"] == "/ca.pem"


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (
            saved(32, completed=0, failed=32, total_output_tokens=0, errors=["Unauthorized"] * 32),
            "no request completed",
        ),
        (saved(32, total_output_tokens=0), "hold no tokens"),
        ({"completed": 30, "failed": 2}, "total_output_tokens is None"),
        ({}, "completed is None"),
        ([], "no object"),
        (saved(output_throughput=float("nan")), "output_throughput is nan"),
        (saved(duration=0.0), "duration is 0"),
        (saved(itls=None), "do not fit together"),
        (saved(ttfts=[0.1]), "do not fit together"),
        (saved(completed=1), "counts 1 requests and lists 2"),
        ("not JSON", "left no result"),
    ],
)
def test_nothing_measured_is_a_failure(payload: Any, said: str) -> None:
    with pytest.raises(ServingError, match=said) as caught:
        vllm_bench.measure(TARGET, REQUEST, Settings([2], repetitions=1), Tool(payload))
    assert "nothing was measured" in str(caught.value)


def test_some_failures_fail_unless_allowed() -> None:
    lost = saved(3, completed=2, failed=1, errors=["", "Traceback\nTimeoutError: slow\n", ""])
    with pytest.raises(ServingError, match="1 of 3 requests failed: TimeoutError: slow"):
        vllm_bench.measure(TARGET, REQUEST, Settings([1], 3, repetitions=1), Tool(lost))
    allowed = Settings([1], 3, repetitions=1, min_success_rate=0.6)
    result = vllm_bench.measure(TARGET, REQUEST, allowed, Tool(lost))
    assert (result["runs"][0]["completed"], result["runs"][0]["failed_requests"]) == (2, 1)


def test_missing_usage_counts_are_no_token_each() -> None:
    with pytest.raises(ServingError, match="no usage counts"):
        vllm_bench.measure(
            TARGET, REQUEST, Settings([2], repetitions=1), Tool(saved(output_lens=[1, 1], total_output_tokens=2))
        )


def test_wrong_text_is_not_stable() -> None:
    result = vllm_bench.measure(TARGET, REQUEST, Settings([2], repetitions=1), Tool(saved(generated_texts=["!", ROW])))
    assert (result["runs"][0]["correct"], result["stable"]) == (False, False)
    cut = read_result(saved(generated_texts=["1 2 3", ROW], output_lens=[3, 51], total_output_tokens=54), 3)
    assert [sample.right for sample in cut.samples] == [True, True]


@pytest.mark.parametrize(
    ("code", "err", "said"),
    [
        (124, "", "did not end within"),
        (137, "", "did not end within"),
        (1, "Traceback\nModuleNotFoundError: No module named 'vllm'\n", "No module named 'vllm'"),
        (2, "", "it says nothing"),
    ],
)
def test_a_tool_that_fails_is_a_failure(code: int, err: str, said: str) -> None:
    with pytest.raises(ServingError, match=said):
        vllm_bench.measure(TARGET, REQUEST, Settings([2], repetitions=1), Tool(saved(), code, err))


def test_the_limit_grows_with_the_work() -> None:
    tool = Tool(saved(8))
    vllm_bench.measure(TARGET, REQUEST, Settings([2], 8, warmup=1, repetitions=2, request_timeout=10), tool)
    assert tool.commands[0][:3] == ["timeout", "--kill-after=10", str(300 + 2 * (1 + 4) * 10)]
