# SPDX-License-Identifier: Apache-2.0
"""Random policies and labels for one network, as hypothesis strategies."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

LABEL_SETS = [{}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}, {"tier": "front"}]
# A network's namespaces are two of one number: the first has the policies of both kinds of rules.
NAMESPACE_LABELS = [{}, {"team": "a"}, {"team": "b"}]
PORTS = [
    [],
    [{"name": "http", "containerPort": 80}],
    [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}],
]
# In every network the workloads have addresses of 10.50.0.0/16 and fd50::/64; the others are of external hosts.
BLOCKS = [
    {"cidr": "0.0.0.0/0"},
    {"cidr": "::/0"},
    {"cidr": "10.50.0.0/16", "except": ["10.50.0.4/30"]},
    {"cidr": "fd50::/64", "except": ["fd50::4/127", "fd50::6/128"]},
    {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "198.51.100.128/25"]},
    {"cidr": "198.51.100.0/24"},
    {"cidr": "2001:db8:99::/48", "except": ["2001:db8:99:ff::/64"]},
    {"cidr": "10.50.0.5/32"},
]

EXPRESSIONS = st.sampled_from(
    [
        {"key": "app", "operator": "In", "values": ["web", "db"]},
        {"key": "app", "operator": "NotIn", "values": ["web"]},
        {"key": "tier", "operator": "Exists"},
        {"key": "tier", "operator": "DoesNotExist"},
    ]
)
SELECTORS = st.sampled_from([{}, {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}]) | st.builds(
    lambda found: {"matchExpressions": found}, st.lists(EXPRESSIONS, min_size=1, max_size=2)
)
NAMESPACES = st.sampled_from(
    [{}, {"matchLabels": {"team": "a"}}, {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}]
)
PEERS = st.one_of(
    st.fixed_dictionaries({"podSelector": SELECTORS}),
    st.fixed_dictionaries({"namespaceSelector": NAMESPACES}),
    st.fixed_dictionaries({"namespaceSelector": NAMESPACES, "podSelector": SELECTORS}),
    st.fixed_dictionaries({"ipBlock": st.sampled_from(BLOCKS)}),
)
PORT_RULES = st.sampled_from(
    [
        {"port": 80}, {"port": 8080, "protocol": "TCP"}, {"protocol": "UDP"}, {"port": 53, "protocol": "UDP"},
        {"port": 79, "endPort": 90}, {"port": "http"}, {"port": "dns", "protocol": "UDP"}, {"port": "absent"},
        {"port": 9000, "endPort": 9000, "protocol": "SCTP"},
    ]
)  # fmt: skip


def rules(peers: str):
    """Rules of one direction; `peers` is the name of their field. Half of them are about everyone."""
    ports = {"ports": st.lists(PORT_RULES, max_size=3)}
    some = st.fixed_dictionaries({peers: st.lists(PEERS, min_size=1, max_size=3)}, optional=ports)
    everyone = st.fixed_dictionaries({}, optional={peers: st.just([]), **ports})
    return st.lists(some | everyone, max_size=3)


SPECS = st.fixed_dictionaries(
    {"podSelector": SELECTORS},
    optional={
        "policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Egress", "Ingress"], []]),
        "ingress": rules("from"),
        "egress": rules("to"),
    },
)
# Number of the namespace (0 or 1) and the spec; hypothesis draws about a third of such lists without any.
POLICIES = st.lists(st.tuples(st.sampled_from([0, 0, 1]), SPECS), max_size=4)
PODS = st.one_of(
    st.fixed_dictionaries({"namespaces": NAMESPACES}),
    st.fixed_dictionaries({"pods": st.fixed_dictionaries({"namespaceSelector": NAMESPACES, "podSelector": SELECTORS})}),
)
# Networks and nodes are peers of rules without named ports only.
EXTERNAL_PEERS = st.one_of(
    st.fixed_dictionaries({"networks": st.lists(st.sampled_from([block["cidr"] for block in BLOCKS]), min_size=1,
                                                max_size=2, unique=True)}),
    st.fixed_dictionaries({"nodes": st.sampled_from([{}, {"matchLabels": {"kubernetes.io/hostname": "node2"}},
                                                     {"matchLabels": {"kubernetes.io/hostname": "node3"}}])}),
)  # fmt: skip
NUMBERED_PORTS = st.sampled_from(
    [
        {"portNumber": {"port": 80}}, {"portNumber": {"protocol": "UDP", "port": 53}},
        {"portRange": {"start": 79, "end": 90}}, {"portRange": {"protocol": "SCTP", "start": 8999, "end": 9001}},
    ]
)  # fmt: skip
NAMED_PORTS = st.sampled_from([{"namedPort": "http"}, {"namedPort": "dns"}, {"namedPort": "absent"}])


def admin_rules(peers: str, actions: tuple[str, ...]):
    """Rules of policies of the cluster in one direction."""
    required = {"action": st.sampled_from(actions)}
    among = st.lists(PODS, min_size=1, max_size=2)
    rule = st.fixed_dictionaries(
        {**required, peers: among}, optional={"ports": st.lists(NUMBERED_PORTS | NAMED_PORTS, min_size=1, max_size=2)}
    )
    if peers == "to":
        outside = st.lists(PODS | EXTERNAL_PEERS, min_size=1, max_size=2)
        ports = {"ports": st.lists(NUMBERED_PORTS, min_size=1, max_size=2)}
        rule |= st.fixed_dictionaries({**required, peers: outside}, optional=ports)
    return st.lists(rule, max_size=3)


def admin_specs(actions: tuple[str, ...], **fields):
    """Specs of policies of the cluster."""
    directions = {"ingress": admin_rules("from", actions), "egress": admin_rules("to", actions)}
    return st.fixed_dictionaries({**fields, "subject": PODS, **directions})


# Beyond 99 as well, and equal ones.
ADMIN_SPECS = admin_specs(("Allow", "Deny", "Pass"), priority=st.sampled_from([0, 7, 7, 99, 100, 1000]))
NUMBER_OF_WORKLOADS = 5
POLICY_SETS = st.fixed_dictionaries(
    {
        "policies": POLICIES,
        "admin": st.lists(ADMIN_SPECS, max_size=3),
        "baseline": st.none() | admin_specs(("Allow", "Deny")),
        "namespaces": st.tuples(*[st.sampled_from(NAMESPACE_LABELS)] * 2),
        "labels": st.tuples(*[st.sampled_from(LABEL_SETS)] * NUMBER_OF_WORKLOADS),
        "ports": st.tuples(*[st.sampled_from(PORTS)] * NUMBER_OF_WORKLOADS),
    }
)


def drawn_sets(count: int, number: int) -> list[dict]:
    """Return so many different sets; equal numbers give equal sets.

    They are drawn at once, because a test that applies one to a running ovn-northd cannot be repeated with another one
    as hypothesis would.
    """
    found: list[dict] = []

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(POLICY_SETS)
    def draw(one: dict) -> None:
        found.append(one)

    draw()
    return found
