# SPDX-License-Identifier: Apache-2.0
"""Groups the drift of one host by cause: a missing port explains its flows, a missing VRF its routes and rules. Pure.

What is missing is a resource; an entry of drift provides resources and needs others. The cause of an entry is found by
following the first need that is missing, as long as there is one. Resources are tuples, kind first:
`("bridge", NAME)`, `("mapping", BRIDGE)`, `("port", NAME)`, `("link", NAME)`, `("address", ADDRESS)`, `("vrf", NAME)`,
`("table", NUMBER)`, `("row", TABLE, NAME)`, `("daemon", UNIT)`, `("chassis",)`, `("network", NAME)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...common.naming import INTEGRATION_BRIDGE
from ...types.ovsdb_row import Row

Resource = tuple[str, ...]
_PATCH_PORT = re.compile(rf"patch-(.+)-to-{INTEGRATION_BRIDGE}\Z")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_PORT_NUMBER = re.compile(r"\b(?:in_port=|output:)(\d+)\b")
_VRF_LINK = re.compile(r"index of (\S+) \+ ")
_LABEL = re.compile(r"([A-Z]\w+)/(.+)\Z", re.DOTALL)
# What has to be there for ovn-controller to make a patch port (ovn-controller(8), `ovn-bridge-mappings`).
_PATCH_PORT_DAEMONS = ("ovn-controller", "ovs-vswitchd", "ovn-ovsdb-server-sb", "ovn-northd")


@dataclass(frozen=True)
class Host:
    """What is known of the host besides its drift.

    `parents`: (table, name) of a desired row -> (table, name) of the row that holds it, as `parents_of` returns it.
    `ports`: bridge -> name of a port -> its OpenFlow number as text, of the ports that are there.
    `networks`: names of the networks that the plan has on the host. `stopped`: unit of a daemon that does not run ->
    the line that reports it. `other_chassis`: the line that reports another system-id than the plan's, "" when it is
    the plan's.
    """

    parents: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    ports: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    networks: frozenset[str] = frozenset()
    stopped: Mapping[str, str] = field(default_factory=dict)
    other_chassis: str = ""


def parents_of(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return for each row with a parent (table, name) -> (table, name), named as changes name them."""
    rows = list(rows)
    names = {(row.table, row.key): str(row.columns.get("name") or row.key) for row in rows}
    return {
        (row.table, names[row.table, row.key]): (
            row.parent.table, names.get((row.parent.table, row.parent.key), row.parent.key)
        )
        for row in rows if row.parent is not None
    }  # fmt: skip


def group(drift: list[dict], host: Host) -> tuple[list[dict], list[int]]:
    """Return the causes, and for each entry of `drift` the position of its cause.

    A cause has `substrate`, `kind`, `name`, `network`, `column`, `expected` and `found` of the entry that explains the
    others, or of something missing that is no entry itself; `problem` is the line of the host's problems that reports
    it, or ""; `drift` is how many entries it explains, itself included; `kinds` counts the others by substrate and
    kind. The causes are in the order in which they first occur.
    """
    graph = _Graph(drift, host)
    causes: dict[object, dict] = {}
    place: dict[object, int] = {}
    found = []
    for number, entry in enumerate(drift):
        root = graph.root(number)
        if root not in causes:
            place[root] = len(causes)
            causes[root] = {**graph.head(root), "problem": graph.problem(root), "drift": 0, "kinds": Counter()}
        cause = causes[root]
        cause["drift"] += 1
        if root != number:
            cause["kinds"][f"{entry['substrate']} {entry['kind']}"] += 1
        found.append(place[root])
    return [{**cause, "kinds": dict(cause["kinds"].most_common())} for cause in causes.values()], found


