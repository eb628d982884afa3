# SPDX-License-Identifier: Apache-2.0
"""Workloads with an EgressService or an EgressIP on a Layer2 network, in all stages of its topology's upgrade and back.

OKEP-5094; two zones, as in `test_layer2_upgrade.py`. What leaves one zone through a port with a tunnel key is followed
into the other one, at the port with that key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import GATEWAY_ROUTERS, TRANSIT_ROUTER
from tests.live.topology.test_layer2_upgrade import (
    FAMILIES,
    GATEWAY_MAC,
    ROUTER,
    SWITCH,
    TRANSIT_MAC,
    cluster,
    port,
)
from tests.pipeline import labelled, layer2, namespace, workload

__all__ = ["cluster"]
EGRESS_IP = {4: "192.0.2.150", 6: "2001:db8::150"}
EXTERNAL = {4: "198.51.100.7", 6: "2001:db8:99::7"}
# On the provider network itself, to which a gateway router is connected.
NEIGHBOUR = {4: "192.0.2.77", 6: "2001:db8::77"}
# Of replies, by a rule of the switch.
REPLY_MARK = 42
BASE = namespace("red") + layer2("red", "net", "203.203.0.0/24", "2010:100:200::/60")
NODE_OF = {"late": 1, "c": 3}
# Each step changes the version of one node; both ways, mixed states with either node as the newer one are among them.
STEPS = [(), *product(("node1", "node2", "node3"), (TRANSIT_ROUTER,)), *product(("node1", "node2"), (GATEWAY_ROUTERS,))]


def workloads() -> str:
    text = "".join(workload("red", one, f"node{number}") for one, number in NODE_OF.items())
    return BASE + text.replace("namespace: red}\nspec: {node", "namespace: red, labels: {app: web}}\nspec: {node")


def egress_service(host: str) -> str:
    name = {"name": "web", "namespace": "red"}
    documents = [
        {"apiVersion": "heddle.dev/v1", "kind": "LoadBalancerPool", "metadata": {"name": "provider"},
         "spec": {"subnets": ["192.0.2.100/32", "2001:db8::100/128"]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": name,
         "spec": {"type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "selector": {"app": "web"},
                  "ports": [{"port": 80}]}},
        {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressService", "metadata": name,
         "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": host}}}},
    ]  # fmt: skip
    return workloads() + "".join(f"---\n{json.dumps(one)}\n" for one in documents)


def egress_ip(address: str) -> str:
    spec = {"egressIPs": [address], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "red"}}}
    document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": "out"}, "spec": spec}
    return f"{workloads()}---\n{json.dumps(document)}\n"


def plans(cluster, *texts: str) -> Iterator[dict]:
    """In each stage the plans of some manifests, which both zones have applied."""
    for step in STEPS:
        # A drain would move the workloads.
        cluster.admit(BASE)
        if step:
            cluster.change(*step)
        for text in texts:
            cluster.admit(text)
            cluster.apply()
            assert not any(outcome.changed for outcome in cluster.apply()), step
            yield build_plan(cluster.state)


def leaving(cluster, name: str, host: int, number: int) -> tuple[str, str]:
    """Follow a packet of a workload to an external host; the port that it leaves by, and what was changed on it."""
    here, new = NODE_OF[name], {one: f"trtos-{SWITCH}" in side.tunnel_keys() for one, side in cluster.sides.items()}
    side, source = cluster.sides[here], cluster.sides[here].end_of(name, number)
    gateway = TRANSIT_MAC if new[here] else GATEWAY_MAC[here]
    [(place, text), *_others] = side.echo(SWITCH, port(name), source, (gateway, EXTERNAL[number]), number)
    if here == host:
        return place, text
    # The keys of these ports in both zones are compared by `test_all_of_a_mixed_cluster`.
    there = f"GR_red_net_node{host}"
    if new[here] and new[host]:
        assert place == f"trtor-{there}"
        datapath, inport = there, f"rtotr-{there}"
    else:
        assert place == f"stor-{SWITCH}_node{host}"
        datapath, inport = (ROUTER, f"trtos-{SWITCH}-upgrade") if new[host] else (there, f"rtos-{SWITCH}")
    seen = dict(re.findall(r"eth\.(src|dst) = ([0-9a-f:]{17});", text))
    other = cluster.sides[host]
    mac = next(
        row["mac"] for row in other.northbound.rows("Logical_Router_Port", "name", "mac") if row["name"] == inport
    )
    # The transit router of this zone asks for the address of the other node's gateway router.
    assert seen["dst"] == mac or seen["dst"].startswith(("ff:ff:", "33:33:"))
    return other.echo(datapath, inport, (seen["src"], source[1]), (mac, EXTERNAL[number]), number)[0]


def check_leaving(cluster, plan: dict, host: int, families: tuple[int, ...], mark: int) -> None:
    stage = {name: node["layer2_topology_version"] for name, node in plan["nodes"].items()}
    for name, number in product(NODE_OF, families):
        place, text = leaving(cluster, name, host, number)
        assert place == f"breth1_red_net_node{host}", (stage, name, number, text)
        assert f"pkt.mark = {mark};" in text, (stage, name, number, text)


def check_replies(cluster, families: tuple[int, ...]) -> None:
    """Replies leave by the node of the workload, in local gateway mode through its management port."""
    for name, number in product(NODE_OF, families):
        here = NODE_OF[name]
        side, target = cluster.sides[here], NEIGHBOUR[number]
        mac, address = side.end_of(name, number)
        is_new = f"trtos-{SWITCH}" in side.tunnel_keys()
        datapath, inport = (ROUTER, f"trtos-{SWITCH}") if is_new else (f"GR_red_net_node{here}", f"rtos-{SWITCH}")
        seen = side.packet(
            datapath, inport,
            f"eth.src == {mac} && eth.dst == {TRANSIT_MAC if is_new else GATEWAY_MAC[here]} && ip.ttl == 64 && "
            f"pkt.mark == {REPLY_MARK} && ip{number}.src == {address} && ip{number}.dst == {target} && udp",
        )  # fmt: skip
        place = {"shared": f"breth1_red_net_node{here}", "local": f"k8s-red_net_node{here}"}[cluster.mode]
        assert {out for out, _text in seen} == {place}, (datapath, number, seen)


@pytest.mark.parametrize("host", [1, 3])
def test_endpoints_leave_by_the_host_in_every_stage(cluster, host):
    for plan in plans(cluster, egress_service(f"node{host}")):
        entry = plan["egress_services"]["red_net"]["red/web"]
        assert (entry["host"], entry["workloads"]) == (f"node{host}", ["red/c", "red/late"])
        flows = [one for one in render_bridge_flows(plan, entry["host"]) if f"pkt_mark={entry['mark']:#x}" in one.match]
        assert all(any(address in one.actions for one in flows) for address in entry["addresses"])
        check_leaving(cluster, plan, host, FAMILIES, entry["mark"])
        check_replies(cluster, FAMILIES)


@pytest.mark.parametrize("host", [1, 3])
def test_workloads_leave_with_their_egress_ip_in_every_stage(cluster, host):
    """By the holder, and with the mark that its provider bridge translates by; one address of an object at a node."""
    cluster.hosts[f"node{host}"] = labelled(cluster.hosts)[f"node{host}"]
    for plan in plans(cluster, *map(egress_ip, EGRESS_IP.values())):
        entry = plan["egress_ips"]["out"]
        [one] = entry["addresses"]
        assert (one["node"], entry["workloads"]) == (f"node{host}", {"red_net": ["red/c", "red/late"]})
        check_leaving(cluster, plan, host, (family(one["address"]),), entry["mark"])
        check_replies(cluster, (family(one["address"]),))
