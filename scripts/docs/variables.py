# SPDX-License-Identifier: Apache-2.0
"""docs/variables.md, from meta/variables/ of the collection, and from the argument_specs of roles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.variables import read_variables

ROLES = Path(__file__).resolve().parents[2] / "roles"
_MARKUP = re.compile(r"\b[VCOM]\(([^)]*)\)")
_HEAD = """# Variables

Generated from `meta/variables/` of the collection. Every playbook begins with a check of all of them
(`heddle.ovn.inventory`), before a host is contacted; unknown names that begin with `heddle_` are refused.
"""
_SECTIONS = {
    "host": ("Variables of hosts", "Set for a host or a group; the group in the last column has to have them."),
    "deployment": ("Variables of the deployment", "The same for all hosts: in `group_vars/all.yml`."),
    "run": ("Variables of one run", "Given by `-e NAME=VALUE`, or `-e '{\"NAME\": [...]}'` for a list."),
}


# Options of roles that no playbook sets, so that the inventory may.
_ROLE_OPTIONS = ("bird_template", "host_northd_threads")
_ROLES = """## Variables of roles

These belong to single roles, whose names they begin with. They are not checked before a run, but by the role. In the
same way variables whose names end with `_packages` replace the packages that a role installs.

| name | type | default | meaning | role |
|---|---|---|---|---|
"""


def variables_page() -> str:
    """Return the page in Markdown."""
    variables = read_variables()
    parts = [_HEAD]
    for scope, (title, text) in _SECTIONS.items():
        rows = [row for name, option in variables.items() if option["scope"] == scope for row in _rows(name, option)]
        parts.append(f"## {title}\n\n{text}\n\n" + _table(scope, rows))
    return "\n".join([*parts, _ROLES + "".join(_role_rows())])


def _role_rows() -> list[str]:
    rows = []
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        options = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"].get("options", {})
        role = path.parts[-3]
        rows += [_row(f"`{name}`", options[name], f"`{role}`") for name in _ROLE_OPTIONS if name in options]
    return rows


def _table(scope: str, rows: list[str]) -> str:
    last = {"host": "hosts", "deployment": "required", "run": "playbooks"}[scope]
    return f"| name | type | default | meaning | {last} |\n|---|---|---|---|---|\n" + "".join(rows)


def _rows(name: str, option: dict) -> list[str]:
    place = {"host": _hosts(option), "run": ", ".join(option.get("playbooks", []))}.get(
        option["scope"], "yes" if "required" in option else ""
    )
    return [_row(f"`{name}`", option, place), *_part_rows(name, option)]


def _part_rows(name: str, option: dict) -> list[str]:
    """Return rows of what a dictionary or a list of dictionaries has, and of all that is in it."""
    rows = []
    parts = option.get("options") or option.get("entries") or {}
    place = ".NAME" if "entries" in option else "[]" if option["type"] == "list" else ""
    for key, part in parts.items():
        inner = f"{name}{place}.{key}"
        rows += [_row(f"`{inner}`", part, _needed(part)), *_part_rows(inner, part)]
    return rows


def _needed(option: dict) -> str:
    return "required" if option.get("required") else ""


def _hosts(option: dict) -> str:
    needed = option.get("required", [])
    return ", ".join(f"`{group}`{' (required)' if group in needed else ''}" for group in option.get("groups", []))


def _row(name: str, option: dict, place: str) -> str:
    default = f"`{json.dumps(option['default'])}`" if "default" in option else ""
    description = option["description"]
    words = description if isinstance(description, str) else " ".join(description)
    text = _MARKUP.sub(r"`\1`", words).replace("|", "\\|")
    return f"| {name} | {_type(option)} | {default} | {text} | {place} |\n"


def _type(option: dict) -> str:
    kind = {"str": "text", "int": "number", "bool": "true or false", "dict": "dictionary", "raw": "any"}
    words = kind.get(option["type"], option["type"])
    if option["type"] == "list":
        words = f"list of {kind.get(option['elements'], option['elements'])}"
    if "choices" in option:
        words = " or ".join(f"`{choice}`" for choice in option["choices"])
    if "range" in option:
        least, *most = option["range"]
        words += f" from {least} to {most[0]}" if most else f" of at least {least}"
    if option.get("format") not in (None, "existing", "watched", "name"):
        words += f" ({option['format'].replace('_', ' ')})"
    return words