class _Graph:
    """Nodes are entries, by number, and resources that are missing without being an entry."""

    def __init__(self, drift: list[dict], host: Host) -> None:
        self._drift, self._host = drift, host
        self._provider: dict[Resource, int] = {}
        self._vrf_links = {
            entry["name"]: found[1]
            for entry in drift
            if _is(entry, "kernel", "VRF") and (found := _VRF_LINK.match(str(_wanted(entry).get("table", ""))))
        }
        self._names = {bridge: set(ports) for bridge, ports in host.ports.items()}
        self._numbers = {bridge: set(ports.values()) for bridge, ports in host.ports.items()}
        self._roots: dict[object, object] = {}
        for number, entry in enumerate(drift):
            for resource in _provided(entry):
                self._provider.setdefault(resource, number)

    def root(self, node: object) -> object:
        """Return the node that explains this one: itself when nothing does."""
        path = []
        while node not in self._roots:
            path.append(node)
            following = self._following(node)
            # What explains itself in a circle has no cause but the entry where the circle was entered.
            if following is None or following in path:
                self._roots[node] = node
                break
            node = following
        found = self._roots[node]
        self._roots.update(dict.fromkeys(path, found))
        return found

    def head(self, root: object) -> dict:
        """Return what identifies a cause."""
        if isinstance(root, int):
            return {key: value for key, value in self._drift[root].items() if key != "cause"}
        kind, *names = root
        substrate, title = _TITLES[kind]
        return {
            "substrate": substrate, "kind": title, "name": " ".join(names), "network": "", "column": None,
            "expected": None, "found": {} if kind in ("network", "number") else None,
        }  # fmt: skip

    def problem(self, root: object) -> str:
        """Return the line that reports a cause which is no drift."""
        if isinstance(root, int):
            return ""
        return self._host.other_chassis if root[0] == "chassis" else self._host.stopped.get(root[-1], "")

    def _following(self, node: object) -> object | None:
        needs = self._needs(self._drift[node]) if isinstance(node, int) else self._needs_of_missing(node)
        for resource in needs:
            provider = self._provider.get(resource)
            if provider is not None and provider != node:
                return provider
            if provider is None and self._is_missing(resource):
                return resource
        return None

    def _is_missing(self, resource: Resource) -> bool:
        """Whether something is missing that no entry is about."""
        kind, *names = resource
        if kind == "patch port":
            return names[1] not in self._names.get(names[0], set())
        if kind == "number":
            return names[1] not in self._numbers.get(names[0], set())
        if kind == "network":
            return names[0] not in self._host.networks
        if kind == "chassis":
            return bool(self._host.other_chassis)
        return kind == "daemon" and names[0] in self._host.stopped

    def _needs_of_missing(self, resource: Resource) -> list[Resource]:
        kind, *names = resource
        if kind not in ("patch port", "number"):
            return []
        needs: list[Resource] = [("bridge", names[0]), ("mapping", names[0])]
        needs += [("daemon", unit) for unit in _PATCH_PORT_DAEMONS]
        needs.append(("chassis",))
        found = _PATCH_PORT.match(names[1])
        return [*needs, ("row", "Logical_Switch_Port", found[1])] if found else needs

    def _needs(self, entry: dict) -> list[Resource]:
        """Return what an entry needs, the most general first."""
        needs: list[Resource] = []
        if entry["network"] and entry["expected"] is None and entry["column"] is None:
            needs.append(("network", entry["network"]))
        if entry["substrate"] == "openflow":
            return needs + self._openflow_needs(entry)
        if entry["substrate"] == "kernel":
            return needs + self._kernel_needs(entry)
        return needs + self._row_needs(entry)

    def _openflow_needs(self, entry: dict) -> list[Resource]:
        bridge, _space, rest = entry["name"].partition(" ")
        if entry["kind"] != "flow":
            port = rest if entry["kind"] == "port" else str(_wanted(entry).get("port", ""))
            return [("bridge", bridge), *self._port_needs(bridge, [port])]
        if entry["expected"] is None:
            # A flow that is too many says its ports by number; those that are gone have no name any more.
            numbers = _PORT_NUMBER.findall(f"{rest} {_found(entry).get('actions', '')}")
            return [("bridge", bridge), *(("number", bridge, number) for number in numbers)]
        wanted = _PLACEHOLDER.findall(f"{rest} {_wanted(entry).get('actions', '')}")
        return [("bridge", bridge), *self._port_needs(bridge, wanted)]

    def _port_needs(self, bridge: str, ports: list[str]) -> list[Resource]:
        return [("patch port", bridge, port) if _PATCH_PORT.match(port) else ("port", port) for port in ports if port]

    def _kernel_needs(self, entry: dict) -> list[Resource]:
        kind, name = entry["kind"], entry["name"]
        if kind in ("addresses", "routes"):
            return [("link", name), ("bridge", name)]
        if kind == "link":
            needs: list[Resource] = [("bridge", name), ("port", name)]
            return [*needs, ("vrf", str(entry["expected"]))] if entry["column"] == "vrf" else needs
        if kind == "VRF":
            return [("link", self._vrf_links.get(name, "")), ("port", self._vrf_links.get(name, ""))]
        if kind == "sysctl":
            return [("link", part) for part in name.split("/")[3:4]]
        if kind == "rule":
            return [("vrf", name.split(" ")[-1]), ("table", name.split(" ")[-1])]
        if kind == "route":
            values = _wanted(entry) or _found(entry)
            first = name.partition(" ")[0]
            return [
                ("vrf", first), ("table", first), ("link", str(values.get("device", ""))),
                ("address", str(values.get("source", ""))),
            ]  # fmt: skip
        return [("link", name.partition(" ")[0])] if kind in ("address", "neighbour") else []

    def _row_needs(self, entry: dict) -> list[Resource]:
        table, name = entry["kind"], entry["name"]
        if entry["substrate"] == "Open_vSwitch" and table in ("Port", "Interface"):
            parent = self._host.parents.get((table, name))
            if table == "Interface":
                return [("port", name)]
            return [("bridge", parent[1] if parent else name), ("bridge of", name)]
        needs: list[Resource] = []
        if entry["column"] is None and (parent := self._host.parents.get((table, name))):
            needs.append(("row", *parent))
        if table == "Static_MAC_Binding":
            needs.append(("row", "Logical_Router_Port", str(_wanted(entry).get("logical_port", ""))))
        return needs + [
            ("row", found[1], found[2]) for text in _texts(entry["expected"]) if (found := _LABEL.match(text))
        ]


