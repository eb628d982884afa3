# SPDX-License-Identifier: Apache-2.0
"""Packets between workloads with policies, through ovn-controller and Open vSwitch."""

from __future__ import annotations

import json

import pytest

from tests.live.conftest import wait_for
from tests.live.gateway.packets import ICMP, ICMPV6, Question
from tests.live.policy.exchange import Exchange
from tests.pipeline import namespace, workload

NAMES = ("web", "api", "other")
NETWORK = "cluster_udn_shop"
SUBNETS = {
    "Layer2": ["10.50.0.0/24", "fd50::/64"],
    "Layer3": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}, {"cidr": "fd50::/60", "hostSubnet": 64}],
}
# web answers DNS for namespaces with the label, and opens no connection.
POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "dns", "namespace": "web"},
    "spec": {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {
                "from": [{"namespaceSelector": {"matchLabels": {"dns": "yes"}}}],
                "ports": [{"protocol": "UDP", "port": 53}],
            }
        ],
    },
}
# Servers answer clients, whatever their namespaces.
BY_LABELS = {
    **POLICY,
    "metadata": {"name": "server", "namespace": "web"},
    "spec": {
        "podSelector": {"matchLabels": {"role": "server"}},
        "ingress": [{"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": "client"}}}]}],
    },
}


def manifests(topology: str, *labelled: str, policy: dict | None = POLICY) -> str:
    spec = {
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In",
                                                    "values": list(NAMES)}]},
        "network": {"topology": topology, topology.lower(): {"role": "Primary", "subnets": SUBNETS[topology]}},
    }  # fmt: skip
    network = {
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "shop"}, "spec": spec
    }  # fmt: skip
    text = "".join(
        (namespace(name).replace('network: ""}', 'network: "", dns: "yes"}') if name in labelled else namespace(name))
        + workload(name, "a", "node1")
        for name in NAMES
    )
    return text + "".join(f"---\n{json.dumps(one)}\n" for one in (network, policy) if one)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("topology", ["Layer2", "Layer3"])
def test_policy_decides_about_connections_in_both_directions(host, topology, family):
    both = Exchange(*host(manifests(topology, policy=None)), family, NETWORK)
    echo = ICMP if family == 4 else ICMPV6
    # Without a policy everything passes. The connection stays the same to the end.
    connection = both.packet("api", "web", (5000, 53), "before")
    both.send("api", connection, both.packet("api", "web", (7, 0), "echo before", echo))
    both.wait("web", "before")
    both.wait("web", "echo before")

    both.apply(manifests(topology, "api"))
    both.send("other", both.packet("other", "web", (5000, 53), "from another namespace"))
    both.send(
        "api",
        both.packet("api", "web", (5001, 54), "to another port"),
        both.packet("api", "web", (8, 0), "echo", echo),
        both.packet("api", "web", (5000, 53), "allowed"),
    )
    both.wait("web", "allowed")
    # The reply passes, although nothing that web opens does.
    both.send("web", both.packet("web", "api", (6000, 53), "new connection"))
    both.send("web", both.packet("web", "api", (53, 5000), "reply"))
    both.wait("api", "reply")
    # Not selected: no restriction.
    both.send("api", both.packet("api", "other", (5000, 54), "elsewhere"))
    both.wait("other", "elsewhere")
    assert both.received("web") == {"before", "echo before", "allowed"}
    assert both.received("api") == {"reply"}

    # Labels change who may connect; a connection that may not exist any more ends.
    both.apply(manifests(topology, "other"))
    for number in range(4):
        both.send("api", both.packet("api", "web", (5000, 53), f"not any more {number}"))
    both.send("other", both.packet("other", "web", (5000, 53), "now"))
    both.wait("web", "now")
    assert both.received("web") == {"before", "echo before", "allowed", "now"}

    both.apply(manifests(topology, policy=None))
    both.send("api", both.packet("api", "web", (5000, 53), "open again"))
    both.wait("web", "open again")


def with_roles(text: str, **roles: str) -> str:
    """The manifests, with labels of the workloads of some namespaces."""
    for name, role in roles.items():
        text = text.replace(f"namespace: {name}}}\nspec", f"namespace: {name}, labels: {{role: {role}}}}}\nspec")
    return text


@pytest.mark.parametrize(("topology", "family"), [("Layer2", 4), ("Layer3", 4), ("Layer2", 6), ("Layer3", 6)])
def test_labels_of_workloads_decide_who_is_selected_and_who_is_a_peer(host, topology, family):
    text = manifests(topology, policy=BY_LABELS)
    both = Exchange(*host(text), family, NETWORK)
    expected = set()
    for number, (roles, senders) in enumerate(
        [
            ({}, {"api", "other"}),
            # A workload gets the label of the policy's selector, then another one that of its peers.
            ({"web": "server"}, set()),
            ({"web": "server", "api": "client"}, {"api"}),
            ({"web": "server", "other": "client"}, {"other"}),
            # Selected no more.
            ({"web": "none", "other": "client"}, {"api", "other"}),
        ]
    ):
        both.apply(with_roles(text, **roles))
        for sender in ("api", "other"):
            both.send(sender, both.packet(sender, "web", (5000 + number, 53), f"{sender} {number}"))
        # What web opens is open: it is sent last, and arrives.
        both.send("web", both.packet("web", "api", (6000 + number, 53), f"web {number}"))
        both.wait("api", f"web {number}")
        expected |= {f"{sender} {number}" for sender in senders}
        for sender in senders:
            both.wait("web", f"{sender} {number}")
        assert both.received("web") == expected


@pytest.mark.parametrize("family", [4, 6])
def test_isolated_workloads_are_resolved(host, family):
    """The policy of web allows no address resolution, and OVN answers for its workloads anyway."""
    closed = {**POLICY, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}
    both = Exchange(*host(manifests("Layer2", policy=closed)), family, NETWORK)
    asked = both.packet("api", "web", (1, 1), "")
    both.machine.receive("if-api", Question(asked.source_mac, asked.source, asked.target).encode())
    answers = lambda: [one for one in both.machine.sent("if-api") if hasattr(one, "mac")]  # noqa: E731
    wait_for(lambda: any(one.address == asked.target for one in answers()), "the answer for web")
