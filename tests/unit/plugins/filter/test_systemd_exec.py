# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.filter.systemd_exec import systemd_exec
from hypothesis import given
from hypothesis import strategies as st

ParseExec = Callable[[str, dict[str, str]], list[str]]
HARD = [
    "/usr/bin/printf",
    "--speculative-config",
    '{"method":"eagle3","num_speculative_tokens":3}',
    "--chat-template-content",
    "{%if a%}${X} costs $5 {%endif%}",
    "--served-model-name",
    "kimi k2.5",
    "--download-dir",
    "C:\\weights",
    "$HOME",
    "$$",
    "it's",
    ";",
    "",
    "#",
    "%",
    "tab\there",
    "ends in a backslash\\",
    "naïve 模型",
]
arguments = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=30) | st.text(
    "%$\\\"' {}ia;", max_size=12
)


def reparse(line: str) -> list[str]:
    """The documented syntax, read once more: systemd.syntax (quoting), systemd.unit (specifiers), systemd.service
    (variables)."""
    words: list[str] = []
    index = 0
    while index < len(line):
        if line[index] == " ":
            index += 1
            continue
        word, quoted = "", False
        while index < len(line) and (quoted or line[index] != " "):
            character = line[index]
            if character == '"':
                quoted = not quoted
            elif character == "\\":
                index += 1
                assert line[index] in '\\"'
                word += line[index]
            else:
                assert quoted or character not in "';#"
                word += character
            index += 1
        assert not quoted
        rest = word.replace("%%", "").replace("$$", "")
        assert "%" not in rest
        assert "$" not in rest
        words.append(word.replace("%%", "%").replace("$$", "$"))
    return words


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("--port", "--port"),
        ("--gpu-memory-utilization=0.95", "--gpu-memory-utilization=0.95"),
        ("kimi k2.5", '"kimi k2.5"'),
        ("50%", "50%%"),
        ("$5", "$$5"),
        ("C:\\w", '"C:\\\\w"'),
        ('{"a":1}', '"{\\"a\\":1}"'),
        ("", '""'),
        (";", '";"'),
        (8000, "8000"),
        (0.95, "0.95"),
    ],
)
def test_how_an_argument_is_written(argument: object, written: str) -> None:
    assert systemd_exec(["/bin/a", argument]) == f"/bin/a {written}"


@given(st.lists(arguments, max_size=5))
def test_what_is_written_reads_back(argv: list[str]) -> None:
    assert reparse(systemd_exec(["/bin/a", *argv])) == ["/bin/a", *argv]


def test_the_parser_of_this_test_expands_what_is_not_escaped(parse_exec: ParseExec) -> None:
    assert parse_exec("/bin/a {%if $X ${X}", {"X": "1 2"}) == [
        "/bin/a",
        "{<specifier>f",
        "1",
        "2",
        "1 2",
    ]


def test_systemd_reads_the_hard_arguments_back(parse_exec: ParseExec) -> None:
    assert parse_exec(systemd_exec(HARD), {"X": "x", "HOME": "/", "5": "five"}) == HARD


@given(argv=st.lists(arguments, max_size=5))
def test_systemd_reads_any_arguments_back(parse_exec: ParseExec, argv: list[str]) -> None:
    assert parse_exec(systemd_exec(["/bin/a", *argv]), {"i": "x", "a": "y"}) == ["/bin/a", *argv]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_analyze_has_nothing_to_say(tmp_path: Path) -> None:
    unit = tmp_path / "quoting.service"
    unit.write_text(f"[Service]\nType=exec\nExecStart={systemd_exec(HARD)}\n")
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=30, check=False
    )
    complaints = [line for line in result.stderr.splitlines() if "quoting" in line]
    assert complaints == []


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\udc80", None, True, {"a": 1}])
def test_what_a_unit_cannot_carry_is_refused_by_name(bad: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"argument 2 \(--chat-template-content\)"):
        systemd_exec(["/bin/a", "--chat-template-content", bad])


def test_the_option_in_the_same_word_names_the_argument_and_its_value_is_not_shown() -> None:
    with pytest.raises(AnsibleFilterError, match=r"argument 1 \(--api-key\)") as caught:
        systemd_exec(["/bin/a", "--api-key=sk\nsecret"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "is empty"),
        ("/bin/a", "expected a list"),
        (["python"], "not an absolute path"),
        (["@/bin/a"], "not an absolute path"),
        (["/opt/$x/a"], "dollar sign"),
    ],
)
def test_no_such_vector(argv: list[object], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        systemd_exec(argv)
