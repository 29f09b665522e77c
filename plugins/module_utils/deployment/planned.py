# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Sections of deployment.json that stand before the engine starts: what it is, why, and what to expect."""

from __future__ import annotations

from .schema_types import ANY, BOOLEAN, COUNT, INTEGER, NUMBER, STRING, STRINGS, TEXT, array, closed, described, section

IDENTITY = section(
    "keys",
    "What is deployed, and on what.",
    closed(
        {
            "service": {"type": "string", "minLength": 1, "description": "Name of the systemd unit, without .service."},
            "repo_id": TEXT,
            "revision": TEXT,
            "commit": {"type": ["string", "null"], "pattern": "^[0-9a-f]{40}$"},
            "path": described("Directory of the checkpoint on the host.", TEXT),
            "base_url": TEXT,
            "served_model_name": TEXT,
            "engine": closed(
                {
                    "distribution": TEXT,
                    "version": TEXT,
                    "commit": TEXT,
                    "torch": TEXT,
                    "platform": TEXT,
                    "python": described("Path of the interpreter of the engine's venv.", TEXT),
                    "site_packages": TEXT,
                }
            ),
            "driver": TEXT,
            "cuda": TEXT,
            "cards": array(
                closed(
                    {
                        "index": {"type": "integer", "minimum": 0},
                        "uuid": TEXT,
                        "name": TEXT,
                        "compute_capability": TEXT,
                        "memory_total_bytes": COUNT,
                    },
                    required=["index"],
                )
            ),
        },
    ),
)

DECISIONS = section(
    "name",
    "What was chosen, why, and what was not.",
    array(
        closed(
            {
                "name": {"type": "string", "minLength": 1, "description": "The setting, by the engine's flag name."},
                "value": ANY,
                "reason": {"type": "string", "minLength": 1},
                "rejected": array(closed({"value": ANY, "reason": STRING}, required=["value", "reason"])),
                "inputs": {
                    "type": "object",
                    "description": "What the decision rests on; it stands until one of these changes.",
                },
            },
            required=["name", "value", "reason"],
        ),
    ),
)

PLAN = section(
    "keys",
    "What was known before a byte was downloaded.",
    closed(
        {
            "tensor_parallel_size": COUNT,
            "tensor_parallel_sizes": array(
                closed(
                    {"size": {"type": "integer", "minimum": 1}, "fits": BOOLEAN, "token_capacity": COUNT},
                    required=["size", "fits"],
                )
            ),
            "weights_bytes": COUNT,
            "total_bytes": described("All files of the checkpoint.", COUNT),
            "disk_needed_bytes": COUNT,
            "disk_free_bytes": COUNT,
            "notes": STRINGS,
        },
    ),
)

CHECKPOINT = section(
    "keys",
    "The checkpoint's blueprint and files.",
    closed(
        {
            "architecture": TEXT,
            "model_type": TEXT,
            "num_layers": COUNT,
            "attention": TEXT,
            "use_sparse": BOOLEAN,
            "head_size": COUNT,
            "kv_lora_rank": COUNT,
            "qk_rope_head_dim": COUNT,
            "num_attention_heads": COUNT,
            "num_key_value_heads": COUNT,
            "hidden_size": COUNT,
            "vocab_size": COUNT,
            "max_position_embeddings": COUNT,
            "dtype": TEXT,
            "experts": {"type": ["object", "null"], "properties": {"routed": COUNT, "active": COUNT, "shared": COUNT}},
            "quantization": {
                "type": ["object", "null"],
                "properties": {
                    "method": TEXT,
                    "algo": TEXT,
                    "group_size": COUNT,
                    "kv_cache": {"type": ["object", "null"]},
                },
            },
            "shards": closed(
                {"expected": COUNT, "present": COUNT, "missing": STRINGS, "corrupt": STRINGS}, nullable=True
            ),
            "weights_bytes": COUNT,
            "total_bytes": COUNT,
            "verified": described("How the files were checked: structure or sha256.", TEXT),
            "kv_cache": closed(
                {
                    "before": described("KV cache dtype of `auto`, as published.", TEXT),
                    "after": described("KV cache dtype of `auto`, as patched.", TEXT),
                    "decided_by": described("file#json-pointer", TEXT),
                }
            ),
            "patched": BOOLEAN,
            "edits": array(
                closed({"file": STRING, "pointer": STRING, "before": ANY, "after": ANY}, required=["file", "pointer"])
            ),
            "remote_code": array(closed({"path": STRING, "sha256": STRING}, required=["path", "sha256"])),
        },
    ),
)

PREDICTED = section(
    "replace",
    "The budget, before the engine was started.",
    closed(
        {
            "token_capacity": COUNT,
            "max_concurrency": NUMBER,
            "available_kv_cache_bytes": COUNT,
            "bytes_per_token_per_gpu": NUMBER,
            "bytes_per_block": COUNT,
            "block_size": COUNT,
            "num_blocks": COUNT,
            "bytes_needed": described("KV cache of one request of max_model_len on one card.", COUNT),
            "kv_cache_dtype": TEXT,
            "family": TEXT,
            "max_model_len": described("The context length that is deployed.", COUNT),
            "largest_max_model_len": described("The longest context that fits.", COUNT),
            "recommended_max_model_len": COUNT,
            "tensor_parallel_size": COUNT,
            "gpu_memory_utilization": NUMBER,
            "memory": described(
                "Of one card, in bytes.",
                closed(
                    {
                        "total": COUNT,
                        "usable": COUNT,
                        "weights": COUNT,
                        "overhead": COUNT,
                        "cuda_graphs": COUNT,
                        "available_kv_cache": INTEGER,
                        "beyond_utilization": COUNT,
                    },
                    nullable=True,
                ),
            ),
            "basis": described(
                "Where each term of memory comes from: measured, given, tensors, files, estimated or reckoned.",
                closed({"weights": TEXT, "overhead": TEXT, "cuda_graphs": TEXT, "available_kv_cache": TEXT}),
            ),
            "alternatives": array(closed({"change": STRING, "token_capacity": COUNT}, required=["change"])),
            "explanation": STRINGS,
            "notes": STRINGS,
        },
    ),
)
