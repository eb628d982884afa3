# SPDX-License-Identifier: Apache-2.0
"""What one node has to do with the EgressIPs of a network: the workloads concerned, and the addresses that it holds.

Packets of an EgressService take the same way on user-defined networks. Shared by rows, flows of the provider bridge and
addresses of the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...common.addressing import family, plain
from ...common.naming import LOCKED_ROLE
from .egress_services import steered
from .hosting_nodes import hosting_nodes
from .moving import UNANNOUNCED, moving_addresses
from .node_network import NodeNetwork, is_on

# The mark of packets that leave through another NIC than the provider bridge's uplink (ovn-kubernetes).
OTHER_NIC_MARK = 1009
# The mark of packets that keep the address of their node although their workload has an EgressIP (ovn-kubernetes).
NODE_ADDRESS_MARK = 1008


@dataclass(frozen=True)
class Leaving:
    """One address of a workload with an EgressIP: its object's name and mark, and the holders of the address's family.

    `holders` are pairs of EgressIP and node; `nics` has the NIC of each EgressIP that is not on the provider bridge.
    `local`: the workload is, or may soon be, on this node. `by_service`: the object is an EgressService, and the holder
    its host. `handed` are addresses of the family that this node gets, or has given up, and does not hold
    (`handover.py`): workloads of other nodes may leave by it before it holds them or after that.
    """

    name: str
    mark: int
    address: str
    holders: tuple[tuple[str, str], ...]
    local: bool
    by_service: bool = False
    handed: tuple[str, ...] = ()
    nics: dict[str, str] = field(default_factory=dict, hash=False)

    def held_by(self, node: str) -> list[str]:
        """Return the addresses of the EgressIP that a node holds on its provider bridge."""
        return [address for address, holder in self.holders if holder == node and address not in self.nics]

    def translated_to(self, node: str) -> list[str]:
        """Return the addresses that a node gives packets on its provider bridge, if only for its flows to drop them.

        One of those that move where it holds none, since OVN translates to one address only.
        """
        handed = [address for address in self.handed if address not in self.nics]
        return self.held_by(node) or handed[:1]

    def is_on_nics(self, node: str) -> bool:
        """Return whether a node holds addresses of the EgressIP on other NICs, or one that moves is on such a NIC."""
        return bool(self.held_on_nics(node)) or any(address in self.nics for address in self.handed)

    def held_on_nics(self, node: str) -> dict[str, str]:
        """Return the addresses of the EgressIP that a node holds on other NICs, each with its NIC."""
        own = [address for address, holder in self.holders if holder == node]
        return {address: self.nics[address] for address in own if address in self.nics}


def leaving(view: NodeNetwork) -> list[Leaving]:
    """Return the addresses on the network of all workloads with an EgressIP or EgressService, wherever they run.

    Holders without the network are left out; there is always one where an address has a holder at all.
    """
    services = [
        Leaving(
            one.name,
            one.mark,
            one.address,
            ((one.external, one.host),) if one.host else (),
            one.local,
            by_service=True,
            handed=(one.external,) if one.handed else (),
        )
        for one in steered(view)
    ]
    return services + _with_egress_ips(view, {one.address for one in services})


def _with_egress_ips(view: NodeNetwork, elsewhere: set[str]) -> list[Leaving]:
    """Return the addresses of workloads with an EgressIP, but for those `elsewhere`."""
    nodes = view.plan["nodes"]
    owners = {
        workload: (name, entry) for name, entry in _entries(view).items() for workload in entry["workloads"][view.name]
    }
    found = []
    for workload, interface in view.workloads if owners else ():
        owner = owners.get(f"{workload['namespace']}/{workload['name']}")
        if owner is None or interface["role"] == LOCKED_ROLE:
            continue
        name, entry = owner
        for address in map(plain, interface["addresses"]):
            holders = tuple(
                (one["address"], one["node"])
                for one in entry["addresses"]
                if family(one["address"]) == family(address)
                and one["node"] in nodes
                and nodes[one["node"]]["chassis"]
                and nodes[one["node"]]["gateway"]
                and is_on(view.network, one["node"])
                and (view.is_default or "nic" not in one)
            )
            nics = {one["address"]: one["nic"] for one in entry["addresses"] if "nic" in one}
            here = [one for one, node in holders if node == view.node]
            handed = tuple(one for one in moving_addresses(entry) if family(one) == family(address) and one not in here)
            if (holders or handed) and address not in elsewhere:
                local = view.node in hosting_nodes(workload)
                found.append(Leaving(name, entry["mark"], address, holders, local, handed=handed, nics=nics))
    return found


def held_addresses(plan: dict, node: str) -> list[str]:
    """Return the addresses of all EgressIPs that a node holds."""
    return [
        one["address"]
        for entry in plan.get("egress_ips", {}).values()
        for one in entry["addresses"]
        if one["node"] == node
    ]


def held_nics(plan: dict, node: str) -> dict[str, str]:
    """Return the addresses of EgressIPs that a node has on other NICs than its provider bridge, each with its NIC."""
    return {
        one["address"]: one["nic"]
        for entry in plan.get("egress_ips", {}).values()
        for one in entry["addresses"]
        if one["node"] == node and "nic" in one and one["address"] not in plan.get(UNANNOUNCED, ())
    }


def held_marks(view: NodeNetwork) -> list[tuple[int, str]]:
    """Return mark and address of each EgressIP that the node has for workloads of the network."""
    hidden = view.plan.get(UNANNOUNCED, ())
    return [
        (entry["mark"], one["address"])
        for entry in _entries(view).values()
        for one in entry["addresses"]
        if one["node"] == view.node and "nic" not in one and one["address"] not in hidden
    ]


def withheld_marks(view: NodeNetwork) -> list[tuple[int, str]]:
    """Return mark and address of each EgressIP with which nothing may leave here, since it moves (`handover.py`).

    The node does not have it yet, or not any more, and packets of workloads may arrive for it all the same.
    """
    hidden, found = view.plan.get(UNANNOUNCED, ()), {}
    for entry in _entries(view).values():
        nics = {one["address"] for one in entry["addresses"] if "nic" in one}
        own = [one["address"] for one in entry["addresses"] if one["node"] == view.node]
        for address in (*moving_addresses(entry), *(one for one in own if one in hidden)):
            if address not in nics and (address not in own or address in hidden):
                found[entry["mark"], address] = None
    return [*found]


def _entries(view: NodeNetwork) -> dict[str, dict]:
    """Return the EgressIPs of workloads of the network."""
    return {name: view.plan["egress_ips"][name] for name in view.network.get("egress_ips", ())}