_TITLES = {
    "patch port": ("Open_vSwitch", "patch port"),
    "number": ("openflow", "port number"),
    "network": ("plan", "network"),
    "daemon": ("host", "daemon"),
    "chassis": ("Open_vSwitch", "system-id"),
}


def _provided(entry: dict) -> list[Resource]:
    """Return the resources that are missing, or lose what depends on them, when an entry drifts."""
    substrate, kind, name, column = entry["substrate"], entry["kind"], entry["name"], entry["column"]
    missing = column is None and entry["found"] is None
    if substrate == "kernel":
        return _provided_by_kernel(entry, missing=missing)
    if substrate == "Open_vSwitch" and column == "system-id":
        return [("chassis",)]
    if substrate == "Open_vSwitch" and kind == "Open_vSwitch" and column == "external_ids":
        expected, found = (_mappings(entry[side]) for side in ("expected", "found"))
        return [("mapping", bridge) for network, bridge in expected.items() if found.get(network) != bridge]
    if not missing:
        return []
    if substrate == "Open_vSwitch":
        if kind == "Bridge":
            uplink = (_wanted(entry).get("external_ids") or {}).get("bridge-uplink", "")
            return [("bridge", name), ("bridge of", uplink)]
        return [("port", name)] if kind == "Port" else []
    return [("row", kind, name)] if substrate.startswith("OVN_") else []


def _provided_by_kernel(entry: dict, *, missing: bool) -> list[Resource]:
    kind, name = entry["kind"], entry["name"]
    if kind == "VRF":
        return [("vrf", name), *([("table", str(_found(entry)["table"]))] if _found(entry).get("table") else [])]
    # A link that is down, or moves to another VRF, loses its addresses and routes.
    if kind == "link" and (missing or entry["column"] in ("up", "vrf", "mac")):
        return [("link", name)]
    if kind == "address" and missing:
        return [("address", name.partition(" ")[2].partition("/")[0])]
    return []


def _mappings(external_ids) -> dict[str, str]:
    """Return network -> bridge out of `ovn-bridge-mappings`."""
    text = (external_ids or {}).get("ovn-bridge-mappings") or ""
    return dict(part.split(":", 1) for part in text.split(",") if ":" in part)


def _is(entry: dict, substrate: str, kind: str) -> bool:
    return (entry["substrate"], entry["kind"]) == (substrate, kind)


def _wanted(entry: dict) -> dict:
    return entry["expected"] if isinstance(entry["expected"], dict) else {}


def _found(entry: dict) -> dict:
    return entry["found"] if isinstance(entry["found"], dict) else {}


def _texts(value) -> Iterable[str]:
    """Yield all texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for item in value.values() for text in _texts(item))
    elif isinstance(value, (list, tuple)):
        yield from (text for item in value for text in _texts(item))
