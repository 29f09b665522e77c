# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Sections of deployment.json that the running service fills: what was measured, proven and put away."""

from __future__ import annotations

from .schema_types import (
    ANY,
    BOOLEAN,
    COUNT,
    INTEGER,
    NUMBER,
    STRING,
    STRINGS,
    TEXT,
    array,
    closed,
    described,
    section,
    volatile,
)

MEASURED = section(
    "replace",
    "What the running engine said of itself.",
    closed(
        {
            "tokens": described("KV cache size as the engine printed it.", COUNT),
            "concurrency": NUMBER,
            "line": described("The engine's own log line.", TEXT),
            "available_bytes": COUNT,
            "weights_bytes": COUNT,
            "cuda_graph_bytes": COUNT,
            "cuda_graph_estimated_bytes": COUNT,
            "inconsistent": described("Whether tokens differ from concurrency x max_model_len.", BOOLEAN),
            "kv_cache_dtype": TEXT,
            "max_model_len": COUNT,
            "attention_backend": TEXT,
            "moe_backend": TEXT,
            "linear_backend": TEXT,
            "environment": {"type": ["object", "null"], "additionalProperties": STRING},
            "load_seconds": NUMBER,
            "invocation_id": TEXT,
            "inputs": {"type": "object", "description": "The settings of this start, as the decisions have them."},
            "difference": described(
                "What the prediction missed; tokens and bytes are measured beside predicted.",
                closed(
                    {
                        "tokens": INTEGER,
                        "percent": NUMBER,
                        "term": described("What was off most; null when nothing was.", TEXT),
                        "terms": array(
                            closed(
                                {"term": STRING, "predicted_bytes": INTEGER, "measured_bytes": INTEGER},
                                required=["term"],
                            )
                        ),
                        "text": STRING,
                    },
                    nullable=True,
                ),
            ),
        },
    ),
)

_STATES = (
    "no_response",
    "auth_required",
    "wrong_model",
    "loading",
    "listening",
    "generation_failed",
    "generating",
    "degraded",
    "healthy",
)

_BATTERY = closed(
    {
        "state": {"enum": [*_STATES]},
        "invocation_id": described("The start of the engine that was examined, as systemd names it.", TEXT),
        "asked": described("sha256 of what a user may choose: questions, switch, what need not run.", TEXT),
        "seed": volatile(described("What texts and positions of the run were drawn with.", INTEGER)),
        "checks": array(
            closed(
                {
                    "name": STRING,
                    "status": {"enum": ["pass", "fail", "inconclusive", "not_run"]},
                    "threshold": ANY,
                    "value": volatile(ANY),
                    "evidence": volatile(ANY),
                    "seconds": volatile(NUMBER),
                },
                required=["name", "status"],
            )
        ),
        # Some questions are drawn at random.
        "answers": volatile(
            array(
                closed(
                    {"question": STRING, "correct": BOOLEAN, "answer": TEXT, "reasoning": TEXT},
                    required=["question", "answer"],
                )
            )
        ),
        "failed_checks": STRINGS,
        "metrics": volatile({"type": ["object", "null"]}),
    },
    required=["state"],
    nullable=True,
)

HEALTH = section(
    "keys",
    "What the health battery found.",
    closed(
        {
            "full": described("The last full battery.", _BATTERY),
            "quick": described(
                "The last quick battery, if it came after the full one and says what that does not; else null.",
                _BATTERY,
            ),
        },
    ),
)

_MEMORY = closed(
    {"start_bytes": COUNT, "settled_bytes": COUNT, "end_bytes": COUNT, "peak_bytes": COUNT, "growth": NUMBER},
    nullable=True,
)
SOAK = closed(
    {
        "seconds": NUMBER,
        "seed": COUNT,
        "concurrency": COUNT,
        "requests": {"type": "object", "description": "By kind, and their total.", "additionalProperties": COUNT},
        "failed_requests": COUNT,
        "wrong_answers": COUNT,
        "evidence": STRINGS,
        "output_throughput": NUMBER,
        "questions": STRINGS,
        "requests_left_running": COUNT,
        "speed": array(closed({"max_concurrency": COUNT, "start": NUMBER, "end": NUMBER, "ratio": NUMBER})),
        "speed_ratio": described("Tokens per second at the end as a share of those at the start.", NUMBER),
        "memory": described("Of the service; growth as a share, from the second quarter to the last.", _MEMORY),
        "gpu_memory": described("In use on all cards.", _MEMORY),
    },
    nullable=True,
)

BENCHMARK = section(
    "replace",
    "The last benchmark.",
    closed(
        {
            "runs": array(
                {
                    "type": "object",
                    "description": "Keys are the names of vLLM's benchmark result; further ones of it are welcome.",
                    "properties": {
                        "max_concurrency": COUNT,
                        "output_len": COUNT,
                        "completed": COUNT,
                        "failed_requests": COUNT,
                        "output_throughput": described("Tokens per second.", NUMBER),
                        "request_throughput": NUMBER,
                        "mean_ttft_ms": NUMBER,
                        "p99_ttft_ms": NUMBER,
                        "mean_tpot_ms": NUMBER,
                        "p99_tpot_ms": NUMBER,
                        "correct": BOOLEAN,
                    },
                    "required": ["max_concurrency", "output_throughput"],
                }
            ),
            "stable": BOOLEAN,
            "tool": TEXT,
            "notes": STRINGS,
            "soak": described("What mixed traffic for minutes showed; null where there was none.", SOAK),
        },
    ),
)

RETIRED = section(
    "union",
    "What had to go.",
    closed(
        {
            "units": STRINGS,
            "freed_bytes": described("Memory of the cards that became free.", COUNT),
            "freed_disk_bytes": described("Disk space that became free.", COUNT),
            "removed_paths": STRINGS,
            "removed_segments": described("Left-over files of /dev/shm.", STRINGS),
        },
    ),
)

NOTES = section(
    "name",
    "Workarounds in force and other remarks, one for each name.",
    array(
        closed(
            {"name": {"type": "string", "minLength": 1}, "text": {"type": "string", "minLength": 1}},
            required=["name", "text"],
        ),
    ),
)

HISTORY = described(
    "When which part of the record changed; the module deployment_record alone writes it.",
    array(
        closed(
            {"at": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}, "what": STRING},
            required=["at", "what"],
        ),
    ),
)
