# SPDX-License-Identifier: Apache-2.0
"""The result of verify on hosts that are slow, paused or lossy, and with one injected defect.

Each scenario runs HEDDLE_REPEAT times (once if it is not set): `make test-long` asks for ten on containers.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.conftest import REPORT, Lab

REPEAT = int(os.environ.get("HEDDLE_REPEAT") or 1)
# Each run chooses other workloads of each class.
SEEDS = [f"run{number}" for number in range(REPEAT)]
PAUSE_SECONDS = 10
# Percent of a processor that the host with the defect has. Less of it takes many minutes, and is for the repeated runs.
THROTTLED = "25" if REPEAT == 1 else "10"


@pytest.fixture
def impaired(lab: Lab):
    """A lab that is as before when the test is over, whatever it did to hosts and links."""
    yield lab
    for node in ("node1", "node2", "node3"):
        lab.verb("resume", node)
        lab.verb("throttle", node, "off")
    lab.verb("lose")


def verify(lab: Lab, seed: str, **options) -> dict:
    """Run verify and return its report; its exit code must agree with it."""
    run = lab.play("verify.yml", "-e", f"heddle_verify_seed={seed}", success=False, **options)
    report = json.loads((REPORT / "verify.json").read_text())
    assert run.code == (0 if report["passed"] else 2), run.output[-3000:]
    assert report["coverage"]["seed"] == seed
    return report


def wrong(report: dict) -> list[dict]:
    """Return what failed, each with its sender and target; a report with a problem of a host as well is refused."""
    assert report["problems"] == []
    return [
        one
        for one in [*report["pairs"], *report["north_south"]["flows"]]
        if one["result"] not in ("reached", "isolated")
    ]


def assert_right(report: dict) -> None:
    assert report["passed"], [*report["failures"], *report["not_tested"], *report["problems"]]
    assert all(one["covered"] == one["of"] > 0 for one in report["coverage"]["sorts"].values())


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("percent", [10] if REPEAT == 1 else [10, 5])
def test_slow_hosts_cause_no_failures(impaired: Lab, percent: int, seed: str) -> None:
    for node in ("node1", "node2", "node3"):
        impaired.verb("throttle", node, str(percent))
    assert_right(verify(impaired, seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_paused_host_and_packet_loss_cause_no_failures(impaired: Lab, seed: str) -> None:
    impaired.verb("lose", "--loss", "2")
    impaired.verb("throttle", "node1", "10")
    with impaired.begin("verify.yml", "-e", f"heddle_verify_seed={seed}", quiet=True) as run:
        # The responder is there as soon as hosts are asked.
        while impaired.try_ssh("node2", "test", "-e", "/run/heddle/responder.json").returncode:
            assert run.poll() is None, "verify ended before its responders answered"
            time.sleep(0.1)
        impaired.verb("pause", "node2")
        time.sleep(PAUSE_SECONDS)
        impaired.verb("resume", "node2")
    assert_right(json.loads((REPORT / "verify.json").read_text()))


@pytest.mark.parametrize("seed", SEEDS)
def test_dropping_port_is_the_only_failure(impaired: Lab, seed: str) -> None:
    impaired.verb("throttle", "node2", THROTTLED)
    port = impaired.ssh("node2", "ovs-vsctl", "--bare", "--columns=ofport", "find", "Interface", IS_RED2).strip()
    flow = f"table=0,in_port={port}"
    impaired.ssh("node2", "ovs-ofctl", "add-flow", "br-int", f"{flow},priority=65535,actions=drop")
    try:
        found = wrong(verify(impaired, seed))
    finally:
        impaired.ssh("node2", "ovs-ofctl", "--strict", "del-flows", "br-int", f"{flow},priority=65535")
    assert found
    assert {one["result"] for one in found} == {"failed"}
    assert [one for one in found if "red/red2" not in (one["source"], one["target"])] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_tcp_node_port_that_lost_its_endpoints_is_the_only_failure(impaired: Lab, seed: str) -> None:
    """The load balancer refuses then, which is no answer of an endpoint."""
    plan = impaired.plan()
    ports = plan["services"]["red_red"]["red/public"]["ports"]
    [number] = [one["node_port"] for one in ports if (one["protocol"], one["port"]) == ("TCP", 7654)]
    vip = f"{plan['nodes']['node1']['gateway']['addresses'][0].partition('/')[0]}:{number}"
    find = "--format=json --columns=_uuid,vips find Load_Balancer protocol=tcp"
    rows = json.loads(impaired.ssh("node1", "ovn-nbctl", find))["data"]
    [(row, targets)] = [(row[1], dict(vips)[vip]) for row, (_map, vips) in rows if vip in dict(vips)]
    command = f'ovn-nbctl --wait=hv set Load_Balancer {row} \'vips:"{vip}"="TARGETS"\''
    impaired.ssh("node1", command.replace("TARGETS", ""))
    try:
        found = wrong(verify(impaired, seed))
    finally:
        impaired.ssh("node1", command.replace("TARGETS", targets))
    assert {one["result"] for one in found} == {"failed"}
    assert {(one["target"], one["family"]) for one in found} == {(f"red/public node port TCP {number} of node1", 4)}
    # The host itself goes by the cluster IP, to which its kernel translates.
    assert {"external host to entrance"} <= {one["kind"] for one in found} <= {
        "external host to entrance", "workload to entrance",
    }  # fmt: skip


@contextlib.contextmanager
def unrepaired(lab: Lab, node: str) -> Iterator[None]:
    """The host's own service, which repairs what others change, stands still. The mesh would end with the service."""
    lab.ssh(node, "systemctl kill --signal=STOP heddle-host")
    try:
        yield
    finally:
        lab.ssh(node, "systemctl kill --signal=CONT heddle-host")


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_tunnel_endpoint_without_translation_is_the_only_failure(impaired: Lab, seed: str) -> None:
    """Node ports at the tunnel endpoint of node1, for what comes in there, and from workloads by way of the host."""
    name = "received-service-targets-v4"
    [end] = impaired.plan()["nodes"]["node1"]["encap_ips"]
    listed = json.loads(impaired.ssh("node1", f"nft --json list map inet heddle {name}"))["nftables"]
    [elements] = [one["map"]["elem"] for one in listed if "map" in one]
    keys = [" . ".join(map(str, key["concat"])) for key, _value in elements if key["concat"][0] == end]
    with unrepaired(impaired, "node1"):
        impaired.ssh("node1", f"nft 'delete element inet heddle {name} {{ {', '.join(keys)} }}'")
        found = wrong(verify(impaired, seed))
    restored(impaired, "node1", f"nft 'get element inet heddle {name} {{ {', '.join(keys)} }}'")
    assert {one["result"] for one in found} == {"failed"}
    assert {(one["address"], one["through"]) for one in found} == {(end, "node1")}
    # Processes of the host itself have a chain of their own.
    kinds = {one["kind"] for one in found}
    assert {"other host to entrance"} <= kinds <= {"other host to entrance", "workload to entrance"}


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_nic_that_does_not_forward_is_the_only_failure(impaired: Lab, seed: str) -> None:
    """That of the tunnels, to which processes of the host and its workloads have other ways."""
    [end] = impaired.plan()["nodes"]["node1"]["encap_ips"]
    [row] = json.loads(impaired.ssh("node1", f"ip --json address show to {end}"))
    setting = f"net.ipv4.conf.{row['ifname']}.forwarding"
    with unrepaired(impaired, "node1"):
        impaired.ssh("node1", "sysctl", "-qw", f"{setting}=0")
        found = wrong(verify(impaired, seed))
    restored(impaired, "node1", f"sysctl -n {setting} | grep -x 1")
    assert {one["result"] for one in found} == {"failed"}
    assert {(one["kind"], one["address"]) for one in found} == {("other host to entrance", end)}
    assert {one["way"].rpartition(", ")[2] for one in found} == {"Cluster", "Local"}


