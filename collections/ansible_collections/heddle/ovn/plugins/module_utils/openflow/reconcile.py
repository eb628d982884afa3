# SPDX-License-Identifier: Apache-2.0
"""The engine for OpenFlow flows of bridges: compares desired and actual flows and applies the steps.

Own are flows with one of Heddle's cookies. All others are foreign and stay. A foreign flow with the match of a desired
one is an error, except the flow that Open vSwitch gives a bridge without a controller: it is replaced, and restored
when Heddle's own goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from ..common.change import Change, Foreign, Outcome
from ..common.errors import OpenFlowError
from ..types.openflow_flow import LEARNED_COOKIE, OWN_COOKIES, FloodPort, Flow, StaticMac
from .parser import Entry, deletion_line, entry_line, ports_of, source_translations
from .switch import PORT_TIMEOUT, Switch, described

SUBSTRATE = "openflow"
# The default flow of a bridge without a controller (ovs-vswitchd.conf.db(5), `fail_mode`).
_STANDALONE = Entry(0, 0, "", 0, "NORMAL")
_IN_PORT = re.compile(r"\bin_port=(\d+)\b")


@dataclass(frozen=True)
class _Step:
    """Changes that are written at once."""

    changes: tuple[Change, ...]
    write: Callable[[], None]


def reconcile_flows(
    switch: Switch,
    bridges: Iterable[str],
    flows: Iterable[Flow],
    flood_ports: Iterable[FloodPort] = (),
    static_macs: Iterable[StaticMac] = (),
    *,
    write: bool,
    timeout: float = PORT_TIMEOUT,
) -> Outcome:
    """Bring Heddle's flows on `bridges` to exactly `flows`; `bridges` includes all in flows, ports and MACs.

    With `write`, missing ports are waited for, until none has appeared for `timeout` seconds; one that is missing then
    is an `OpenFlowError`, and nothing is written. Without, what needs it counts as missing.
    """
    wanted = _DesiredFlows(bridges, flows, flood_ports, static_macs)
    ports = switch.wait_for_ports(wanted.ports, timeout) if write else switch.ports()
    if write:
        _refuse_missing(wanted, ports, timeout)
    steps: list[_Step] = []
    foreign: list[Foreign] = []
    for bridge in sorted(wanted.ports):
        numbers = ports.get(bridge, {})
        there = bridge in numbers
        steps += _flood_steps(switch, bridge, wanted.flood_ports[bridge], numbers, there=there)
        steps += _mac_steps(switch, bridge, wanted.static_macs[bridge], numbers, there=there)
        flow_steps, others = _flow_steps(switch, bridge, wanted.flows[bridge], numbers, there=there)
        steps += flow_steps
        foreign += others
    if write:
        _perform(steps)
    return Outcome(tuple(change for step in steps for change in step.changes), tuple(foreign))


def write_changed_flows(switch: Switch, former: Iterable[Flow], flows: Iterable[Flow], *, removing: bool) -> Outcome:
    """Write the flows that differ from `former`; with `removing`, remove those that are former only.

    All others of the bridges are left as they are. Flows whose ports are not there yet are left out. Where all of them
    only drop, no program is started.
    """
    before, after = (
        {(one.bridge, one.table, one.priority, one.match): one for one in some} for some in (former, flows)
    )
    changed = [one for place, one in after.items() if before.get(place) != one]
    gone = [one for place, one in before.items() if place not in after] if removing else []
    if not changed and not gone:
        return Outcome()
    ports, changes = switch.ports(), []
    for bridge in sorted({one.bridge for one in (*changed, *gone)} & ports.keys()):
        numbers = ports[bridge]
        here = [
            [one for one in some if one.bridge == bridge and ports_of(one) <= numbers.keys()]
            for some in (changed, gone)
        ]
        written = switch.write_drops(bridge, *here, numbers)
        if written is not None:
            changes += [_deletion(flow) if flow in here[1] else _creation(flow) for flow in written]
            continue
        among = {entry.key for some in here for entry in switch.canonical(some, numbers)}
        steps = _flow_steps(switch, bridge, here[0], numbers, there=True, among=among)[0]
        _perform(steps)
        changes += [change for step in steps for change in step.changes]
    return Outcome(tuple(changes))


def planned_flows(
    flows: Iterable[Flow], flood_ports: Iterable[FloodPort] = (), static_macs: Iterable[StaticMac] = ()
) -> Outcome:
    """Return the changes on a host without Open vSwitch, for check mode: all is created, equal flows once."""
    changes = [_flood_change(item) for item in flood_ports if not item.flood]
    changes += [_mac_change(item, "") for item in static_macs]
    return Outcome((*changes, *(_creation(flow) for flow in dict.fromkeys(flows))))


def _perform(steps: list[_Step]) -> None:
    """Write the steps. The only place of this engine that writes, except flows that drop: `Switch.write_drops`."""
    for step in steps:
        step.write()


class _DesiredFlows:
    """Desired state by bridge; `ports` are the names of the ports that it refers to, the bridge's own among them."""

    def __init__(self, bridges, flows, flood_ports, static_macs) -> None:
        self.ports = {bridge: {bridge} for bridge in bridges}
        self.flows: dict[str, list[Flow]] = {bridge: [] for bridge in self.ports}
        self.flood_ports: dict[str, list[FloodPort]] = {bridge: [] for bridge in self.ports}
        self.static_macs: dict[str, list[StaticMac]] = {bridge: [] for bridge in self.ports}
        # The network of each port, by flows and settings that no other network has.
        self._users: dict[tuple[str, str], set[str]] = {}
        for flow in dict.fromkeys(flows):
            if flow.cookie not in OWN_COOKIES:
                raise OpenFlowError(f"{described(flow)}: cookie {flow.cookie:#x} is not one of Heddle's")
            self.flows[flow.bridge].append(flow)
            self.ports[flow.bridge] |= ports_of(flow)
            self._note(flow, ports_of(flow))
        for items, found in ((flood_ports, self.flood_ports), (static_macs, self.static_macs)):
            for item in dict.fromkeys(items):
                found[item.bridge].append(item)
                self.ports[item.bridge].add(item.port)
                self._note(item, {item.port})

    def _note(self, item, ports) -> None:
        for port in ports if item.network else ():
            self._users.setdefault((item.bridge, port), set()).add(item.network)

    def networks_of(self, bridge: str, ports: list[str]) -> frozenset[str]:
        """Return the networks that have these ports; empty when one of them belongs to several networks."""
        users = [self._users.get((bridge, port), set()) for port in ports]
        return frozenset().union(*users) if all(len(found) == 1 for found in users) else frozenset()


