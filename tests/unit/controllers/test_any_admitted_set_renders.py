# SPDX-License-Identifier: Apache-2.0
"""Whatever set of manifests is admitted: every network of its plan is rendered on every node."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.egress_nat import render_egress
from ansible_collections.heddle.ovn.plugins.module_utils.render.rehearsal import Rehearsal, unrenderable
from tests.host_plans import check_host_plans
from tests.pipeline import THREE_NODES, decide, labelled, namespace, with_gateways, workload
from tests.policy_sets import ADMIN_SPECS, SPECS
from tests.unit.api.case_tables import all_cases

TENANTS = ("red", "blue", "plain")
SURROUNDINGS = "".join(
    namespace(name, primary=name != "plain")
    + workload(name, "w", f"node{number}").replace(f"namespace: {name}}}", f"namespace: {name}, labels: {{app: web}}}}")
    for number, name in enumerate(TENANTS, start=1)
)
# As the surroundings, with one more workload for what it selects: those that run already are in no network's way.
SELECTING = [(name, f"node{number}", kind) for number, name in enumerate(TENANTS, start=1) for kind in ("netns", "vm")]
HOSTS = [
    THREE_NODES,
    labelled(with_gateways("shared")),
    labelled(with_gateways("shared", vlan=100, vrf=False)),
    with_gateways("local", prober="system.slice/prober.service"),
    with_gateways("shared", addresses=["192.0.2.11/24"], next_hops=[]),
    {**with_gateways("shared"), "node2": {"chassis": None, "encap_ips": []}},
]
SUBNETS = [
    ["10.20.0.0/24"], ["fd00:20::/64"], ["10.21.0.0/24", "fd00:21::/64"], ["fd00:22::/64", "10.22.0.0/24"],
    ["10.23.0.0/30"], ["192.0.2.0/24"],
]  # fmt: skip


def optional(**fields):
    """Some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


ROLES = st.sampled_from(["Primary", "Secondary"])
MTU = st.sampled_from([1280, 1300, 1400, 8900])
IPAM = st.sampled_from([{"mode": "Disabled"}, {"lifecycle": "Persistent"}, {"mode": "Enabled"}])
FLAT_SUBNETS = st.sampled_from(SUBNETS)
JOIN = st.sampled_from([["100.70.0.0/24"], ["fd70::/64"], ["100.71.0.0/24", "fd71::/64"]])
LAYER3_SUBNETS = st.sampled_from(
    [
        [{"cidr": "10.30.0.0/16"}],
        [{"cidr": "10.31.0.0/16", "hostSubnet": 24}, {"cidr": "fd00:31::/48", "hostSubnet": 64}],
        [{"cidr": "fd00:32::/48"}],
        [{"cidr": "10.33.0.0/24", "hostSubnet": 25}],
    ]
)
LAYER2 = st.builds(
    lambda subnets, more: {"topology": "Layer2", "layer2": {"role": "Primary", **subnets, **more}},
    optional(subnets=FLAT_SUBNETS),
    optional(role=ROLES, mtu=MTU, joinSubnets=JOIN, ipam=IPAM),
)
LAYER3 = st.builds(
    lambda subnets, more: {"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets, **more}},
    LAYER3_SUBNETS,
    optional(role=ROLES, mtu=MTU, joinSubnets=JOIN),
)
LOCALNET = st.builds(
    lambda more: {"topology": "Localnet", "localnet": {"role": "Secondary", "physicalNetworkName": "a\nb", **more}},
    optional(
        subnets=FLAT_SUBNETS, mtu=MTU, ipam=IPAM, excludeSubnets=st.just(["10.20.0.0/28"]),
        vlan=st.just({"mode": "Access", "access": {"id": 7}}),
    ),
)  # fmt: skip
FLAT = st.builds(
    lambda topology, role, subnets, more: {"topology": topology, "role": role, "subnets": subnets, **more},
    st.sampled_from(["Layer2", "Layer3", "Localnet"]),
    ROLES,
    FLAT_SUBNETS | LAYER3_SUBNETS,
    optional(mtu=MTU, joinSubnets=JOIN, ipam=IPAM, excludeSubnets=st.just(["10.20.0.0/28"])),
)
NESTED = LAYER2 | LAYER3 | LOCALNET
ANY = NESTED | FLAT
SELECTORS = st.sampled_from([{}, {"matchLabels": {"kubernetes.io/metadata.name": "red"}}])


def manifest(kind: str, name: str, spec: dict, inside: str = "") -> str:
    metadata = {"name": name, **({"namespace": inside} if inside else {})}
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return f"---\n{json.dumps(document)}\n"


NAMESPACED = st.builds(
    lambda spec, name, inside: manifest("UserDefinedNetwork", name, spec, inside),
    ANY, st.sampled_from(["a", "b.c"]), st.sampled_from(TENANTS),
)  # fmt: skip
CLUSTER = st.builds(
    lambda field, spec, selector, name: manifest(
        "ClusterUserDefinedNetwork", name, {"namespaceSelector": selector, field: spec}
    ),
    st.sampled_from(["network", "template"]), ANY, SELECTORS, st.sampled_from(["d", "e-f"]),
)  # fmt: skip


SELECTED = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b.c", "d", "e-f", "gone"])},
    optional={
        "namespace": st.sampled_from(TENANTS),
        "interface": st.sampled_from(["eth1", "net2"]),
        "ips": st.sampled_from([["198.51.100.7/24"], ["2001:db8:7::7/64"], ["198.51.100.8/24", "2001:db8:7::8/64"]]),
        "mac": st.sampled_from(["02:00:00:00:00:07", "02:00:00:00:00:08"]),
        "default-route": st.sampled_from([["198.51.100.1"], ["fe80::1"], ["10.20.0.9", "fe80::1"]]),
    },
)
SHORT = st.lists(st.sampled_from(["a", "d", "e-f", "red/a", "blue/d@eth1"]), min_size=1, max_size=3).map(",".join)
WORKLOADS = st.builds(
    lambda where, networks, number: workload(where[0], f"s{number}", where[1], networks).replace(
        "spec: {", f"spec: {{kind: {where[2]}, "
    ),
    st.sampled_from(SELECTING), SHORT | st.lists(SELECTED, min_size=1, max_size=3), st.sampled_from([1, 2]),
)  # fmt: skip


