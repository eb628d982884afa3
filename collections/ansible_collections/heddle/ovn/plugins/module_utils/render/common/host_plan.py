# SPDX-License-Identifier: Apache-2.0
"""The plan of a host: the part of the plan that it needs. A host has nothing to apply when something else changes.

It renders this part as it would render the whole plan. It keeps nothing else, so whatever it does depends on it alone.
The part has the form of a plan, and the digest of its own content.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from operator import itemgetter

from ...common.naming import DEFAULT_NETWORK
from ...common.plan_digest import NOT_COVERED, entry_digest, named_digest, part_digest, plan_digest, text_of
from .changed_networks import BY_NETWORK
from .hosting_nodes import hosting_nodes
from .moving import UNANNOUNCED
from .node_network import is_mesh, nodes_of

# Parts by the names of networks.
_OF_NETWORKS = ("networks", "egress_firewalls", *BY_NETWORK)
_CUT = {*_OF_NETWORKS, "egress_ips", "workloads"}
# Those that a plan lacks where they would be empty.
_OPTIONAL = {"headless", "egress_services"}


def host_plan(plan: dict, node: str) -> dict:
    """Return the part of a plan that a node needs; of such a part that is all."""
    return HostPlans(plan).of(node)


def merged(parts: Iterable[dict]) -> dict:
    """Return the plan that hosts have these parts of: all of it but networks that are on none of them.

    Where they differ, that of the later revision counts. Entries are in the order of their names, as in a packed plan:
    what is derived from the result has the same order everywhere. Where a host is missing or has an older part, the
    result lacks interfaces on networks that no part has, and workloads on nodes that the latest plan does not have.
    """
    plan: dict = {}
    for one in sorted(parts, key=itemgetter("revision")):
        for name, content in one.items():
            # What one host waits for in a move says nothing of others.
            if name == UNANNOUNCED:
                continue
            if name in _CUT:
                plan.setdefault(name, {}).update(content)
            else:
                plan[name] = content
    plan["workloads"] = {
        key: {**one, "interfaces": [end for end in one["interfaces"] if end["network"] in plan["networks"]]}
        for key, one in plan["workloads"].items()
        if plan["nodes"].keys() >= {*hosting_nodes(one)}
    }
    plan |= {name: dict(sorted(plan[name].items())) for name in _CUT & plan.keys()}
    return {**plan, "digest": plan_digest(plan)}


class HostPlans:
    """The parts of a plan that its nodes need.

    Those are the networks on the node with all that is by network, EgressIPs of these networks, and the workloads of
    the node, those whose primary network is on it, those on its Layer2 networks, those that EgressIPs, EgressServices
    and the policies of its networks name, and those behind services of the cluster. All else is of every host: nodes,
    settings, address pools, and EgressQoS.
    """

    def __init__(self, plan: dict) -> None:
        self.plan = plan
        self._content = {name: part for name, part in plan.items() if name not in NOT_COVERED}
        self._networks: dict[str, set[str]] = {}
        for name, network in plan["networks"].items():
            # Hosts without a network of the mesh pass on its packets. The default network has what hosts need for all
            # others, also where no subnet of it was left for a host.
            everywhere = is_mesh(network) or name == DEFAULT_NETWORK
            for node in plan["nodes"] if everywhere else nodes_of(plan, name):
                self._networks.setdefault(node, set()).add(name)
        # Networks of which each host has the ports of all workloads.
        segments = {name for name, network in plan["networks"].items() if network["topology"] == "Layer2"}
        # Every host answers health checks of load balancers, which learn from it that it has no endpoint.
        self._checked = {
            network
            for network, services in plan.get("services", {}).items()
            if any("health_check_port" in service.get("external", ()) for service in services.values())
        }
        self._egress_ips: dict[str, set[str]] = {}
        self._held: dict[str, set[str]] = {}
        self._own: dict[str, set[str]] = {}
        self._beside: dict[str, set[str]] = {}
        for key, workload in plan["workloads"].items():
            for node in hosting_nodes(workload):
                self._own.setdefault(node, set()).add(key)
            for interface in workload["interfaces"]:
                # All hosts of its primary network answer for its names.
                if interface["role"] == "primary" or interface["network"] in segments:
                    self._beside.setdefault(interface["network"], set()).add(key)
        for name, entry in plan.get("egress_ips", {}).items():
            for network, workloads in entry["workloads"].items():
                self._egress_ips.setdefault(network, set()).add(name)
                self._beside.setdefault(network, set()).update(workloads)
            for one in entry["addresses"]:
                self._held.setdefault(one["node"], set()).add(name)
        for network, services in plan.get("egress_services", {}).items():
            for entry in services.values():
                self._beside.setdefault(network, set()).update(entry["workloads"])
        for network, policies in plan.get("policies", {}).items():
            # Rules have the addresses of their peers, whatever the primary networks of these are.
            selected = *policies["selections"].values(), *policies["ports"].values()
            self._beside.setdefault(network, set()).update(*selected)
        for service in plan["settings"].get("shared_services", ()):
            self._beside.setdefault(DEFAULT_NETWORK, set()).update(service["endpoints"])

    def of(self, node: str) -> dict:
        """Return the part of a node."""
        kept, content = self._names_of(node), dict(self._content)
        for name in _CUT & content.keys():
            part = content[name]
            content[name] = {key: part[key] for key in sorted(kept[name] & part.keys())}
            if not content[name] and name in _OPTIONAL:
                del content[name]
        # Those of all hosts may be known already, which is faster.
        digest = self.digests[node] if "digests" in vars(self) else plan_digest(content)
        return {**content, "digest": digest, "revision": self.plan["revision"]}

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of the part of each node, out of those of the entries."""
        whole = [(name, part_digest(part)) for name, part in self._content.items() if name not in _CUT]
        entries = {
            name: {key: entry_digest(entry) for key, entry in self._content[name].items()}
            for name in _CUT & self._content.keys()
        }
        found = {}
        for node in self.plan["nodes"]:
            kept, cut = self._names_of(node), []
            for name, digests in entries.items():
                those = [(key, digests[key]) for key in kept[name] if key in digests]
                if those or name not in _OPTIONAL:
                    cut.append((name, named_digest(those)))
            found[node] = text_of(named_digest([*whole, *cut]))
        return found

    def _names_of(self, node: str) -> dict[str, set[str]]:
        """Return by part, of those that are cut, the names of the entries that a node has."""
        networks, nothing = self._networks.get(node, set()), set()
        return {
            **dict.fromkeys(_OF_NETWORKS, networks),
            "services": networks | self._checked,
            "egress_ips": self._held.get(node, nothing).union(
                *(self._egress_ips.get(one, nothing) for one in networks)
            ),
            "workloads": self._own.get(node, nothing).union(*(self._beside.get(one, nothing) for one in networks)),
        }