def _refuse_missing(wanted: _DesiredFlows, ports: dict[str, dict], timeout: float) -> None:
    for bridge, names in sorted(wanted.ports.items()):
        missing = sorted(names - set(ports.get(bridge, ())))
        if bridge in missing:
            raise OpenFlowError(f"there is no bridge {bridge} after {timeout:g} s; does ovs-vswitchd run?")
        if missing:
            raise OpenFlowError(
                f"bridge {bridge} has no port {', '.join(missing)} after {timeout:g} s without a new one; "
                "patch ports are made by ovn-controller, see its log on this host",
                wanted.networks_of(bridge, missing),
            )


def _flow_steps(
    switch: Switch,
    bridge: str,
    flows: list[Flow],
    numbers: dict[str, str],
    *,
    there: bool,
    among: Collection[tuple] | None = None,
) -> tuple[list[_Step], list[Foreign]]:
    """Return the steps to exactly `flows`, among those with some keys if given, and the foreign flows."""
    ready = [flow for flow in flows if ports_of(flow) <= numbers.keys()]
    changes = [_creation(flow) for flow in flows if not ports_of(flow) <= numbers.keys()]
    if not there:
        return [_Step(tuple(changes + [_creation(flow) for flow in ready]), _nothing)] if flows else [], []
    desired = _by_key(ready, switch.canonical(ready, numbers))
    current = {
        entry.key: entry
        for entry in switch.flows(bridge)
        if entry.cookie != LEARNED_COOKIE and (among is None or entry.key in among)
    }
    names = {number: name for name, number in numbers.items()}
    lines = []
    for key, (flow, entry) in desired.items():
        found = current.get(key)
        if found == entry:
            continue
        if found is None or found == _STANDALONE:
            changes.append(_creation(flow))
        elif found.cookie in OWN_COOKIES:
            changes.append(_change("update", described(flow), flow.network, *_difference(found, entry)))
        else:
            raise OpenFlowError(
                f"{described(flow)}: there is a flow with this match that is not Heddle's (cookie {found.cookie:#x}, "
                f"actions {found.actions}); remove it first",
                frozenset({flow.network}),
            )
        lines.append(entry_line(entry))
    foreign = []
    for key, found in current.items():
        if found.cookie in OWN_COOKIES:
            if key not in desired:
                changes.append(_change("delete", _title(bridge, found, names), "", {"actions": found.actions}, {}))
                lines.append(entry_line(_STANDALONE) if key == _STANDALONE.key else deletion_line(found))
        elif found != _STANDALONE:
            foreign.append(Foreign(SUBSTRATE, "flow", _title(bridge, found, names), f"{found.cookie:#x}"))
    steps = [_Step(tuple(changes), partial(switch.write_flows, bridge, lines))] if changes else []
    ends = _connections_that_end(switch, bridge, desired, current)
    # Before and after the flows are written: a run that is cut off in between leaves only connections that began
    # meanwhile, and the next one finds the flows as wanted.
    return [*ends, *steps, *ends], foreign


