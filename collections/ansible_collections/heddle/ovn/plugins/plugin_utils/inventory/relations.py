# SPDX-License-Identifier: Apache-2.0
"""Rules that relate variables, hosts and groups to each other."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ...module_utils.common.naming import NODE_NAME
from ...module_utils.common.text.nearest import nearest_word
from .fleet import CONTROL, EXTERNAL, NODES, STATE, Fleet, Mistake


def group_mistakes(fleet: Fleet) -> Iterator[Mistake]:
    """Empty groups, more than one state host, hosts that are nodes and external, names that OVN does not accept."""
    apart = (NODES, STATE, EXTERNAL, "all", "ungrouped")
    others = {name.removeprefix("heddle_"): name for name, hosts in fleet.groups.items() if hosts and name not in apart}
    purposes = ((NODES, "put the hosts that run workloads into it"), (STATE, "put one host into it"))
    for group, purpose in purposes:
        if not fleet.groups.get(group):
            similar = nearest_word(group.removeprefix("heddle_"), others)
            remedy = f"the group {others[similar]} has some; did you mean {group}?" if similar else purpose
            yield Mistake((), f"group {group}", "has no hosts", remedy)
    state = fleet.groups.get(STATE, [])
    if len(state) > 1:
        rule = f"has {len(state)} hosts, {', '.join(state)}"
        yield Mistake((), f"group {STATE}", rule, "leave one in it; only one host keeps the state")
    for host in fleet.hosts(NODES):
        if not NODE_NAME.fullmatch(host):
            remedy = "use lower case letters, digits, hyphens and dots, and not the word join"
            yield Mistake((host,), "", "the name cannot be a host's name in OVN", remedy)
        if host in fleet.hosts(EXTERNAL):
            yield Mistake((host,), "", f"is in {NODES} and in {EXTERNAL}", "remove it from one of them")


def address_mistakes(fleet: Fleet) -> Iterator[Mistake]:
    """The same address on two hosts, the same machine twice, tunnels without a common family, next hops."""
    holders: dict = {}
    for variable in ("heddle_encap_ips", "heddle_addresses"):
        for host, texts in fleet.values(variable, NODES, EXTERNAL).items():
            for number, text in enumerate(texts if isinstance(texts, list) else ()):
                address = _address(text)
                other = holders.setdefault(address, host) if address else host
                if other != host:
                    place = f"{variable}[{number}]"
                    yield Mistake((host,), place, f"{text} is an address of {other} too", "give each host its own")
    machines: dict[tuple, str] = {}
    for host in fleet.hosts(NODES, EXTERNAL):
        variables = fleet.variables.get(host, {})
        machine = (variables.get("ansible_host"), str(variables.get("ansible_port") or ""))
        other = machines.setdefault(machine, host) if isinstance(machine[0], str) else host
        if other != host:
            yield Mistake((host,), "ansible_host", f"{machine[0]} is {other} too", "name each machine once")
    yield from _tunnel_mistakes(fleet)
    yield from _next_hop_mistakes(fleet)


def _tunnel_mistakes(fleet: Fleet) -> Iterator[Mistake]:
    families = {}
    for host, texts in fleet.values("heddle_encap_ips", NODES).items():
        found = {address.version for text in (texts if isinstance(texts, list) else ()) if (address := _address(text))}
        if found:
            families[host] = found
    if len(families) > 1 and not set.intersection(*families.values()):
        most = max((4, 6), key=lambda family: sum(family in found for found in families.values()))
        for host, found in families.items():
            if most not in found:
                rule = f"has no IPv{most} address, and the tunnels of other nodes have"
                yield Mistake((host,), "heddle_encap_ips", rule, "give all nodes addresses of one family")


def _next_hop_mistakes(fleet: Fleet) -> Iterator[Mistake]:
    own = fleet.values("heddle_addresses", NODES)
    for host, texts in fleet.values("heddle_provider_next_hops", NODES).items():
        seen: set[int] = set()
        mine = {_address(text) for text in own.get(host, []) if isinstance(own.get(host), list)}
        for number, text in enumerate(texts if isinstance(texts, list) else ()):
            address, place = _address(text), f"heddle_provider_next_hops[{number}]"
            if address is None:
                continue
            if address in mine:
                yield Mistake((host,), place, f"{text} is the host's own address", "write the router's address")
            if address.version in seen:
                rule = f"{text} is a second next hop of IPv{address.version}"
                yield Mistake((host,), place, rule, "leave one of each family")
            seen.add(address.version)


def provider_mistakes(fleet: Fleet) -> Iterator[Mistake]:
    """Bridges and uplinks that contradict each other on a host (agent/chassis/chassis.py, `wanted_bridges`)."""
    for host in fleet.hosts(NODES):
        variables = fleet.variables.get(host, {})
        uplink, bridge = variables.get("heddle_uplink"), variables.get("heddle_provider_bridge") or "br-ex"
        uplinks: dict[str, str] = {}
        if uplink and isinstance(uplink, str):
            uplinks[str(bridge)] = uplink
            if uplink == bridge:
                yield Mistake((host,), "heddle_provider_bridge", f"{bridge} is the uplink", "choose another name")
        networks = variables.get("heddle_physical_networks")
        for name, entry in networks.items() if isinstance(networks, dict) else ():
            given, port = (entry.get("bridge"), entry.get("uplink")) if isinstance(entry, dict) else (None, None)
            if not given or not port:
                continue
            place = f"heddle_physical_networks.{name}"
            if uplinks.setdefault(given, port) != port:
                rule = f"bridge {given} has the uplink {uplinks[given]} already, not {port}"
                yield Mistake((host,), place, rule, "give it a bridge of its own")
            for other, taken in uplinks.items():
                if taken == port and other != given:
                    rule = f"{port} is the uplink of bridge {other} too"
                    yield Mistake((host,), place, rule, f"put both on {other}")


def deployment_mistakes(fleet: Fleet) -> Iterator[Mistake]:
    """Variables of the deployment: equal on all hosts, manifests that exist, TLS that is complete, settings."""
    for variable, hosts in fleet.differing.items():
        rule = f"is not the same as on {CONTROL}"
        yield Mistake(tuple(hosts), variable, rule, "set it once for all hosts, in group_vars/all.yml")
    path = fleet.common.get("heddle_manifests")
    if isinstance(path, str) and not path.strip():
        yield Mistake((), "heddle_manifests", "is empty", "name a directory or file that exists")
    elif isinstance(path, str) and not fleet.exists(path):
        yield Mistake((), "heddle_manifests", f"there is no {path}", "name a directory or file that exists")
    database = fleet.common.get("heddle_state_database")
    if isinstance(database, dict) and "ssl:" in str(database.get("socket", "")):
        for key in ("private_key", "certificate", "ca_cert"):
            if not database.get(key):
                yield Mistake((), f"heddle_state_database.{key}", "is missing", "ssl: needs all three files")


def settings_mistakes(fleet: Fleet) -> Iterator[Mistake]:
    """Ranges that overlap each other or have addresses of hosts; only for settings whose types are right."""
    given = fleet.common.get("heddle_settings") or {}
    # Imported here, since it takes longer than the rest of the check.
    from ...module_utils.store.settings import examine

    settings, found = examine(given)
    for text in found:
        place, _colon, rule = text.removeprefix("setting ").partition(": ")
        yield Mistake((), f"heddle_settings.{place}", rule, "")
    if found:
        return
    for name, ranges in settings.items():
        for text in ranges if name.endswith("_subnets") else ():
            network = ipaddress.ip_network("/".join(text.split("/")[:2]))
            for variable in ("heddle_encap_ips", "heddle_addresses"):
                for host, addresses in fleet.values(variable, NODES, EXTERNAL).items():
                    for number, held in enumerate(addresses if isinstance(addresses, list) else ()):
                        address = _address(held)
                        if address and address.version == network.version and address in network:
                            rule = f"{held} is in {network} of heddle_settings.{name}"
                            remedy = "choose another range for the setting"
                            yield Mistake((host,), f"{variable}[{number}]", rule, remedy)


def _address(text):
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None
