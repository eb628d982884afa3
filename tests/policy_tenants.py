# SPDX-License-Identifier: Apache-2.0
"""Many networks with equal subnets, each with two namespaces, five workloads and a random set of policies."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import (
    DEFAULT_NETWORK,
    layer2_switch,
    node_switch,
)
from tests import policy_model
from tests.policy_model import Connection, Endpoint

SUBNETS = {
    "Layer2": ["10.50.0.0/16", "fd50::/64"],
    "Layer3": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}, {"cidr": "fd50::/56", "hostSubnet": 64}],
}
# Which families a network has, by its number; the first one is the default network.
FAMILIES = [(4, 6), (4, 6), (4,), (6,)]
# Numbers of the networks that are secondary ones, whose policies are MultiNetworkPolicies.
SECONDARY = (10, 11, 13)
# Namespace (0 or 1) and node of each workload.
PLACES = [(0, "node1"), (0, "node1"), (1, "node1"), (1, "node2"), (0, "node1")]
EXTERNAL = Endpoint("external", None, ("198.51.100.7", "2001:db8:99::7"))
# As `tests.pipeline.with_gateways` describes it.
NODE = Endpoint("node2", None, ("192.0.2.12", "2001:db8::c"), node_labels={"kubernetes.io/hostname": "node2"})
OUTSIDE = (EXTERNAL, NODE)
KINDS = [("TCP", 80), ("UDP", 53), ("ICMP", 0), ("TCP", 8080), ("SCTP", 9000), ("TCP", 90), ("UDP", 80)]


def text_of(documents: list[dict]) -> str:
    """Documents as one text."""
    return "".join(f"---\n{json.dumps(document)}\n" for document in documents)


def baseline(drawn: dict) -> list[dict]:
    """The policy of the cluster of which there is one at most; it is about all tenants."""
    if not drawn["baseline"]:
        return []
    return [
        {
            "apiVersion": "policy.networking.k8s.io/v1alpha1",
            "kind": "BaselineAdminNetworkPolicy",
            "metadata": {"name": "default"},
            "spec": drawn["baseline"],
        }
    ]


class Tenant:
    """One network with its policies, as `policy_sets.POLICY_SETS` draws them, and those of the cluster."""

    def __init__(self, number: int, drawn: dict, of_cluster: tuple | list = ()) -> None:
        self.number, self.drawn = number, drawn
        self.topology = "Layer3" if number % 2 == 0 else "Layer2"
        self.families = FAMILIES[number // 2 % len(FAMILIES)]
        self.network = f"cluster_udn_net{number}" if number else DEFAULT_NETWORK
        self.namespaces = [f"t{number}a", f"t{number}b"]
        self._own = [
            self._policy(f"policy{index}", self.namespaces[place], spec)
            for index, (place, spec) in enumerate(drawn["policies"])
        ]
        self.is_secondary = number in SECONDARY
        # Policies of the cluster are about primary networks.
        if not self.is_secondary:
            self._own += [self._admin(f"t{number}-{index}", spec) for index, spec in enumerate(drawn["admin"])]
        self.policies = [*self._own, *(() if self.is_secondary else of_cluster)]

    def _policy(self, name: str, namespace: str, spec: dict) -> dict:
        metadata: dict = {"name": name, "namespace": namespace}
        if self.number not in SECONDARY:
            head = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
        else:
            head = {"apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy"}
            # Each namespace has a definition of the network.
            metadata["annotations"] = {
                "k8s.v1.cni.cncf.io/policy-for": f"{self.namespaces[0]}/net{self.number}, net{self.number}"
            }
        return {**head, "metadata": metadata, "spec": spec}

    def _admin(self, name: str, spec: dict) -> dict:
        """A policy of the cluster that is about the tenant's namespaces only: others have the same labels."""
        subject = copy.deepcopy(spec["subject"])
        namespaces = subject["pods"]["namespaceSelector"] if "pods" in subject else subject["namespaces"]
        namespaces.setdefault("matchLabels", {})["network"] = str(self.number)
        return {
            "apiVersion": "policy.networking.k8s.io/v1alpha1",
            "kind": "AdminNetworkPolicy",
            "metadata": {"name": name},
            "spec": {**spec, "subject": subject},
        }

    def manifests(self, *, policies: bool = True) -> str:
        """All manifests of the tenant."""
        documents = [self._network()] if self.number else []
        for name, labels in zip(self.namespaces, self.drawn["namespaces"], strict=True):
            has_own = self.number and not self.is_secondary
            primary = {"k8s.ovn.org/primary-user-defined-network": ""} if has_own else {}
            metadata = {"name": name, "labels": {**labels, **primary, "network": str(self.number)}}
            documents.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for index, (place, node) in enumerate(PLACES):
            metadata = {
                "name": f"w{index}", "namespace": self.namespaces[place], "labels": self.drawn["labels"][index]
            }  # fmt: skip
            if self.is_secondary:
                metadata["annotations"] = {"k8s.v1.cni.cncf.io/networks": f"net{self.number}"}
            spec = {"node": node, "ports": self.drawn["ports"][index]}
            documents.append({"apiVersion": "heddle.dev/v1", "kind": "Workload", "metadata": metadata, "spec": spec})
        documents += self._own if policies else []
        return text_of(documents)

    def _network(self) -> dict:
        subnets = SUBNETS[self.topology]
        versions = {6 if ":" in (one["cidr"] if isinstance(one, dict) else one) else 4: one for one in subnets}
        chosen = {
            "role": "Secondary" if self.is_secondary else "Primary",
            "subnets": [versions[version] for version in self.families],
        }
        return {
            "apiVersion": "k8s.ovn.org/v1",
            "kind": "ClusterUserDefinedNetwork",
            "metadata": {"name": f"net{self.number}"},
            "spec": {
                "namespaceSelector": {"matchLabels": {"network": str(self.number)}},
                "network": {"topology": self.topology, self.topology.lower(): chosen},
            },
        }

    def endpoints(self, plan: dict) -> list[Endpoint]:
        """The workloads as the model has them; their addresses are those of the plan."""
        found = []
        for index, (place, _node) in enumerate(PLACES):
            name = f"{self.namespaces[place]}/w{index}"
            addresses = tuple(one.partition("/")[0] for one in self.interface(plan, index)["addresses"])
            ports = {
                (port.get("protocol", "TCP"), port["name"]): port["containerPort"]
                for port in self.drawn["ports"][index]
            }
            labels = self.drawn["namespaces"][place] | {"network": str(self.number)}
            found.append(
                Endpoint(name, self.namespaces[place], addresses, self.drawn["labels"][index], labels, ports)
            )  # fmt: skip
        return found

    def interface(self, plan: dict, index: int) -> dict:
        """The interface of a workload on the network."""
        found = plan["workloads"][f"{self.namespaces[PLACES[index][0]]}/w{index}"]["interfaces"]
        return next(one for one in found if one["network"] == self.network)

    def questions(self, plan: dict, macs: dict, kinds_of_each: int) -> Iterator[tuple[Connection, str, str, str, bool]]:
        """Yield connection, datapath, flow, output if it passes, and whether node1 must let it pass.

        `macs` are those of router ports by name. node1 enforces what its own workloads send and receive. Of all kinds
        of packets `kinds_of_each` are taken for each pair and family, other ones for each.
        """
        # A secondary network has no gateway to external hosts.
        endpoints = [*self.endpoints(plan), *(() if self.is_secondary else OUTSIDE)]
        turn = self.number
        for s, source in enumerate(endpoints):
            for t, target in enumerate(endpoints):
                local = [index < len(PLACES) and PLACES[index][1] == "node1" for index in (s, t)]
                if s == t or not any(local):
                    continue
                for version in self.families:
                    for _number in range(kinds_of_each):
                        turn += 1
                        connection = Connection(source, target, version, *KINDS[turn % len(KINDS)])
                        allowed = (not local[0] or policy_model.sends(self.policies, connection)) and (
                            not local[1] or policy_model.receives(self.policies, connection)
                        )
                        yield connection, *self._flow(plan, macs, s, t, connection), allowed

    def _flow(
        self, plan: dict, macs: dict, source: int, target: int, connection: Connection
    ) -> tuple[str, str, str]:  # fmt: skip
        """Return the switch, the packet as it comes there, and a part of the trace where it passes."""
        layer2 = self.topology == "Layer2"
        switch = layer2_switch(self.network) if layer2 else node_switch(self.network, "node1")
        router = f"{'trtos' if layer2 else 'rtos'}-{switch}"
        on_switch = [index < len(PLACES) and (layer2 or PLACES[index][1] == "node1") for index in (source, target)]
        own, peer = (
            self.interface(plan, index) if there else None
            for index, there in zip((source, target), on_switch, strict=True)
        )
        # What is not on the switch is behind the router.
        mac, inport = (own["mac"], own["port"]) if own else (macs[router], f"{'stotr' if layer2 else 'stor'}-{switch}")
        transport = _transport(connection)
        kind = f"ip{connection.version}"
        flow = (
            f'inport == "{inport}" && eth.src == {mac} && eth.dst == {peer["mac"] if peer else macs[router]} && '
            f"ip.ttl == 64 && {kind}.src == {connection.source.address(connection.version)} && "
            f"{kind}.dst == {connection.target.address(connection.version)} && {transport}"
        )
        return switch, flow, f'output("{peer["port"]}")' if peer else "ip.ttl--"


def _transport(connection: Connection) -> str:
    if connection.protocol == "ICMP":
        return "icmp4.type == 8" if connection.version == 4 else "icmp6.type == 128"
    name = connection.protocol.lower()
    flags = " && tcp.flags == 2" if name == "tcp" else ""
    return f"{name}.src == 40000 && {name}.dst == {connection.port}{flags}"
