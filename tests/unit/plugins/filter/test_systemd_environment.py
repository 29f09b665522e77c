# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.filter.systemd_environment import systemd_environment
from hypothesis import given, settings
from hypothesis import strategies as st

names = st.from_regex(r"T_[A-Za-z0-9_]{0,8}", fullmatch=True)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=30) | st.text(
    "%$\\\"'` #;=", max_size=12
)


def test_lines_are_sorted_and_quoted() -> None:
    assert systemd_environment({"NCCL_PROTO": "LL,LL128,Simple", "NCCL_IB_DISABLE": 1, "A": None}) == (
        'NCCL_IB_DISABLE="1"\nNCCL_PROTO="LL,LL128,Simple"'
    )


def test_nothing_gives_nothing() -> None:
    assert systemd_environment({}) == ""


@settings(max_examples=50, deadline=None)
@given(variables=st.dictionaries(names, values, max_size=4))
def test_a_shell_reads_the_same_values(variables: dict[str, str]) -> None:
    script = f"set -a\n{systemd_environment(variables)}\nexec env -0"
    result = subprocess.run(["sh", "-c", script], capture_output=True, timeout=10, check=True)
    pairs = [pair.split("=", 1) for pair in result.stdout.decode().split("\0") if pair.startswith("T_")]
    assert dict(pairs) == variables


@given(variables=st.dictionaries(names, values, max_size=4))
def test_systemd_reads_any_values_back(
    parse_environment_file: Callable[[str], dict[str, str]], variables: dict[str, str]
) -> None:
    assert parse_environment_file(systemd_environment(variables) + "\n") == variables


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\udc80", True, ["a"]])
def test_a_value_that_the_file_cannot_carry_is_refused_by_name_only(bad: object) -> None:
    with pytest.raises(AnsibleFilterError, match="the value of VLLM_API_KEY"):
        systemd_environment({"VLLM_API_KEY": bad})


def test_the_value_is_not_in_the_error() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        systemd_environment({"VLLM_API_KEY": "sk-canary\n"})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("name", ["1A", "A-B", "", "A B", "A=B", 5])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(AnsibleFilterError, match="no environment variable name"):
        systemd_environment({name: "x"})


def test_only_mappings() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a mapping"):
        systemd_environment(["A=1"])  # type: ignore[arg-type]