SERVICES = st.builds(
    lambda where, name, spec: (
        "---\n" + json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": where},
                              "spec": {"ports": [{"port": 80}], **spec}}) + "\n"
    ),
    st.sampled_from(TENANTS),
    st.sampled_from(["v", "w"]),
    optional(
        clusterIP=st.sampled_from(["None", "10.96.0.9", "fd00:10:96::9"]),
        ipFamilyPolicy=st.sampled_from(["SingleStack", "PreferDualStack", "RequireDualStack"]),
        selector=st.sampled_from([{"app": "web"}, {"app": "none"}]),
        ports=st.just([{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP", "targetPort": "dns"}]),
        sessionAffinity=st.just("ClientIP"),
        internalTrafficPolicy=st.just("Local"),
        type=st.sampled_from(["NodePort", "LoadBalancer"]),
        externalTrafficPolicy=st.just("Local"),
        externalIPs=st.sampled_from([["198.51.100.80"], ["2001:db8:99::80", "192.0.2.11"]]),
        allocateLoadBalancerNodePorts=st.just(False),
        loadBalancerSourceRanges=st.just(["192.0.2.0/24", "2001:db8::/64"]),
    ),
)  # fmt: skip
POOLS = st.builds(
    lambda name, subnets: manifest("LoadBalancerPool", name, {"subnets": subnets}).replace("k8s.ovn.org", "heddle.dev"),
    st.sampled_from(["m", "n"]),
    st.lists(st.sampled_from(["192.0.2.200/31", "2001:db8::a00/126", "198.51.100.0/30"]), min_size=1, max_size=3),
)
SLICES = st.builds(
    lambda where, name, family: (
        f"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}-{family.lower()}, "
        f"namespace: {where}, labels: {{kubernetes.io/service-name: {name}}}}}\naddressType: {family}\n"
        f"ports: [{{port: 1}}]\nendpoints: [{{addresses: ['{'192.0.2.11' if family == 'IPv4' else '2001:db8::b'}']}}]\n"
    ),
    st.sampled_from(TENANTS), st.sampled_from(["v", "w"]), st.sampled_from(["IPv4", "IPv6"]),
)  # fmt: skip
POLICIES = st.builds(
    lambda where, name, spec: (
        "---\n" + json.dumps({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                              "metadata": {"name": name, "namespace": where}, "spec": spec}) + "\n"
    ),
    st.sampled_from(TENANTS), st.sampled_from(["p", "q"]), SPECS,
)  # fmt: skip
MULTI_POLICIES = st.builds(
    lambda where, names, spec: (
        "---\n" + json.dumps({"apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy",
                              "metadata": {"name": "m", "namespace": where,
                                           "annotations": {"k8s.v1.cni.cncf.io/policy-for": names}}, "spec": spec})
        + "\n"
    ),
    st.sampled_from(TENANTS), st.sampled_from(["a, d, e-f, red/a", "d,gone"]), SPECS,
)  # fmt: skip
ADMIN_POLICIES = st.builds(
    lambda name, spec: (
        "---\n" + json.dumps({"apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": "AdminNetworkPolicy",
                              "metadata": {"name": name}, "spec": spec}) + "\n"
    ),
    st.sampled_from(["r", "s"]), ADMIN_SPECS,
)  # fmt: skip
EGRESS_IPS = st.builds(
    lambda name, addresses, spec: manifest(
        "EgressIP", name, {"egressIPs": addresses, "namespaceSelector": {}, **spec}
    ),
    st.sampled_from(["x", "y"]),
    st.lists(st.sampled_from(["192.0.2.100", "192.0.2.11", "2001:db8::100", "198.51.100.9"]), max_size=2),
    optional(podSelector=st.just({"matchLabels": {"app": "web"}}), namespaceSelector=SELECTORS),
)  # fmt: skip
# Each with its Service and addresses for it.
EGRESS_SERVICES = st.builds(
    lambda where, policy, spec: (
        manifest("EgressService", "e", spec, where)
        + manifest("LoadBalancerPool", f"e-{where}", {"subnets": [f"192.0.2.{200 + TENANTS.index(where)}/32"]}).replace(
            "k8s.ovn.org", "heddle.dev"
        )
        + "---\n" + json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "e", "namespace": where},
                                "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}],
                                         "externalTrafficPolicy": policy}}) + "\n"
    ),
    st.sampled_from(TENANTS), st.sampled_from(["Cluster", "Local"]),
    optional(
        sourceIPBy=st.sampled_from(["LoadBalancerIP", "Network"]), network=st.sampled_from(["100", "blue"]),
        nodeSelector=st.just({"matchLabels": {"kubernetes.io/hostname": "node2"}}),
    ),
)  # fmt: skip
TARGETS = st.sampled_from(
    [{"cidrSelector": "0.0.0.0/0"}, {"cidrSelector": "10.20.0.0/25"}, {"cidrSelector": "::/0"}, {"nodeSelector": {}}]
)
EGRESS_RULES = st.builds(
    lambda where, kind, rules: manifest(kind, "default", {"egress": [rule[kind] for rule in rules]}, where),
    st.sampled_from(TENANTS), st.sampled_from(["EgressFirewall", "EgressQoS"]),
    st.lists(
        st.fixed_dictionaries({
            "EgressFirewall": st.fixed_dictionaries(
                {"type": st.sampled_from(["Allow", "Deny"]), "to": TARGETS},
                optional={"ports": st.just([{"protocol": "TCP", "port": 80}, {"protocol": "UDP", "port": 53}])},
            ),
            "EgressQoS": st.fixed_dictionaries(
                {"dscp": st.sampled_from([0, 63])},
                optional={"dstCIDR": st.sampled_from(["0.0.0.0/0", "2001:db8::/32"]),
                          "podSelector": st.just({"matchLabels": {"app": "web"}})},
            ),
        }),
        max_size=3,
    ),
)  # fmt: skip


