# SPDX-License-Identifier: Apache-2.0
"""The variables that playbooks read, from the files in meta/variables/, which are their only source."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

SCOPES = {"host": "hosts.yml", "deployment": "deployment.yml", "run": "runs.yml"}
DIRECTORY = Path(__file__).resolve().parents[3] / "meta" / "variables"
# As in the documentation of modules: V(value), C(code), O(option), M(module).
_MARKUP = re.compile(r"\b[VCOM]\(([^)]*)\)")
# The C parser takes a tenth of the time; not every PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_variables(directory: Path = DIRECTORY) -> dict[str, dict]:
    """Return the options of each variable by name, with its `scope`: `host`, `deployment` or `run`."""
    found: dict[str, dict] = {}
    for scope, file in SCOPES.items():
        text = (directory / file).read_text(encoding="utf-8")
        options = yaml.load(text, Loader=_LOADER)
        found |= {name: {**option, "scope": scope} for name, option in options.items()}
    return found


def purpose(option: dict) -> str:
    """Return the description of an option as plain text, for a message."""
    return _MARKUP.sub(r"\1", option["description"]).rstrip(".")
