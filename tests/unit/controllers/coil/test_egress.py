# SPDX-License-Identifier: Apache-2.0
"""Egress objects in the state: routers, clients, addresses, status, what waits.

Coil's own tests of its egress controller, webhook and watchers are here by what they check.
"""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import THREE_NODES, decide, layer2, namespace, nodes, stored, workload

THREE = ("node1", "node2", "node3")
ANYWHERE = ["0.0.0.0/0", "::/0"]


def egress(name: str = "nat", where: str = "internet", **spec) -> str:
    fields = {"destinations": ANYWHERE, **spec}
    return (
        "---\napiVersion: coil.cybozu.com/v2\nkind: Egress\n"
        f"metadata: {{name: {name}, namespace: {where}}}\nspec: {json.dumps(fields)}\n"
    )


def client(name: str = "web", node: str = "node1", where: str = "red", **annotations: str) -> str:
    texts = {f"egress.coil.cybozu.com/{key}": names for key, names in (annotations or {"internet": "nat"}).items()}
    text = workload(where, name, node)
    return text.replace(f"name: {name},", f"name: {name}, annotations: {json.dumps(texts)},")


BASE = namespace("internet", primary=False) + namespace("red", primary=False)


def ready(snapshot, key):
    found = condition(snapshot.objects[key], "Ready")
    return found["status"], found["reason"], found["message"]


def routers(snapshot):
    return {
        one.name: one.spec["node"] for one in snapshot.of_kind("Workload") if one.spec.get("router_of")
    }  # fmt: skip


def test_defaults():
    """Webhook: defaults of replicas, session affinity and its timeout, source port."""
    (found,), problems = read_manifests([("t.yml", egress())])
    assert not problems
    assert found.spec == {
        "destinations": ANYWHERE,
        "replicas": 1,
        "template": {"labels": {}, "annotations": {}, "nodeSelector": {}, "apart": []},
        "affinity": 10800,
        "fouSourcePortAuto": False,
        "podDisruptionBudget": None,
    }


def test_example_of_the_document_is_accepted():
    anti = {"labelSelector": {"matchLabels": {"name": "coil-egress"}}, "topologyKey": "topology.kubernetes.io/zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}
    template = {
        "metadata": {"annotations": {"foo": "bar"}, "labels": {"name": "coil-egress"}},
        "spec": {"affinity": {"podAntiAffinity": required}},
    }
    text = egress(
        replicas=2, strategy={"type": "Recreate"}, template=template, sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 43200}}, destinations=["0.0.0.0/0"],
    )  # fmt: skip
    snapshot = stored(BASE + text)
    assert routers(snapshot) == {"nat-0": "node1", "nat-1": "node2"}
    labels = snapshot.objects["Workload/internet/nat-0"].labels
    assert labels["name"] == "coil-egress" and labels["app.kubernetes.io/instance"] == "nat"


@pytest.mark.parametrize(
    "change",
    [{"destinations": ["10.9.0.0/16"]}, {"replicas": 2}, {"sessionAffinity": "None"}, {"fouSourcePortAuto": True}],
)
def test_update_is_allowed(change):
    before = stored(BASE + egress() + client())
    after = stored(BASE + egress(**change) + client(), before)
    assert after.allocations["cluster-ip-v4"] == before.allocations["cluster-ip-v4"]
    assert routers(before).items() <= routers(after).items()


def test_plan_has_gateways_routers_and_clients():
    plan = build_plan(stored(BASE + egress(replicas=2, fouSourcePortAuto=True) + client()))["egress"]
    assert plan["gateways"] == {
        "internet/nat": {
            "destinations": ANYWHERE, "source_port": 0, "affinity": 10800,
            "addresses": ["10.96.1.0", "fd00:10:96::100"],
        }
    }  # fmt: skip
    assert plan["workloads"]["red/web"]["egresses"] == ["internet/nat"]
    assert {name: one["node"] for name, one in plan["workloads"].items()} == {
        "internet/nat-0": "node1", "internet/nat-1": "node2", "red/web": "node1",
    }  # fmt: skip


def test_without_egress_the_plan_is_as_before():
    plan = build_plan(stored(BASE + workload("red", "web", "node1")))
    assert "egress" not in plan
    assert "egresses" not in str(plan)


