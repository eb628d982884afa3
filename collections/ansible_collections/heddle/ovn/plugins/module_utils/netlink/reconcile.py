# SPDX-License-Identifier: Apache-2.0
"""The engine for a host's own network namespace: compares desired and actual state and applies the steps.

Own are VRFs that carry the owner's mark as alias, and addresses, routes, rules and neighbours with Heddle's protocol.
Links are made by other software and only configured; so are kernel settings, which have no owner. Desired objects
that exist without the mark are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from ..common.change import Change, Foreign, Outcome
from ..common.errors import NetlinkError
from ..common.polling import wait_for_all
from ..types.host_network import TABLE_OFFSET, HostNetwork, HostRoute, link_table
from .handle import HostKernel
from .kernel_removals import Losses, losses
from .main_table import copies, essentials
from .policy_rules import forwarding, is_lookup, rule_name, selectors, wanted_rules
from .protocol.rtnetlink import RT_TABLE_MAIN
from .reader import DEFAULT_METRIC, HostState, LinkState, comparable, route_state, route_text
from .step import Planned, Step, perform
from .workload_links import mark

SUBSTRATE = "kernel"
# Seconds without a new link: Open vSwitch makes those of hundreds of networks, which takes minutes on a slow machine.
LINK_TIMEOUT = 120.0


def reconcile_host_network(
    desired: HostNetwork,
    *,
    owner: str,
    write: bool,
    absent: Mapping[str, str] = MappingProxyType({}),
    timeout: float = LINK_TIMEOUT,
    planned: Planned | None = None,
    kernel: HostKernel | None = None,
) -> Outcome:
    """Bring marked objects of this namespace to `desired`.

    With `write`, links that are still to be made are waited for, until none has appeared for `timeout` seconds; those
    that are `absent`, with the reason, are not. If one is missing then, or a foreign object conflicts, the networks
    concerned stay as they are and the outcome's `refused` has the reason; where no network is concerned, and without
    `write`, that is a NetlinkError, and nothing is written.
    `planned` is called with the changes before the first one is written. `kernel` is for tests.
    """
    if kernel is None:
        with HostKernel() as opened:
            options = {"owner": owner, "write": write, "absent": absent, "timeout": timeout, "planned": planned}
            return reconcile_host_network(desired, **options, kernel=opened)
    refused = _wait_for_links(kernel, desired, absent, timeout) if write else {}
    state = kernel.read()
    decision = _Decision(desired, owner, kernel, state, refused if write else None)
    steps = decision.steps()
    done = perform(steps, write=write, planned=planned)
    return done + Outcome((), _foreign(state, owner), tuple(refused.items()), decision.notes)


def planned_host_network(desired: HostNetwork) -> Outcome:
    """Return the changes on an empty host, for check mode before the libraries are installed.

    Only sysctls are read, which needs no library.
    """
    return perform(_Decision(desired, "", _NoKernel(), HostState({}, {}, {}, (), (), {})).steps(), write=False)


class _NoKernel(HostKernel):
    """Replacement without a kernel, for check mode."""

    def __init__(self) -> None:
        pass


def _wait_for_links(
    kernel: HostKernel, desired: HostNetwork, absent: Mapping[str, str], timeout: float
) -> dict[str, str]:
    """Return why networks cannot be set: their links did not appear."""
    made_here = {vrf.name for vrf in desired.vrfs}
    users = {(link.name, link.network) for link in desired.links} | {(vrf.link, vrf.network) for vrf in desired.vrfs}
    for items in (desired.addresses, desired.routes, desired.neighbours):
        users |= {(item.device, item.network) for item in items if item.device}
    names = {name for name, _network in users}
    awaited = sorted(names - made_here - absent.keys())
    missing = wait_for_all(lambda: [name for name in awaited if not kernel.has_link(name)], timeout)
    late = (
        f"there is no link {', '.join(missing)} after {timeout:g} s without a new one; Open vSwitch makes the "
        "management ports, see the log of ovs-vswitchd on this host"
    )
    reasons = dict.fromkeys(missing, late)
    reasons |= {name: f"there is no link {name}: {reason}" for name, reason in absent.items() if name in names}
    refused = {network: reasons[name] for name, network in sorted(users) if name in reasons}
    if "" in refused:
        raise NetlinkError(refused[""])
    return refused


def _foreign(state: HostState, owner: str) -> tuple[Foreign, ...]:
    own = mark(owner) + ":"
    vrfs = [
        Foreign(SUBSTRATE, "VRF", name, f"table {link.table}")
        for name, link in sorted(state.links.items())
        if link.kind == "vrf" and not link.alias.startswith(own)
    ]
    rules = [f"IPv{one.family} {one.priority} to {one.to or 'any'} table {one.table}" for one in state.foreign_rules]
    return (*vrfs, *(Foreign(SUBSTRATE, "rule", text, "") for text in rules))


class _Decision:
    """Compares; the steps are in the order in which they have to be written.

    `refused` (network -> reason) gets the networks that cannot be set, which then have no steps; without it they are
    errors.
    """

    def __init__(
        self,
        desired: HostNetwork,
        owner: str,
        kernel: HostKernel,
        state: HostState,
        refused: dict[str, str] | None = None,
    ) -> None:
        self._refused = refused
        self._desired, self._owner, self._kernel, self._state = desired, owner, kernel, state
        self._steps: list[Step] = []
        self._tables = {vrf.name: self._table(vrf.link) for vrf in desired.vrfs}
        self._tables |= {link_table(name): self._table(name) for name in desired.link_tables}
        self._vrf_names = {number: name for name, number in self._tables.items() if number}
        own = mark(owner) + ":"
        self._own_vrfs = {
            name for name, link in state.links.items() if link.kind == "vrf" and link.alias.startswith(own)
        }
        # What is not Heddle's, of which rules may name the tables.
        self._foreign_links = {name: link for name, link in state.links.items() if name not in self._own_vrfs}
        own_tables = {*self._vrf_names, *(state.links[name].table for name in self._own_vrfs)}
        self._rules, self.notes = wanted_rules(
            desired.rules, self._foreign_links, own_tables, state.foreign_rules, self._table_of
        )
        self._copies = copies(desired, state, self._tables)
        # What the kernel removes by itself because of these changes, which is set again, and why: links that change
        # their VRF or MAC address, and addresses that are removed.
        self._moved: set[str] = set()
        self._changed: set[str] = set()
        self._removed: set[tuple[str, str]] = set()
        self._lost = Losses()

    def steps(self) -> list[Step]:
        """Return the steps: first removals, from dependent objects to their links, then creations.

        Rules that look up tables go last, when those in their place are there (an older Heddle's have other
        priorities). Others go first: the kernel takes a new rule for one that only continues elsewhere (`rule_exists`).
        """
        self._rules_that_go(lookups=False)
        gone = self._vrfs_that_go()
        self._moved |= {name for name, link in self._state.links.items() if link.master in gone}
        self._vrfs(gone)
        self._links(gone)
        self._sysctls()
        self._addresses()
        self._routes()
        self._neighbours()
        self._rules_that_come()
        self._rules_that_go(lookups=True)
        self._copied_routes()
        return [step for step in self._steps if step.change.network not in (self._refused or ())]

    def _refuse(self, network: str, text: str) -> None:
        if self._refused is None or not network:
            raise NetlinkError(text)
        self._refused.setdefault(network, text)

    def _step(
        self, action: str, kind: str, name: str, network: str, before: dict, after: dict, write: Callable, *arguments
    ) -> None:
        change = Change(SUBSTRATE, action, kind, name, network, before, after)
        self._steps.append(Step(change, partial(write, *arguments)))

    def _table(self, name: str) -> int:
        """Return the table of a link; 0, which no table has, while it is still to be made."""
        link = self._state.links.get(name)
        return link.index + TABLE_OFFSET if link else 0

    def _table_of(self, vrf: str, what: str) -> int:
        if not vrf:
            return RT_TABLE_MAIN
        if vrf not in self._tables:
            raise NetlinkError(f"{what}: there is no VRF {vrf}")
        return self._tables[vrf]

    # VRFs

    def _vrfs_that_go(self) -> set[str]:
        """A VRF's table cannot change, so it is recreated with its link."""
        gone = {name for name in self._own_vrfs if self._state.links[name].table != self._tables.get(name)}
        for name in sorted(gone):
            link = self._state.links[name]
            network = link.alias.removeprefix(mark(self._owner) + ":")
            self._step("delete", "VRF", name, network, {"table": link.table}, {}, self._kernel.remove_link, name)
        return gone

    def _vrfs(self, gone: set[str]) -> None:
        for vrf in self._desired.vrfs:
            table, alias = self._tables[vrf.name], mark(self._owner, vrf.network)
            there = None if vrf.name in gone else self._state.links.get(vrf.name)
            if there is None:
                after = {"table": table or f"index of {vrf.link} + {TABLE_OFFSET}"}
                arguments = (vrf.name, table, alias)
                self._step("create", "VRF", vrf.name, vrf.network, {}, after, self._kernel.create_vrf, *arguments)
            elif there.alias != alias or not there.up:
                # An interrupted creation leaves a VRF without mark.
                cut_off = there.kind == "vrf" and there.table == table and not there.alias
                if vrf.name not in self._own_vrfs and not cut_off:
                    self._refuse(
                        vrf.network,
                        f"link {vrf.name} exists and is not Heddle's, so the VRF of network {vrf.network} cannot have "
                        "that name; name the network differently, or remove the link",
                    )
                before, after = {"mark": there.alias, "up": there.up}, {"mark": alias, "up": True}
                mark_link = partial(self._kernel.change_link, vrf.name, ifalias=alias, state="up")
                self._step("update", "VRF", vrf.name, vrf.network, before, after, mark_link)

    # Links

    def _links(self, gone: set[str]) -> None:
        for link in self._desired.links:
            if link.vrf and link.vrf not in self._tables:
                raise NetlinkError(f"link {link.name}: there is no VRF {link.vrf}")
            there = self._state.links.get(link.name, LinkState(0, "", 0, up=False))
            wanted = {"up": True}
            wanted |= {"mac": link.mac} if link.mac else {}
            wanted |= {"mtu": link.mtu} if link.mtu else {}
            master = "" if there.master in gone else there.master
            if link.vrf or master in self._own_vrfs:
                wanted["vrf"] = link.vrf
            present = {"up": there.up, "mac": there.mac, "mtu": there.mtu, "vrf": master}
            different = {key: value for key, value in wanted.items() if present[key] != value}
            if not different:
                continue
            if "vrf" in different and master and master not in self._own_vrfs:
                reason = f"link {link.name} belongs to {master}, which is not Heddle's; take it out first"
                self._refuse(link.network, reason)
            if "vrf" in different:
                self._moved.add(link.name)
            if "mac" in different:
                self._changed.add(link.name)
            before = {key: present[key] for key in different}
            self._step(
                "update", "link", link.name, link.network, before, different,
                _set_link, self._kernel, link.name, different,
            )  # fmt: skip

    def _sysctls(self) -> None:
        for sysctl in (*self._desired.sysctls, *forwarding(self._desired.rules, self._foreign_links)):
            value = self._kernel.read_sysctl(sysctl.name)
            if value == sysctl.value or (sysctl.minimum and (value is None or int(value) >= int(sysctl.value))):
                continue
            before = {"value": "" if value is None else value}
            arguments = (sysctl.name, sysctl.value)
            self._step(
                "update", "sysctl", sysctl.name, sysctl.network, before, {"value": sysctl.value},
                self._kernel.write_sysctl, *arguments,
            )  # fmt: skip

    # Addresses

    def _addresses(self) -> None:
        wanted = {(address.device, address.address): address for address in self._desired.addresses}
        for (device, text), there in sorted(self._state.addresses.items()):
            asked = wanted.get((device, text))
            same = asked and (there.deprecated, there.prefix_route) == (asked.deprecated, asked.prefix_route)
            if there.own and not same:
                self._removed.add((device, text))
                before = {"deprecated": there.deprecated, "prefix route": there.prefix_route}
                arguments = (device, text)
                self._step(
                    "delete", "address", f"{device} {text}", asked.network if asked else "", before, {},
                    self._kernel.remove_address, *arguments,
                )  # fmt: skip
        self._lost = losses(self._state, self._removed, self._moved, self._changed, self._kernel.promotes)
        for (device, text), asked in wanted.items():
            if (device, text) not in self._state.addresses or (device, text) in self._lost.addresses:
                after = {"deprecated": asked.deprecated, "prefix route": asked.prefix_route}
                self._step(
                    "create", "address", f"{device} {text}", asked.network, {}, after,
                    _add_address, self._kernel, device, text, asked,
                )  # fmt: skip

    # Routes

    def _routes(self) -> None:
        wanted: dict[tuple[int | str, str, int], HostRoute] = {}
        for route in self._desired.routes:
            table = self._table_of(route.vrf, f"route to {route.to}")
            metric = route.metric or DEFAULT_METRIC[6 if ":" in route.to else 4]
            other = wanted.setdefault((table or route.vrf, route.to, metric), route)
            if route_state(other) != route_state(route):
                raise NetlinkError(f"duplicate route to {route.to} metric {metric}: {other} and {route}")
        for key, there in sorted(self._state.routes.items()):
            if there.own and key not in wanted and key not in self._copies:
                name, before = self._route_name(key), route_text(there)
                self._step("delete", "route", name, "", before, {}, self._kernel.remove_route, there.message)
        for key, route in wanted.items():
            there, after = self._state.routes.get(key), route_state(route)
            same = there is not None and comparable(there) == comparable(after)
            if there is not None and not there.own and not same:
                reason = f"{route_text(there)}, which is not Heddle's; remove it first"
                self._refuse(route.network, f"route {self._route_name(key)}: there is one ({reason})")
                continue
            if same and key not in self._lost.routes:
                continue
            lost = there is None or same
            self._step(
                "create" if lost else "update", "route", self._route_name(key), route.network,
                {} if lost else route_text(there), route_text(after), self._kernel.set_route, *key, after,
            )  # fmt: skip

    def _copied_routes(self) -> None:
        """Last, and never a reason to refuse a network: these routes are not Heddle's, and it works without them."""
        for key, copy in self._copies.items():
            there, route = self._state.routes.get(key), copy.route
            same = there is not None and essentials(there) == essentials(route)
            if there is not None and (not there.own or (same and key not in self._lost.routes)):
                continue
            lost = there is None or same
            change = Change(
                SUBSTRATE, "create" if lost else "update", "route", self._route_name(key), copy.network,
                {} if lost else route_text(there), route_text(route),
            )  # fmt: skip
            self._steps.append(Step(change, partial(self._kernel.copy_route, key[0], route.message), optional=True))

    def _route_name(self, key: tuple[int | str, str, int]) -> str:
        table, to, metric = key
        where = "" if table == RT_TABLE_MAIN else f"{self._vrf_names.get(table, table)} "
        return f"{where}{to}" + (f" metric {metric}" if metric not in DEFAULT_METRIC.values() else "")

    # Neighbours

    def _neighbours(self) -> None:
        wanted = {(neighbour.device, neighbour.address): neighbour for neighbour in self._desired.neighbours}
        for (device, address), there in sorted(self._state.neighbours.items()):
            if there.own and (device, address) not in wanted:
                name, before = f"{device} {address}", {"mac": there.mac}
                self._step("delete", "neighbour", name, "", before, {}, self._kernel.remove_neighbour, device, address)
        for (device, address), neighbour in wanted.items():
            there = self._state.neighbours.get((device, address))
            fixed = there is not None and there.permanent
            same = fixed and there.mac == neighbour.mac
            if fixed and not there.own and not same:
                reason = f"it is set to {there.mac}, and not by Heddle; remove it first"
                self._refuse(neighbour.network, f"neighbour {address} of {device}: {reason}")
                continue
            if same and (device, address) not in self._lost.neighbours:
                continue
            lost = not fixed or same
            self._step(
                "create" if lost else "update", "neighbour", f"{device} {address}", neighbour.network,
                {} if lost else {"mac": there.mac}, {"mac": neighbour.mac},
                self._kernel.set_neighbour, device, address, neighbour.mac,
            )  # fmt: skip

    # Rules

    def _rules_that_go(self, *, lookups: bool) -> None:
        networks = {selectors(state): rule.network for state, rule in self._rules.items()}
        seen = set()
        for state, message in self._state.rules:
            if is_lookup(state) is lookups and (state not in self._rules or state in seen):
                name = rule_name(state, self._vrf_names) if state else "of a form that is not Heddle's"
                before = {"table": state.table} if lookups else {}
                # Where the rule in its place could not be written, it stays.
                network = networks.get(selectors(state), "") if lookups else ""
                self._step("delete", "rule", name, network, before, {}, self._kernel.remove_rule, message)
            seen.add(state)

    def _rules_that_come(self) -> None:
        there = {state for state, _message in self._state.rules}
        for state, rule in self._rules.items():
            if state not in there:
                after = {"goto": state.goto} if state.goto else {"table": state.table or f"of {rule.vrf}"}
                name = rule_name(state, self._vrf_names, rule.vrf)
                self._step("create", "rule", name, rule.network, {}, after, self._kernel.add_rule, state)


def _set_link(kernel: HostKernel, name: str, different: dict) -> None:
    if "vrf" in different:
        kernel.set_master(name, different["vrf"])
    settings = {"mac": "address", "mtu": "mtu"}
    values = {settings[key]: value for key, value in different.items() if key in settings}
    kernel.change_link(name, state="up", **values)


def _add_address(kernel: HostKernel, device: str, text: str, asked) -> None:
    kernel.add_address(device, text, deprecated=asked.deprecated, prefix_route=asked.prefix_route)