def restored(lab: Lab, node: str, condition: str) -> None:
    assert any(lab.try_ssh(node, condition).returncode == 0 for _attempt in attempts(120, longest=2))


IS_RED2 = "external_ids:iface-id=red.red_red_red2"


def tunnel_ends(plan: dict, flow: dict) -> set[str]:
    """Return the nodes of a flow's ends, and those that hold the egress addresses with which its sender leaves."""
    ends = (flow["source"], flow["target"])
    # What sends beside workloads is a host, or one of its VRFs.
    hosts = {flow["source"]: flow.get("runner"), flow["target"]: flow["target"]}
    found = {plan["workloads"][end]["node"] if end in plan["workloads"] else hosts[end] for end in ends}
    for entry in plan["egress_ips"].values():
        workloads = {workload for names in entry["workloads"].values() for workload in names}
        if workloads & {*ends} and not {*ends} <= {*plan["workloads"]}:
            found |= {one["node"] for one in entry["addresses"] if family(one["address"]) == flow["family"]}
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_underlay_mtu_black_hole_is_the_only_failure(impaired: Lab, seed: str) -> None:
    impaired.verb("lose", "--loss", "1", "--blackhole", "node1", "node2", "1000")
    found = wrong(verify(impaired, seed))
    plan = json.loads((REPORT / "plan.json").read_text())
    assert {one["result"] for one in found} == {"failed"}
    between = [one for one in found if one["target"] in plan["workloads"]]
    assert between
    assert [one for one in between if not (one["reach"] and one["mtu"] > 1000)] == []
    assert not [one for one in found if not {"node1", "node2"} <= tunnel_ends(plan, one)]


LEAK = (
    "lrp-add red_red_ovn_cluster_router leak-red 0a:58:a9:fe:4d:01 169.254.77.1/30 peer=leak-test12",
    "lrp-add test12_namespace.scoped_transit_router leak-test12 0a:58:a9:fe:4d:02 169.254.77.2/30 peer=leak-red",
    # As long as the router's own source routes, which it would prefer otherwise.
    "lr-route-add red_red_ovn_cluster_router 203.203.0.0/24 169.254.77.2",
    "lr-route-add test12_namespace.scoped_transit_router 10.128.0.0/16 169.254.77.1",
)
MEND = (
    "lr-route-del red_red_ovn_cluster_router 203.203.0.0/24",
    "lr-route-del test12_namespace.scoped_transit_router 10.128.0.0/16",
    "lrp-del leak-red",
    "lrp-del leak-test12",
)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_leak_between_two_networks_is_the_only_failure(impaired: Lab, seed: str) -> None:
    impaired.ssh("node1", "ovn-nbctl", "--wait=hv", " -- ".join(LEAK))
    try:
        impaired.verb("throttle", "node1", "10")
        found = wrong(verify(impaired, seed))
    finally:
        impaired.ssh("node1", "ovn-nbctl", "--wait=hv", " -- ".join(MEND))
    assert found
    assert {one["result"] for one in found} == {"failed"}
    assert [one for one in found if one["reach"] or _networks(one) != {"red", "test12"}] == []


def _networks(flow: dict) -> set[str]:
    return {flow[end].partition("/")[0] for end in ("source", "target")}
