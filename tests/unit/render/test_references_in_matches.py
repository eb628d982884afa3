# SPDX-License-Identifier: Apache-2.0
"""Every `$name` and `@name` in a match has its address set or port group: ovn-controller ignores a rule without.

A port group has to have ports as well, since the Southbound database has no empty ones; unless the rule is one of the
group, and as such on no switch.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.golden.test_northbound import CASES, plan_for
from tests.pipeline import labelled, layer2, layer3, namespace, plan_of, with_gateways
from tests.policy_sets import ADMIN_SPECS, LABEL_SETS, PORTS, SPECS

SETS_OF = {"$": "Address_Set", "@": "Port_Group"}
# Names of the secondary networks; the last two have no subnets.
SECONDARY = {
    "flat": {"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.7.0.0/24"]}},
    "deep": {"topology": "Layer3", "layer3": {"role": "Secondary", "subnets": [{"cidr": "10.129.0.0/16"}]}},
    "wire": {"topology": "Layer2", "layer2": {"role": "Secondary", "ipam": {"mode": "Disabled"}}},
    "plant": {"topology": "Localnet", "localnet": {"role": "Secondary", "physicalNetworkName": "physnet",
                                                   "ipam": {"mode": "Disabled"}}},
}  # fmt: skip
TENANTS = {
    "red": layer2("red", "net", "10.0.0.0/24", "fd00:10::/64"),
    "deep": layer3("deep", "net", "10.128.0.0/16", 24),
}
PLACES = [("red", "node1"), ("red", "node2"), ("deep", "node1"), ("plain", "node1"), ("plain", "node2")]


def without_rows(rows: list) -> set[str]:
    """The references in matches to address sets that are not there, and to port groups that are not or are empty."""
    there = {(row.table, row.columns["name"]) for row in rows
             if row.table == "Address_Set" or (row.table == "Port_Group" and row.columns["ports"])}  # fmt: skip
    groups = {row.key: row.columns["name"] for row in rows if row.table == "Port_Group"}
    return {
        f"{row.table} {row.key}: {sign}{name}"
        for row in rows
        for sign, name in re.findall(r"([$@])(\w+)", str(row.columns.get("match", "")))
        if (SETS_OF[sign], name) not in there and not (row.parent and groups.get(row.parent.key) == name)
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_golden_case(case):
    plan = plan_for(case)
    for node in plan["nodes"]:
        assert not without_rows(render_northbound(plan, node))


def document(version: str, kind: str, name: str, spec: dict, inside: str = "", **metadata) -> str:
    where = {"namespace": inside} if inside else {}
    content = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **metadata}, "spec": spec}
    return f"---\n{json.dumps(content)}\n"


def surroundings(labels: tuple, ports: tuple, requests: tuple) -> str:
    """Workloads with these labels and ports; those that request it have an address where there are no subnets."""
    text = namespace("plain", primary=False) + "".join(namespace(one) + network for one, network in TENANTS.items())
    for name, spec in SECONDARY.items():
        text += document(
            "k8s.ovn.org/v1", "ClusterUserDefinedNetwork", name, {"namespaceSelector": {}, "network": spec}
        )
    for number, (inside, node) in enumerate(PLACES):
        chosen = [
            {"name": name, **({"ips": [f"198.51.{place}.{number + 1}/24"]} if requests[number] and place > 1 else {})}
            for place, name in enumerate(SECONDARY)
        ]
        annotations = {"k8s.v1.cni.cncf.io/networks": json.dumps(chosen)}
        spec = {"node": node, "ports": ports[number]}
        text += document("heddle.dev/v1", "Workload", f"w{number}", spec, inside, labels=labels[number],
                         annotations=annotations)  # fmt: skip
    return text


def each(values: list):
    return st.tuples(*[st.sampled_from(values)] * len(PLACES))


INSIDE = st.sampled_from([*TENANTS, "plain"])
POLICIES = st.builds(
    lambda inside, name, spec: document("networking.k8s.io/v1", "NetworkPolicy", name, spec, inside),
    INSIDE, st.sampled_from("ab"), SPECS,
)  # fmt: skip
MULTI_POLICIES = st.builds(
    lambda inside, name, networks, spec: document(
        "k8s.cni.cncf.io/v1beta1", "MultiNetworkPolicy", name, spec, inside,
        annotations={"k8s.v1.cni.cncf.io/policy-for": ",".join(networks)},
    ),
    INSIDE, st.sampled_from("ab"), st.lists(st.sampled_from([*SECONDARY]), min_size=1, unique=True),
    # Peers by labels are refused on networks without subnets.
    SPECS | SPECS.map(lambda spec: without_peers(spec)),
)  # fmt: skip
ADMIN_POLICIES = st.builds(
    lambda name, spec: document("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy", name, spec),
    st.sampled_from("ab"), ADMIN_SPECS,
)  # fmt: skip
EGRESS_IPS = st.builds(
    lambda spec: document("k8s.ovn.org/v1", "EgressIP", "e", {"egressIPs": ["192.0.2.100"], **spec}),
    st.sampled_from(
        [{"namespaceSelector": {}}, {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}}]
    ),
)
EGRESS_RULES = st.builds(
    lambda inside, qos, target: document(
        "k8s.ovn.org/v1", "EgressQoS" if qos else "EgressFirewall", "default",
        {"egress": [{"dscp": 1, "podSelector": {"matchLabels": {"app": "web"}}} if qos
                    else {"type": "Deny", "to": target}]},
        inside,
    ),
    INSIDE, st.booleans(),
    st.sampled_from([{"cidrSelector": "0.0.0.0/0"}, {"nodeSelector": {}}, {"dnsName": "www.example.com"}]),
)  # fmt: skip


def without_peers(spec: dict) -> dict:
    """The spec with rules about everyone."""
    return {
        name: [{key: ports for key, ports in rule.items() if key == "ports"} for rule in value]
        if name in ("ingress", "egress") else value
        for name, value in spec.items()
    }  # fmt: skip


def identity(text: str) -> tuple:
    found = json.loads(text.removeprefix("---\n"))
    return found["kind"], found["metadata"]["name"], found["metadata"].get("namespace")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    each(LABEL_SETS), each(PORTS), each([True, False]),
    st.lists(MULTI_POLICIES | POLICIES | ADMIN_POLICIES | EGRESS_IPS | EGRESS_RULES, min_size=1, max_size=5,
             unique_by=identity),
)  # fmt: skip
def test_any_policies_and_egress_rules(labels, ports, requests, objects):
    text = surroundings(labels, ports, requests) + "".join(objects)
    plan = plan_of(text, hosts=labelled(with_gateways("shared")))
    for node in plan["nodes"]:
        assert not without_rows(render_northbound(plan, node))
