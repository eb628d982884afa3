# SPDX-License-Identifier: Apache-2.0
"""Whatever Services are changed to, in whatever order: what their addresses and ports always are."""

from collections import Counter

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from tests.pipeline import decide, labelled, layer2, namespace, stored, with_gateways, workload

HOSTS = {mode: labelled(with_gateways(mode)) for mode in ("shared", "local")}
# A node that loses its last Service keeps the network, so that nothing depends on the time.
LEAVE_LATE = {"dynamic_networks_grace_period": 10**9}
ENDPOINTS = "".join(
    workload(name, f"web{node}", f"node{node}").replace(f": {name}}}", f": {name}, labels: {{app: web}}}}")
    for name in ("red", "plain")
    for node in (1, 2)
)
# Fewer addresses than Services, so that one gets what another gives up.
BASE = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64") + namespace("plain", primary=False)
    + ENDPOINTS
    + "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: pool}\n"
    "spec: {subnets: [192.0.2.200/31, '2001:db8::a00/127']}\n"
)  # fmt: skip
SERVICES = [("red", "one"), ("red", "two"), ("plain", "one"), ("plain", "two")]
SPECS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"]),
        "policy": st.sampled_from(["Cluster", "Local"]),
        "selector": st.sampled_from([{"app": "web"}, {"app": "none"}]),
        "ports": st.sampled_from([[("TCP", 80)], [("TCP", 80), ("UDP", 80)], [("UDP", 53)]]),
        "externalIPs": st.sampled_from([[], [], ["198.51.100.80"]]),
        "ranges": st.sampled_from([[], ["192.0.2.20/32"]]),
        "is_egress": st.booleans(),
    }
)
STEPS = st.lists(st.dictionaries(st.sampled_from(SERVICES), SPECS, max_size=4), min_size=2, max_size=5)


def text_of(chosen: dict) -> str:
    documents = []
    for (where, name), one in chosen.items():
        metadata = {"name": name, "namespace": where}
        spec = {
            "type": one["type"], "selector": one["selector"], "ipFamilyPolicy": "PreferDualStack",
            "ports": [{"name": f"p{index}", "protocol": protocol, "port": port}
                      for index, (protocol, port) in enumerate(one["ports"])],
            "externalIPs": one["externalIPs"],
        }  # fmt: skip
        if one["type"] != "ClusterIP" or one["externalIPs"]:
            spec["externalTrafficPolicy"] = one["policy"]
        if one["type"] == "LoadBalancer":
            spec["loadBalancerSourceRanges"] = one["ranges"]
            if one["is_egress"]:
                egress = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressService", "metadata": metadata,
                          "spec": {"sourceIPBy": "LoadBalancerIP"}}  # fmt: skip
                documents.append(egress)
        documents.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    return BASE + "---\n" + yaml.safe_dump_all(documents)


def check(snapshot) -> None:
    plan = build_plan(snapshot)
    held = []
    for services in plan.get("services", {}).values():
        for described in services.values():
            held += [one["address"] for one in described.get("external", {}).get("load_balancer", ())]
    assert [address for address, count in Counter(held).items() if count > 1] == []
    for where, name in SERVICES:
        entry = snapshot.objects.get(f"Service/{where}/{name}")
        if entry is None:
            continue
        own = {
            family: snapshot.allocations.get(f"load-balancer-{family}", {}).get(f"{where}/{name}")
            for family in ("v4", "v6")
        }
        shown = {one["ip"] for one in entry.status["loadBalancer"].get("ingress", ())}
        assert shown <= {address for address in own.values() if address}
        assert set(entry.status.get("announcers", ())) == shown
        assert entry.spec["type"] == "LoadBalancer" or not shown
    for node in plan["nodes"]:
        # nft and Open vSwitch refuse, or silently replace, an element or flow that is there twice.
        for mapped in render_firewall(plan, node).maps:
            keys = Counter(element.rpartition(" : ")[0] for element in mapped.elements)
            assert [key for key, count in keys.items() if count > 1] == [], mapped.name
        flows = Counter((flow.table, flow.priority, flow.match) for flow in render_bridge_flows(plan, node))
        assert [flow for flow, count in flows.items() if count > 1] == []


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(["shared", "local"]))
def test_any_sequence_of_services(steps, mode):
    more = {"hosts": HOSTS[mode], "settings": LEAVE_LATE}
    empty = snapshot = stored(BASE, **more)
    for chosen in steps:
        text = text_of(chosen)
        after, problems = decide(text, snapshot, **more)
        if problems:
            assert all(problem.rule and problem.remedy for problem in problems)
            continue
        assert decide(text, after, **more, now="2027-01-01T00:00:00Z") == (after, [])
        check(after)
        snapshot = after
    assert stored(BASE, snapshot, **more).allocations == empty.allocations
