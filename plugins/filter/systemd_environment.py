# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write environment variables so that systemd reads back exactly these values."""

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_environment
short_description: Write a mapping as the lines of an EnvironmentFile=
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - Turns a mapping of environment variables into the lines of a file for C(EnvironmentFile=), sorted by name, so that
    an unchanged mapping gives an unchanged file.
  - Every value stands in double quotes. Nothing is expanded in such a file, neither variables nor specifiers.
  - A name that is no environment variable name, or a value that such a file cannot carry on one line, is an error that
    names the variable and never shows its value.
options:
  _input:
    description:
      - The variables by name.
      - Numbers are accepted beside strings. A null leaves the variable out. A boolean is an error, as programs differ
        in what they take for true.
    type: dict
    required: true
seealso:
  - plugin: blackwell.serving.systemd_exec
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the settings of an engine
  ansible.builtin.copy:
    dest: /etc/blackwell-serving/engine.env
    mode: "0644"
    content: "{{ settings | blackwell.serving.systemd_environment }}\n"
  vars:
    settings:
      NCCL_PROTO: "LL,LL128,Simple"
      NCCL_IB_DISABLE: 1
# NCCL_IB_DISABLE="1"
# NCCL_PROTO="LL,LL128,Simple"
"""

RETURN = r"""
_value:
  description: One line for each variable, without a line break at the end; empty when there is none.
  type: str
  sample: "NCCL_IB_DISABLE=\"1\"\nNCCL_PROTO=\"LL,LL128,Simple\""
"""

import re
from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a backslash escapes inside double quotes there; before any other character it would stay.
_ESCAPED = re.compile(r'(["\\`$])')


def _text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise AnsibleFilterError(
            f"systemd_environment: the value of {name} is of type {type(value).__name__}. "
            'Give a string or a number, for example "1" for a flag'
        )
    text = str(value)
    for character, word in (("\n", "a line break"), ("\r", "a carriage return"), ("\0", "a NUL byte")):
        if character in text:
            raise AnsibleFilterError(
                f"systemd_environment: the value of {name} contains {word}, which the file cannot carry on one line"
            )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise AnsibleFilterError(f"systemd_environment: the value of {name} is not valid UTF-8") from error
    return text


def systemd_environment(variables: Mapping[str, object]) -> str:
    """{"B": 1, "A": "x y"} -> 'A="x y"\\nB="1"'"""
    if not isinstance(variables, Mapping):
        raise AnsibleFilterError(f"systemd_environment: expected a mapping, got {type(variables).__name__}")
    for name in variables:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise AnsibleFilterError(
                f"systemd_environment: {name!r} is no environment variable name. Use letters, digits and underscores"
            )
    return "\n".join(
        f'{name}="' + _ESCAPED.sub(r"\\\1", _text(name, value)) + '"'
        for name, value in sorted(variables.items())
        if value is not None
    )


class FilterModule:
    """The filter by its name."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"systemd_environment": systemd_environment}
