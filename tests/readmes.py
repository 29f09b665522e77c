# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of variables in each role's README from the role's meta/argument_specs.yml.

python tests/readmes.py            writes the tables
python tests/readmes.py --check    fails, and names the files, when a table is not what the specification says
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parents[1] / "roles"
BEGIN, END = "<!-- variables -->", "<!-- /variables -->"
# What Markdown sets as code: option, value, code, module, plugin, environment variable, return value.
MARKUP = re.compile(r"\b(?:[CEMOPV]|RV)\(((?:[^)\\]|\\.)*)\)")


def main(words: list[str] | None = None, roles: Path = ROLES) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(words).check
    stale = [path for path in sorted(roles.glob("*/README.md")) if path.read_text() != rendered(path)]
    for path in stale:
        if check:
            print(f"{path}: the table of variables is stale; run tests/readmes.py")
        else:
            path.write_text(rendered(path))
            print(f"{path}: written")
    return 1 if check and stale else 0


def rendered(readme: Path) -> str:
    """The README's text with the table that belongs between its markers."""
    before, _begin, rest = readme.read_text().partition(BEGIN)
    _old_table, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{readme}: the table of variables belongs between {BEGIN} and {END}, which are not there")
    return f"{before}{BEGIN}\n\n{table(options(readme.parent))}\n\n{END}{after}"


def options(role: Path) -> dict[str, dict[str, Any]]:
    """The options of all entry points of a role, by name; a default that is not specified is that of its defaults."""
    entry_points = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text()) or {}
    return {
        name: {"default": defaults[name], **option} if name in defaults else option
        for point in entry_points.values()
        for name, option in (point.get("options") or {}).items()
    }


def table(specified: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [("variable", "type", "default", "meaning"), ("---", "---", "---", "---")]
    rows += [(code(name), kind(spec), default(spec), meaning(spec)) for name, spec in specified.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def kind(spec: Mapping[str, Any]) -> str:
    """`list of int`, or `str: present, absent` where only some values are allowed."""
    name = f"list of {spec['elements']}" if "elements" in spec else str(spec["type"])
    return f"{name}: {', '.join(code(choice) for choice in spec['choices'])}" if "choices" in spec else name


def default(spec: Mapping[str, Any]) -> str:
    if "default" not in spec:
        return "required" if spec.get("required") else ""
    value = spec["default"]
    return code(value if isinstance(value, str) and value else json.dumps(value))


def meaning(spec: Mapping[str, Any]) -> str:
    written = spec["description"]
    return markdown(written if isinstance(written, str) else " ".join(written))


def markdown(text: str) -> str:
    """Ansible's markup as Markdown, for a cell of a table."""
    parts: list[str] = []
    end = 0
    for match in MARKUP.finditer(text):
        parts += [plain(text[end : match.start()]), code(re.sub(r"\\(.)", r"\1", match[1]))]
        end = match.end()
    return "".join([*parts, plain(text[end:])])


def plain(text: str) -> str:
    return re.sub(r"([*<|])", r"\\\1", text)


def code(text: object) -> str:
    """A code span; in a table even there a bar would end the cell."""
    return "`" + str(text).replace("|", r"\|") + "`"


if __name__ == "__main__":
    sys.exit(main())
