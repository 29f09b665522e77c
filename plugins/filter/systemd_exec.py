# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write an argument vector so that systemd hands exactly these arguments to the process."""

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_exec
short_description: Quote an argument vector for ExecStart=
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - Turns a list of arguments into the one line that C(ExecStart=) and its relatives take, so that the process gets
    exactly these arguments. No shell takes part.
  - Percent signs are doubled against specifiers, dollar signs against environment variables. Every argument that holds
    anything beside plain letters, digits and C(_@%+:,./=$-) stands in double quotes, with backslashes and double quotes
    escaped.
  - An argument that no unit file can carry (a line break, a NUL byte, text that is not UTF-8) is an error that names
    the argument and never shows its value.
options:
  _input:
    description:
      - The arguments, the absolute path of the executable first.
      - Numbers are accepted beside strings.
      - A boolean or a null is an error, as programs differ in how they want it written.
    type: list
    elements: raw
    required: true
notes:
  - The path of the executable may hold no dollar sign. systemd replaces variables in the arguments and not in the path.
seealso:
  - plugin: blackwell.serving.systemd_environment
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the unit of an engine
  ansible.builtin.copy:
    dest: /etc/systemd/system/engine.service
    mode: "0644"
    content: |
      [Service]
      ExecStart={{ argv | blackwell.serving.systemd_exec }}
  vars:
    argv:
      - /opt/vllm/bin/python
      - --speculative-config
      - '{"method": "eagle3", "num_speculative_tokens": 3}'
# ExecStart=/opt/vllm/bin/python --speculative-config "{\"method\": \"eagle3\", \"num_speculative_tokens\": 3}"
"""

RETURN = r"""
_value:
  description: The text that stands after C(ExecStart=).
  type: str
  sample: '/opt/vllm/bin/python -m vllm.entrypoints.openai.api_server --served-model-name "kimi k2.5"'
"""

import re
from collections.abc import Callable, Sequence

from ansible.errors import AnsibleFilterError

_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./=$-]+")
_OPTION = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_.-]*")


def _name(argv: Sequence[object], index: int) -> str:
    """Say which argument it is, by its position and its option; the value itself may be a secret."""
    for text in (argv[index], argv[index - 1] if index else None):
        option = _OPTION.match(text) if isinstance(text, str) else None
        if option:
            return f"argument {index} ({option.group()})"
    return f"argument {index}"


def _text(argv: Sequence[object], index: int) -> str:
    value = argv[index]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise AnsibleFilterError(
            f"systemd_exec: {_name(argv, index)} is of type {type(value).__name__}. "
            "Give a string or a number; write JSON with the filter to_json"
        )
    text = str(value)
    for character, word in (("\n", "a line break"), ("\r", "a carriage return"), ("\0", "a NUL byte")):
        if character in text:
            raise AnsibleFilterError(
                f"systemd_exec: {_name(argv, index)} contains {word}, which a unit file cannot carry. "
                "Put the value into a file and name that file instead"
            )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise AnsibleFilterError(
            f"systemd_exec: {_name(argv, index)} is not valid UTF-8, and systemd would ignore the whole line"
        ) from error
    return text


def _executable(text: str) -> str:
    if not text.startswith("/"):
        raise AnsibleFilterError(
            "systemd_exec: argument 0 is not an absolute path. Name the executable by its full path"
        )
    if "$" in text:
        raise AnsibleFilterError(
            "systemd_exec: argument 0 contains a dollar sign, which the path of an executable cannot carry in a unit"
        )
    return _quote(text)


def _quote(text: str) -> str:
    text = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def systemd_exec(argv: Sequence[object]) -> str:
    """["/bin/a", "50 %"] -> '/bin/a "50 %%"'"""
    if isinstance(argv, (str, bytes)) or not isinstance(argv, Sequence):
        raise AnsibleFilterError(f"systemd_exec: expected a list of arguments, got {type(argv).__name__}")
    if not argv:
        raise AnsibleFilterError("systemd_exec: the list of arguments is empty")
    texts = [_text(argv, index) for index in range(len(argv))]
    return " ".join([_executable(texts[0]), *map(_quote, texts[1:])])


class FilterModule:
    """The filter by its name."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"systemd_exec": systemd_exec}
