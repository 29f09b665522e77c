# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.secrets import names_a_secret, secrets


@pytest.mark.parametrize(
    "name",
    ["token", "HF_TOKEN", "VLLM_API_KEY", "api_key", "apikey", "vllmApiKey", "password", "Authorization", "api-key"],
)
def test_names_of_secrets(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name", ["tokenizer", "tokens", "max_tokens", "key", "keyword", "kv_cache", "monkey", "api", "passed", "secretary"]
)
def test_names_of_other_things(name: str) -> None:
    assert not names_a_secret(name)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"token_capacity": 5, "token": 5, "password": ""}, []),
        ({"inputs": {"HF_TOKEN": "x"}}, [("/inputs/HF_TOKEN", "x")]),
        ([{"authorization": ["a", {"b": "c"}]}], [("/0/authorization/0", "a"), ("/0/authorization/1/b", "c")]),
        (
            {"evidence": "non-default args: {'api_key': ['sk-test-AAAABBBBCCCC']}"},
            [("/evidence", "sk-test-AAAABBBBCCCC")],
        ),
        ({"line": "using hf_testtesttest now"}, [("/line", "hf_testtesttest")]),
        ({"line": "Authorization: Bearer abcdefghijklmnop"}, [("/line", "Bearer abcdefghijklmnop")]),
        ({"line": "https://me:pw@hub/x"}, [("/line", "://me:pw@")]),
        ({"line": "hf_quant_config.json, sk-learn, Bearer authentication, http://127.0.0.1:8000/v1"}, []),
    ],
)
def test_secrets_are_found_by_key_and_by_form(value: Any, found: list[tuple[str, str]]) -> None:
    assert list(secrets(value)) == found