# Each with a client of it, which may be anywhere.
EGRESSES = st.builds(
    lambda where, name, client, spec: (
        "---\n" + json.dumps({"apiVersion": "coil.cybozu.com/v2", "kind": "Egress",
                              "metadata": {"name": name, "namespace": where},
                              "spec": {"destinations": ["0.0.0.0/0"], **spec}}) + "\n"
        + workload(client, f"c-{where}-{name}", "node2").replace(
            f"namespace: {client}", f"namespace: {client}, annotations: {{egress.coil.cybozu.com/{where}: {name}}}"
        )
    ),
    st.sampled_from(TENANTS), st.sampled_from(["x", "y"]), st.sampled_from(TENANTS),
    optional(
        destinations=st.sampled_from([["::/0"], ["10.99.0.0/16", "fd99::/16"]]), replicas=st.sampled_from([2, 5]),
        sessionAffinity=st.just("None"), fouSourcePortAuto=st.just(True),
        template=st.just({"spec": {"nodeSelector": {"kubernetes.io/hostname": "node3"}}}),
    ),
)  # fmt: skip


def admitted(text: str, hosts: dict, **more) -> dict | None:
    """Return the plan, None for a set that is refused."""
    _resources, problems = read_manifests([("t.yml", text)])
    if problems:
        return None
    after, problems = decide(text, hosts=hosts, **more)
    return None if problems else build_plan(after)


