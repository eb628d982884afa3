# SPDX-License-Identifier: Apache-2.0
"""Which folder of the collection may import which (docs/architecture.md, "Layers")."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

COLLECTION = Path(__file__).resolve().parents[2] / "collections" / "ansible_collections" / "heddle" / "ovn"
UTILS = COLLECTION / "plugins" / "module_utils"
ABSOLUTE = "ansible_collections.heddle.ovn.plugins.module_utils"

# Folder -> the folders that it may import. Those that decide (`api` to `render`) never import those that write to a
# substrate; those that write import neither networks nor their stored objects.
BASE = {"common", "types"}
DECISIONS = {"api", "store", "controllers", "plan", "render"}
SUBSTRATES = {"bird", "ovsdb", "openflow", "netlink", "nftables", "qemu"}
MAY_IMPORT = {
    "common": set(),
    "types": set(),
    "ovsdb": BASE,
    "openflow": BASE | {"ovsdb"},
    "netlink": BASE,
    "nftables": BASE | {"netlink"},
    "qemu": BASE | {"netlink"},
    "bird": BASE,
    "api": {"common"},
    "store": BASE | {"api", "ovsdb"},
    "controllers": BASE | {"api", "store", "ovsdb"},
    "plan": {"common", "api", "store", "controllers"},
    "render": BASE | {"api", "plan"},
    "mesh": {"common"},
    "mesh_daemon": BASE | {"mesh", "render"},
    "probe_daemon": BASE | {"netlink"},
    "dns_daemon": BASE | {"ovsdb"},
    "underlay": BASE,
    "underlay_daemon": BASE | {"underlay"},
    "agent": BASE | SUBSTRATES | {"render", "mesh_daemon", "probe_daemon", "dns_daemon", "underlay_daemon"},
    "verify": BASE | SUBSTRATES | {"render", "agent"},
    "traffic": BASE | SUBSTRATES | {"agent"},
    "operations": BASE | SUBSTRATES | DECISIONS | {"agent"},
    "uninstall": BASE | SUBSTRATES | {"render", "agent"},
    "program": BASE | SUBSTRATES | DECISIONS | {"agent", "operations", "uninstall", "verify"},
}
# Below render: its own layers, lowest first.
RENDER_LAYERS = [
    {"render.common"},
    {"render.gateway", "render.policy", "render.services"},
    {"render.topology", "render.host"},
    {"render.egress"},
]
PURE = {"types", "api", "plan", "render", "mesh", "underlay"}

IO_MODULES = {
    "asyncio", "http", "os", "ovs", "ovsdbapp", "pyroute2", "select", "selectors", "shutil", "socket", "ssl",
    "subprocess", "tempfile", "urllib",
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


def folder_of(name: str) -> str:
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


def test_every_file_is_in_a_known_folder():
    assert {folder_of(name) for name in SOURCES} == set(MAY_IMPORT)


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_a_folder_imports_only_what_is_below_it(folder):
    wrong = [
        f"{name} imports {target[1:]}"
        for name in SOURCES
        if folder_of(name) == folder
        for target in sorted(imports_of(name))
        if target.startswith(".") and folder_of(target) not in MAY_IMPORT[folder] | {folder}
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(name for name in SOURCES if name.startswith("render.")))
def test_a_folder_of_render_imports_only_what_is_below_it(name):
    level = {folder: number for number, folders in enumerate(RENDER_LAYERS) for folder in folders}
    own = name.rpartition(".")[0]
    wrong = [
        target[1:]
        for target in imports_of(name)
        if (other := target[1:].rpartition(".")[0]) in level and own in level and other != own
        if level[other] >= level[own]
    ]
    assert not wrong


@pytest.mark.parametrize("name", sorted(name for name in SOURCES if folder_of(name) in PURE))
def test_a_pure_folder_does_no_io(name):
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


def test_the_folders_have_no_cycle():
    below = dict(MAY_IMPORT)
    placed: set[str] = set()
    while below:
        ready = {folder for folder, under in below.items() if under <= placed}
        assert ready, f"the table has a cycle among {sorted(below)}"
        placed |= ready
        below = {folder: under for folder, under in below.items() if folder not in ready}


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
        ("from ..common.naming import x", "render", {".common.naming"}),
        ("from .. import names", "api.kinds", {".api.names"}),
        ("from ..common import naming", "render", {".common.naming"}),
        ("from . import kernel", "netlink", {".netlink.kernel"}),
        (f"from {ABSOLUTE}.common.change import Change", "", {".common.change"}),
        (f"import {ABSOLUTE}.common.naming", "plan", {".common.naming"}),
        ("def f():\n    from ..common import change", "store", {".common.change"}),
        ("import socket", "render", {"socket"}),
    ],
)
def test_imports_are_seen_in_all_forms(text, package, expected):
    assert set(imported(ast.parse(text), package)) == expected


def test_known_imports_are_found():
    assert ".types.ovsdb_row" in imports_of("render.topology.layer2")
    assert ".store.snapshot" in imports_of("plan.builder")
    assert "socket" in imports_of("ovsdb.protocol.remotes")
    assert "common.naming" in reached("render.topology.layer2")