def test_second_admission_changes_nothing():
    text = BASE + egress(replicas=3) + client()
    before = stored(text)
    assert stored(text, before, now="2027-01-01T00:00:00Z") == before


def test_status():
    snapshot = stored(BASE + egress(replicas=2))
    status = snapshot.objects["Egress/internet/nat"].status
    assert status["replicas"] == 2
    assert status["selector"] == (
        "app.kubernetes.io/component=egress,app.kubernetes.io/instance=nat,app.kubernetes.io/name=coil"
    )
    message = "2 of 2 routers: nat-0 on node1, nat-1 on node2"
    assert ready(snapshot, "Egress/internet/nat") == ("True", "RoutersRun", message)


def test_no_host_for_a_router_is_reported():
    selected = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node9"}}}
    snapshot = stored(BASE + egress(template=selected) + client())
    message = "0 of 1 routers: 0 of 3 hosts match the node selector kubernetes.io/hostname=node9"
    assert ready(snapshot, "Egress/internet/nat") == ("False", "NoHostForRouter", message)
    # As with a Service without endpoints, its clients run.
    assert ready(snapshot, "Workload/red/web")[0] == "True"


def test_routers_move_with_the_inventory():
    before = stored(BASE + egress(replicas=2))
    left = {name: facts for name, facts in THREE_NODES.items() if name != "node1"}
    after = stored(BASE + egress(replicas=2), before, hosts=left)
    assert routers(after) == {"nat-0": "node3", "nat-1": "node2"}


def test_routers_and_addresses_go_with_their_egress():
    before = stored(BASE + egress(replicas=2))
    after = stored(BASE, before)
    assert routers(after) == {}
    assert not after.allocations.get("cluster-ip-v4")
    assert "egress" not in build_plan(after)


def test_client_waits_for_its_egress():
    """coild: adding a pod fails until the Egress is there."""
    before = stored(BASE + client())
    path = 'metadata.annotations["egress.coil.cybozu.com/internet"]'
    found = ("False", "EgressNotFound", f"{path}: there is no Egress internet/nat")
    assert ready(before, "Workload/red/web") == found
    assert "red/web" not in build_plan(before)["workloads"]
    after = stored(BASE + egress() + client(), before)
    assert ready(after, "Workload/red/web")[0] == "True"


def test_running_client_goes_on_without_its_egress():
    before = stored(BASE + egress() + client())
    after = stored(BASE + client(), before)
    assert ready(after, "Workload/red/web")[1] == "EgressNotFound"
    assert "red/web" in build_plan(after)["workloads"]


def lacking(*names: str) -> dict:
    return {
        name: {**fields, "kernel_lacks": ["fou (IPv4)"] if name in names else []}
        for name, fields in nodes(*THREE).items()
    }


def test_node_selector_by_a_label_of_the_inventory():
    """`heddle_node_labels` of a host, as labels of a Node."""
    labelled = {name: {**fields, "labels": {"rack": name[-1]}} for name, fields in nodes(*THREE).items()}
    text = BASE + egress(replicas=2, template={"spec": {"nodeSelector": {"rack": "2"}}})
    assert set(routers(stored(text, hosts=labelled)).values()) == {"node2"}
    assert routers(stored(text.replace('"rack": "2"', '"rack": "9"'), hosts=labelled)) == {}


def test_routers_are_not_on_hosts_whose_kernel_has_no_tunnels():
    text = BASE + egress(replicas=3)
    before = stored(text)
    there = routers(before)
    assert set(there.values()) == set(THREE)
    after = stored(text, before, hosts=lacking("node2"))
    assert set(routers(after).values()) == set(THREE) - {"node2"}
    assert {name: host for name, host in there.items() if host != "node2"}.items() <= routers(after).items()
    none = stored(text, before, hosts=lacking(*THREE))
    status, reason, message = ready(none, "Egress/internet/nat")
    assert (status, reason) == ("False", "NoHostForRouter")
    assert "node2 lacks fou (IPv4)" in message
    assert routers(none) == {}
    # With another kernel.
    assert len(routers(stored(text, none, hosts=lacking()))) == 3