def valid(one: str) -> bool:
    return not read_manifests([("t.yml", SURROUNDINGS + one)])[1]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    st.lists((NAMESPACED | CLUSTER).filter(valid), min_size=1, max_size=4, unique=True),
    st.sampled_from(HOSTS),
    st.sampled_from([None, {"mtu": 1300}, {"layer2_topology": "gateway-router"}]),
    st.lists(WORKLOADS.filter(valid), max_size=3, unique=True),
    st.lists(
        (
            SERVICES
            | POOLS
            | SLICES
            | POLICIES
            | MULTI_POLICIES
            | ADMIN_POLICIES
            | EGRESS_IPS
            | EGRESS_SERVICES
            | EGRESS_RULES
            | EGRESSES
        ).filter(valid),
        max_size=4,
        unique=True,
    ),
)
def test_any_admitted_set_renders_on_every_node(networks, hosts, chosen, workloads, services):
    plan = admitted(SURROUNDINGS + "".join([*networks, *workloads, *services]), hosts, settings=chosen)
    if plan is not None:
        assert unrenderable(plan) == {}
        # The short form alone finds nothing either, else every such run would render each network alone.
        nodes = [name for name, node in plan["nodes"].items() if node["chassis"]]
        assert not Rehearsal(plan, nodes).reason(dict.fromkeys(plan["networks"]))
        found = [one for node in plan["nodes"] for one in render_egress(plan, node)]
        assert len(found) == len(plan.get("egress", {}).get("workloads", {}))
        for one in plan["workloads"].values():
            for what in ("name", "port"):
                values = [interface[what] for interface in one["interfaces"]]
                assert len(set(values)) == len(values)
            assert all(interface["mac"] for interface in one["interfaces"])
        check_host_plans(plan)


def test_selections_are_admitted_too():
    """Else nothing of them would be rendered above."""
    networks = manifest(
        "UserDefinedNetwork",
        "a",
        {"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.20.0.0/24"]}},
        "red",
    )
    text = SURROUNDINGS + networks + workload("plain", "s1", "node3", "red/a,red/a")
    plan = admitted(text, with_gateways("shared"))
    assert [one["name"] for one in plan["workloads"]["plain/s1"]["interfaces"]] == ["eth0", "net1", "net2"]


CASES = [pytest.param(document, id=name) for name, document, says in all_cases() if not says and document["metadata"]]


@pytest.mark.parametrize("document", CASES)
def test_every_accepted_form_renders(document):
    plan = admitted(SURROUNDINGS + f"---\n{json.dumps(document)}\n", with_gateways("shared"))
    if plan is not None:
        assert unrenderable(plan) == {}
        check_host_plans(plan)


def test_most_forms_are_admitted():
    """Else nothing would be rendered above."""
    plans = [admitted(SURROUNDINGS + f"---\n{json.dumps(case.values[0])}\n", with_gateways("shared")) for case in CASES]
    assert len(plans) > 50
    assert sum(plan is not None and len(plan["networks"]) > 1 for plan in plans) > len(plans) / 2
