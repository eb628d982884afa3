# SPDX-License-Identifier: Apache-2.0
"""The result of the module `coil_v1_manifests`: a dump of Coil v1 as one file of manifests."""

from __future__ import annotations

import os

from ..api.coil.coil_v1 import read_v1_dump
from ..common.files.atomic_file import replace_file
from ..controllers.coil.v1_manifests import convert

try:
    import yaml
except ImportError as error:
    YAML_IMPORT_ERROR = error
else:
    YAML_IMPORT_ERROR = None

ARGUMENTS = {
    "src": {"type": "path", "required": True},
    "dest": {"type": "path", "required": True},
    "nodes": {"type": "list", "elements": "str", "required": True},
    "replaced": {"type": "list", "elements": "str", "default": []},
    "namespaces": {"type": "bool", "default": True},
    "prefix": {"type": "str", "default": "/coil/"},
}
_HEAD = "# Written by heddle.ovn.coil_v1_manifests, which writes it anew; docs/coil.md describes the migration.\n"


class Refused(Exception):
    """Nothing was written; `problems` says why, a line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join([f"{len(problems)} problem(s), nothing was written", *problems]))
        self.problems = problems


def manifests_result(params: dict, *, write: bool) -> dict:
    """Bring the file of manifests to the dump; return what the module returns."""
    if YAML_IMPORT_ERROR is not None:
        raise Refused(["PyYAML is required to write manifests (Debian package python3-yaml)"])
    src, dest = params["src"], params["dest"]
    try:
        with open(src, encoding="utf-8") as file:
            text = file.read()
        before = _content(dest)
    except (OSError, UnicodeDecodeError) as error:
        raise Refused([f"{src if isinstance(error, UnicodeDecodeError) else error.filename}: {error}"]) from error
    state, problems = read_v1_dump(os.path.basename(src), text, params["prefix"])
    # What follows from a key that cannot be read would hide it.
    found = convert(state, params["nodes"], params["replaced"], namespaces=params["namespaces"])
    if problems or found.problems:
        raise Refused(problems or [f"{os.path.basename(src)}: {line}" for line in found.problems])
    after = _HEAD + yaml.safe_dump_all(found.documents, explicit_start=True, sort_keys=False)
    changed = before != after
    if changed and write:
        try:
            replace_file(dest, after)
        except OSError as error:
            raise Refused([f"{dest}: {error.strerror}; make its directory, or name another one"]) from error
    return {
        "changed": changed,
        "waiting": found.waiting,
        "replaced": found.replaced,
        "skipped": found.skipped,
        "diff": {"before_header": dest, "after_header": dest, "before": before, "after": after},
    }


def _content(path: str) -> str:
    if not os.path.lexists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()