def test_client_on_a_host_whose_kernel_has_no_tunnels_has_the_reason():
    text = BASE + egress() + client("web") + client("other", "node2")
    waiting = stored(text, hosts=lacking("node1"))
    assert ready(waiting, "Workload/red/web")[:2] == ("False", "TunnelsNotSupported")
    assert "the kernel of node1 lacks fou (IPv4)" in ready(waiting, "Workload/red/web")[2]
    assert "red/web" not in build_plan(waiting)["workloads"]
    assert ready(waiting, "Workload/red/other")[0] == "True"
    running = stored(text, stored(text), hosts=lacking("node1"))
    assert ready(running, "Workload/red/web")[1] == "TunnelsNotSupported"
    assert "red/web" in build_plan(running)["workloads"]


def test_two_gateways_with_one_destination_are_reported():
    text = BASE + egress("one") + egress("two", destinations=["::/0", "10.9.0.0/16"])
    snapshot = stored(text + client(internet="one,two"))
    _status, reason, message = ready(snapshot, "Workload/red/web")
    assert reason == "EgressConflict"
    assert message.endswith(": ::/0 is a destination of internet/one and of internet/two")


def test_several_egresses_of_several_namespaces():
    text = BASE + namespace("office", primary=False) + egress() + egress("lan", "office", destinations=["10.9.0.0/16"])
    plan = build_plan(stored(text + client(internet="nat", office="lan")))["egress"]
    assert plan["workloads"]["red/web"]["egresses"] == ["internet/nat", "office/lan"]


def test_locked_eth0_carries_no_tunnels():
    text = namespace("internet", primary=False) + namespace("red") + layer2("red", "net", "10.0.0.0/24") + egress()
    snapshot = stored(text + client())
    assert ready(snapshot, "Workload/red/web")[1] == "EgressNotReachable"
    inside = namespace("red") + layer2("red", "net", "10.0.0.0/24") + egress(where="red")
    assert ready(stored(inside), "Egress/red/nat")[1] == "RouterWaits"


def test_name_of_a_router_is_taken():
    own = workload("internet", "nat-0", "node1")
    assert routers(stored(BASE + own + egress())) == {"nat-1": "node1"}
    _after, problems = decide(BASE + own + egress(), stored(BASE + egress()))
    assert [problem.path for problem in problems] == ["metadata.name"]


def test_service_cannot_take_the_address_of_an_egress():
    before = stored(BASE + egress())
    service = (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
        "spec: {clusterIP: 10.96.1.0, ports: [{port: 80}]}\n"
    )
    _after, problems = decide(BASE + egress() + service, before)
    assert "already allocated to Egress/internet/nat" in str(problems[0])


def test_many_routers_are_balanced_over_egresses():
    hosts = nodes(*(f"node{number}" for number in range(1, 5)))
    snapshot = stored(BASE + egress("one", replicas=2) + egress("two", replicas=2), hosts=hosts)
    assert sorted(routers(snapshot).values()) == ["node1", "node2", "node3", "node4"]


@pytest.mark.parametrize("pooled", ["red", "internet"])
def test_client_and_routers_on_different_kinds_of_network(pooled):
    """Nothing passes between address pools and OVN's default network."""
    pool = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: p}\n"
        "spec: {subnets: [{ipv4: 10.2.0.0/24, ipv6: 'fd02::/120'}]}\n"
    )
    annotated = namespace(pooled, primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: p}\n"
    text = BASE.replace(namespace(pooled, primary=False), annotated) + pool + egress() + client()
    found = condition(stored(text).objects["Workload/red/web"], "Ready")
    assert found["reason"] == "EgressNotReachable"
    other = "internet" if pooled == "red" else "red"
    assert f"namespace {pooled} has the pool p, and namespace {other} has none" in found["message"]
    # A new client waits. One that runs when the annotation comes goes on.
    assert "red/web" not in build_plan(stored(text))["egress"]["workloads"]
    running = stored(text, stored(text.replace("egress.coil.cybozu.com", "example.com")))
    assert condition(running.objects["Workload/red/web"], "Ready")["reason"] == "EgressNotReachable"
    both = text.replace(
        namespace(other, primary=False),
        namespace(other, primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: p}\n",
    )
    assert ready(stored(both), "Workload/red/web")[0] == "True"
