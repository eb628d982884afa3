# SPDX-License-Identifier: Apache-2.0
"""Who may import whom in the collection (docs/architecture.md, "The floors")."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

COLLECTION = Path(__file__).resolve().parents[2] / "collections" / "ansible_collections" / "heddle" / "ovn"
UTILS = COLLECTION / "plugins" / "module_utils"
ABSOLUTE = "ansible_collections.heddle.ovn.plugins.module_utils"

ARITHMETIC = {"addressing", "naming"}
# What floors say to each other: data without behaviour.
WORDS = {"document", "endpoint", "firewall", "flow", "host_network", "row", "virtual_machine"}
CONNECTION = {"ovsdb_client", "ovsdb_framing"}
PURE = ARITHMETIC | WORDS | {"model", "plan", "render"}
# Put the floors together for the modules and the host's program.
TOP = {
    "decide", "guest", "host_program", "invocation", "keep", "layer2_upgrade", "migration", "observe", "preflight",
    "readiness", "runner", "share", "share_chassis", "share_gateway", "share_topology", "share_zone", "state_view",
    "traffic", "verify",
}  # fmt: skip

# Floor -> what it may import besides itself. `state` talks to its database but never through `apply`; `apply` knows
# no network, so not even their names; `render` and `plan` are pure, so they have no connection.
MAY_IMPORT = {
    "addressing": set(),
    "naming": {"addressing"},
    "compiled": set(),
    "document": set(),
    "endpoint": set(),
    "firewall": set(),
    "flow": set(),
    "host_network": set(),
    "report_files": set(),
    "row": set(),
    "virtual_machine": set(),
    "ovsdb_framing": set(),
    "ovsdb_client": {"ovsdb_framing"},
    "model": ARITHMETIC,
    "state": ARITHMETIC | {"document", "model", "ovsdb_client"},
    "plan": ARITHMETIC | {"document", "model", "state"},
    "render": ARITHMETIC | WORDS | {"model", "plan"},
    "apply": {"addressing", "ovsdb_client"} | WORDS,
    **{name: PURE | CONNECTION | TOP | {"apply", "compiled", "state"} for name in TOP},
}

IO_MODULES = {
    "http", "os", "ovs", "ovsdbapp", "pyroute2", "select", "selectors", "shutil", "socket", "subprocess", "tempfile",
    "urllib",
}  # fmt: skip


def name_of(path: Path) -> str:
    """Return the dotted name of a file below module_utils; a package's is that of its directory."""
    parts = path.relative_to(UTILS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    name_of(path): path for path in sorted(UTILS.rglob("*.py")) if path.parent != UTILS or path.stem != "__init__"
}


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield what a module in `package` imports: `.name` below module_utils, other modules by their own name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.removeprefix(ABSOLUTE)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                parts = package.split(".") if package else []
                above = len(parts) - (node.level - 1)
                assert above >= 0, f"{package}: import from outside of module_utils"
                base = "".join(f".{part}" for part in [*parts[:above], *(node.module or "").split(".")] if part)
            elif node.module == ABSOLUTE or (node.module or "").startswith(f"{ABSOLUTE}."):
                base = node.module.removeprefix(ABSOLUTE)
            else:
                yield node.module or ""
                continue
            for alias in node.names:
                module = f"{base}.{alias.name}"
                yield module if module[1:] in SOURCES or not base else base


@functools.cache
def imports_of(name: str) -> frozenset[str]:
    """Return what a file below module_utils imports."""
    path = SOURCES[name]
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    return frozenset(imported(ast.parse(path.read_text(encoding="utf-8")), package))


def floor_of(name: str) -> str:
    return name.lstrip(".").partition(".")[0]


def reached(name: str) -> set[str]:
    """Return all files that importing `name` runs: the packages on the way to a module are run too."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found or current not in SOURCES:
            continue
        found.add(current)
        waiting += [target[1:] for target in imports_of(current) if target.startswith(".")]
        waiting.append(current.rpartition(".")[0])
    return found


def test_every_file_belongs_to_a_floor():
    assert {floor_of(name) for name in SOURCES} <= set(MAY_IMPORT)


@pytest.mark.parametrize("floor", sorted(MAY_IMPORT))
def test_a_floor_imports_only_floors_below_it(floor):
    files = [name for name in SOURCES if floor_of(name) == floor]
    assert files, f"the floor {floor} has no files; correct the table"
    wrong = [
        f"{name} imports {target[1:]}"
        for name in files
        for target in sorted(imports_of(name))
        if target.startswith(".") and floor_of(target) not in MAY_IMPORT[floor] | {floor}
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(name for name in SOURCES if floor_of(name) in PURE))
def test_a_pure_floor_does_no_io(name):
    wrong = sorted(
        f"{file} imports {target}"
        for file in reached(name)
        for target in imports_of(file)
        if target.partition(".")[0] in IO_MODULES
    )
    wrong += [
        f"{name}:{node.lineno} calls open"
        for node in ast.walk(ast.parse(SOURCES[name].read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_floors_have_no_cycle():
    below = {floor: MAY_IMPORT[floor] for floor in MAY_IMPORT if floor not in TOP}
    placed: set[str] = set()
    while below:
        ready = {floor for floor, under in below.items() if under <= placed}
        assert ready, f"the table has a cycle among {sorted(below)}"
        placed |= ready
        below = {floor: under for floor, under in below.items() if floor not in ready}


def test_the_files_have_no_cycle():
    edges = {name: {target[1:] for target in imports_of(name) if target[1:] in SOURCES} - {name} for name in SOURCES}
    edges = {
        name: {target for target in targets if not name.startswith(f"{target}.")} for name, targets in edges.items()
    }
    while ready := [name for name, targets in edges.items() if not targets & set(edges)]:
        for name in ready:
            del edges[name]
    assert not edges, f"import cycle among {sorted(edges)}"


@pytest.mark.parametrize(
    ("text", "package", "expected"),
    [
        ("from ..naming import x", "render", {".naming"}),
        ("from .. import naming", "model.kinds", {".model"}),
        ("from .. import naming", "render", {".naming"}),
        ("from . import kernel", "apply", {".apply.kernel"}),
        (f"from {ABSOLUTE}.apply.change import Change", "", {".apply.change"}),
        (f"import {ABSOLUTE}.naming", "plan", {".naming"}),
        ("def f():\n    from ..apply import change", "state", {".apply.change"}),
        ("import socket", "render", {"socket"}),
    ],
)
def test_imports_are_seen_in_all_forms(text, package, expected):
    assert set(imported(ast.parse(text), package)) == expected


def test_known_imports_are_found():
    assert ".row" in imports_of("render.layer2")
    assert ".state.snapshot" in imports_of("plan.builder")
    assert "socket" in imports_of("ovsdb_client")
    assert "naming" in reached("render.layer2")