def _connections_that_end(
    switch: Switch, bridge: str, desired: dict[tuple, tuple[Flow, Entry]], current: dict[tuple, Entry]
) -> list[_Step]:
    """End connections with a removed address: a connection keeps its translated address while packets arrive."""
    known = [source_translations(entry) for entry in current.values() if entry.cookie in OWN_COOKIES]
    kept = [source_translations(entry) for _flow, entry in desired.values()]
    gone = set().union(*known) - set().union(*kept)
    return [_Step((), partial(switch.end_connections, bridge, *one)) for one in sorted(gone)] if kept else []


def _by_key(flows: list[Flow], entries: list[Entry]) -> dict[tuple, tuple[Flow, Entry]]:
    desired: dict[tuple, tuple[Flow, Entry]] = {}
    for flow, entry in zip(flows, entries, strict=True):
        other, known = desired.setdefault(entry.key, (flow, entry))
        if known != entry:
            raise OpenFlowError(
                f"{described(flow)}: duplicate flow, with actions {flow.actions} (network {flow.network}) and with "
                f"actions {other.actions} (network {other.network})",
                frozenset({flow.network}),
            )
    return desired


def _difference(before: Entry, after: Entry) -> tuple[dict, dict]:
    different = [name for name in ("actions", "cookie", "options") if getattr(before, name) != getattr(after, name)]
    return tuple(
        {name: f"{entry.cookie:#x}" if name == "cookie" else getattr(entry, name) for name in different}
        for entry in (before, after)
    )


def _change(action: str, name: str, network: str, before: dict, after: dict) -> Change:
    return Change(SUBSTRATE, action, "flow", name, network, before, after)


def _creation(flow: Flow) -> Change:
    return _change("create", described(flow), flow.network, {}, {"actions": flow.actions})


def _deletion(flow: Flow) -> Change:
    return _change("delete", described(flow), flow.network, {"actions": flow.actions}, {})


def _title(bridge: str, entry: Entry, names: dict[str, str]) -> str:
    """Return the name of an existing flow, with the name of its port as long as that exists."""
    match = _IN_PORT.sub(lambda found: f"in_port={{{names[found[1]]}}}" if found[1] in names else found[0], entry.match)
    return f"{bridge} table {entry.table} priority {entry.priority} {match}".rstrip()


def _flood_steps(
    switch: Switch, bridge: str, items: list[FloodPort], numbers: dict[str, str], *, there: bool
) -> list[_Step]:
    flooding = switch.flooding(bridge) if items and there else {}
    wanted = [item for item in items if flooding.get(numbers.get(item.port, ""), True) != item.flood]
    settings = {numbers.get(item.port, ""): item.flood for item in wanted}
    write = partial(switch.set_flooding, bridge, settings)
    return [_Step(tuple(_flood_change(item) for item in wanted), write)] if wanted else []


def _flood_change(item: FloodPort) -> Change:
    name, before, after = f"{item.bridge} {item.port}", {"flood": not item.flood}, {"flood": item.flood}
    return Change(SUBSTRATE, "update", "port", name, item.network, before, after)


def _mac_steps(
    switch: Switch, bridge: str, items: list[StaticMac], numbers: dict[str, str], *, there: bool
) -> list[_Step]:
    entries = switch.static_macs(bridge) if items and there else {}
    names = {number: name for name, number in numbers.items()}
    steps = []
    for item in items:
        number = entries.get((item.vlan, item.mac), "")
        if not number or number != numbers.get(item.port):
            write = partial(switch.set_static_mac, bridge, item.port, item.vlan, item.mac)
            steps.append(_Step((_mac_change(item, names.get(number, number)),), write))
    return steps


def _mac_change(item: StaticMac, before: str) -> Change:
    name = f"{item.bridge} {item.mac}" + (f" VLAN {item.vlan}" if item.vlan else "")
    action, there = ("update", {"port": before}) if before else ("create", {})
    return Change(SUBSTRATE, action, "static MAC", name, item.network, there, {"port": item.port})


def _nothing() -> None:
    """Check mode has steps without a bridge to write to."""
