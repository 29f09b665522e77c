# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The builtin measurement of vllm_benchmark beside vLLM's own, on the same server, in turns.

SERVING_ENGINE_PYTHON is the interpreter of an installed vLLM. It measures the server at SERVING_ENDPOINT_URL, or else
one that it starts with the tiny Kimi. BENCHMARK_PAIRS is the number of turns, by default 20.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import (
    address,
    benchmark,
    chat,
    counting,
    load,
    speed,
    vllm_bench,
)
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import ready
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from simulation.model.serving import NATIVE_OPS, Engine

from .table import Row, show

CHECKPOINT = Path(__file__).parents[1] / "simulation" / "model" / "checkpoint"
CONCURRENCY = {1: 4, 8: 24}  # requests of one turn: the shorter, the nearer its neighbour in time
GOAL = 0.03
JUDGED = ("output_throughput", "mean_ttft_ms", "mean_tpot_ms")
SHOWN = ("p99_ttft_ms", "p99_tpot_ms")
UNITS = {"output_throughput": "tok/s"}
# The peer's process: imported once, one measurement for each line it reads.
PEER = """
import argparse, json, os, sys
from vllm.benchmarks import serve
plan = json.loads(sys.stdin.readline())
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
session = serve.aiohttp.ClientSession
def requests(args, tokenizer):
    return [serve.SampleRequest(prompt=plan["prompt"], prompt_len=1, expected_output_len=plan["max_tokens"])
            for _number in range(args.num_prompts)]
serve.get_samples = requests
serve.get_tokenizer = lambda *_names, **_options: None
parser = argparse.ArgumentParser()
serve.add_cli_args(parser)
for line in sys.stdin:
    turn = json.loads(line)
    serve.aiohttp.ClientSession = lambda **options: session(**{**options, **turn["session"]})
    print(json.dumps(serve.main(parser.parse_args(plan["arguments"] + turn["arguments"]))), file=answers, flush=True)
"""
# Options of the peer's session. It looks into ~/.netrc for each request, in a thread, while its clock runs: some tenths
# of a millisecond, which add up where many requests are sent at once. Ours does not, so it is compared with both.
PEERS: dict[str, dict[str, Any]] = {"vLLM's": {}, "vLLM's without .netrc": {"trust_env": False}}
Turn = Callable[[int], dict[str, Any]]


def main() -> int:
    python = os.environ.get("SERVING_ENGINE_PYTHON")
    if not python:
        print("\nendpoint_speed: nothing measured, SERVING_ENGINE_PYTHON names no interpreter that holds vLLM")
        return 1
    pairs = int(os.environ.get("BENCHMARK_PAIRS", "20"))
    with contextlib.ExitStack() as stack:
        url = os.environ.get("SERVING_ENDPOINT_URL") or stack.enter_context(_served(python))
        model = ready.choose(ready.served_models(Client(address.parse(url)).get_json("/v1/models", timeout=30)), None)
        request = chat.Request(model.model, [{"role": "user", "content": counting.PROMPT}], 512, thinking=False)
        ask_peer = stack.enter_context(_peer(python, url, request))
        for concurrency in CONCURRENCY:
            before = os.getloadavg()[0]
            mine, *theirs = _take_turns([_ours(url, request), *map(ask_peer, PEERS.values())], concurrency, pairs)
            limit = f"load {before:.1f} before and {os.getloadavg()[0]:.1f} after; client and server share the cores"
            show(
                f"{concurrency} at once, {CONCURRENCY[concurrency]} requests a turn, {pairs} turns each (medians; the "
                "middle half of the ratios of neighbours)",
                [
                    _row(name, peer, mine, results)
                    for peer, results in zip(PEERS, theirs, strict=True)
                    for name in (*JUDGED, *SHOWN)
                ],
                limit,
            )
    return 0


def _take_turns(turns: Sequence[Turn], concurrency: int, rounds: int) -> list[list[Any]]:
    """Each in turn, who begins in turn too, so that what else happens on the machine meets all alike."""
    results: list[list[dict[str, Any]]] = [[] for _turn in turns]
    for number in range(-1, rounds):
        for place in range(len(turns)):
            who = (number + place) % len(turns)
            results[who].append(turns[who](concurrency))
    return [found[1:] for found in results]  # the first round warms all up


def _row(name: str, peer: str, mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Row:
    unit = UNITS.get(name, "ms")
    ratios = [one[name] / other[name] for one, other in zip(mine, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    medians = [statistics.median(run[name] for run in runs) for runs in (mine, theirs)]
    value = f"{medians[0]:.2f} / {medians[1]:.2f} {unit}, {middle:.3f} ({low:.3f} to {high:.3f})"
    if name not in JUDGED:
        return Row(f"{name}, ours / {peer}", value)
    return Row(f"{name}, ours / {peer}", value, f"ratio within {GOAL:.0%}", abs(middle - 1) <= GOAL)


def _ours(url: str, request: chat.Request) -> Turn:
    def measure(concurrency: int) -> dict[str, Any]:
        settings = benchmark.Settings([concurrency], CONCURRENCY[concurrency], warmup=1, repetitions=1)
        found = benchmark.measure(load.Target(address.parse(url)), request, settings)
        return _right(found["runs"][0])

    return measure


@contextlib.contextmanager
def _peer(python: str, url: str, request: chat.Request) -> Iterator[Callable[[dict[str, Any]], Turn]]:
    """Makes a turn of the session's options."""
    body = request.body(stream=True)
    sent = {name: body[name] for name in ("temperature", "seed", "chat_template_kwargs")}
    arguments = ["--backend", "openai-chat", "--endpoint", chat.PATH, "--base-url", url, "--model", request.model]
    arguments += ["--dataset-name", "custom", "--disable-tqdm", "--save-detailed", "--extra-body", json.dumps(sent)]
    plan = {"prompt": counting.PROMPT, "max_tokens": request.max_tokens, "arguments": arguments}
    process = subprocess.Popen(
        [python, "-c", PEER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "no_proxy": "*"},
    )
    if process.stdin is None or process.stdout is None:
        raise SystemExit("the peer has no pipes")
    reads, writes = process.stdout, process.stdin

    def send(value: Any) -> None:
        writes.write(json.dumps(value) + "\n")
        writes.flush()

    def measure(session: dict[str, Any], concurrency: int) -> dict[str, Any]:
        counts = {"max-concurrency": concurrency, "num-prompts": CONCURRENCY[concurrency], "num-warmups": concurrency}
        words = [word for name, count in counts.items() for word in (f"--{name}", str(count))]
        send({"session": session, "arguments": words})
        line = reads.readline()
        if not line:
            raise SystemExit("vLLM's benchmark ended")
        # the same reduction for both sides, from each tool's own clock
        return _right(speed.summarise(concurrency, [vllm_bench.read_result(json.loads(line), request.max_tokens)], []))

    try:
        send(plan)
        yield lambda session: functools.partial(measure, session)
    finally:
        process.kill()
        process.wait()


def _right(run: dict[str, Any]) -> dict[str, Any]:
    if not run["correct"]:
        raise SystemExit("an answer does not count from 1 to 50")
    return run


@contextlib.contextmanager
def _served(python: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        log = Path(folder) / "engine.log"
        with Engine(
            python, CHECKPOINT, log, [*NATIVE_OPS, "--max-model-len", "4096", "--kv-cache-dtype", "bfloat16"]
        ) as engine:
            if not engine.wait():
                raise SystemExit(f"the engine ended:\n{engine.output()[-2000:]}")
            yield engine.base_url


if __name__ == "__main__":
    sys.exit(main())
