# SPDX-License-Identifier: Apache-2.0
"""Required and forbidden north-south flows, and their report."""

from __future__ import annotations

import socket
import struct

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations import external_expectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import askers
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    ExternalFlow,
    external_flows,
    left_out,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_flow import (
    EXTERNAL_TO_ENTRANCE,
    TO_CLUSTER_IP,
    sender_of,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.flow_classes import class_of
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.external_evaluation import evaluated
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.frame import tcp_frame, udp_frame
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.result import Silence
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.service_frames import dns_question
from ansible_collections.heddle.ovn.plugins.module_utils.verify.report_tables import reachability_table
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

MANIFESTS = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24")
    + workload("red", "r1", "node1")
    + workload("red", "r2", "node2")
    + namespace("plain", primary=False)
    + workload("plain", "p1", "node1")
)
EVERY = Selection(ALL)
EXTERNAL = {"external": ["192.0.2.200", "2001:db8::200"]}


def plan(mode: str = "shared", services: list | None = None, **facts) -> dict:
    made = plan_of(MANIFESTS, hosts=with_gateways(mode, **facts))
    made["settings"]["shared_services"] = services or []
    return made


def of(found: list[ExternalFlow], kind: str, workload_: str) -> dict[int, ExternalFlow]:
    return {one.family: one for one in found if (one.kind, one.workload) == (kind, workload_)}


@pytest.mark.parametrize("mode", ["shared", "local"])
def test_external_source_is_the_node_in_the_families_of_the_network(mode: str) -> None:
    red = of(external_flows(plan(mode), EXTERNAL, None, EVERY), external_expectations.TO_EXTERNAL, "red/r1")
    assert (red[4].reach, red[4].seen_as, red[4].address) == (True, "192.0.2.11", "192.0.2.200")
    assert (red[6].reach, red[6].reason) == (False, "red_net has no IPv6")
    plain = of(external_flows(plan(mode), EXTERNAL, None, EVERY), external_expectations.TO_EXTERNAL, "plain/p1")
    assert plain[4].reach and plain[6].reach


@pytest.mark.parametrize("facts, family, reason", [
    ({"next_hops": []}, 4, "the node has no IPv4 gateway"),
    ({"addresses": ["192.0.2.11/24"]}, 6, "the node has no IPv6 address on the provider network"),
])  # fmt: skip
def test_no_external_expectations_without_external_connectivity(facts: dict, family: int, reason: str) -> None:
    far = {"external": ["203.0.113.1", "2001:db8:9::1"]}
    plain = of(external_flows(plan(**facts), far, None, EVERY), external_expectations.TO_EXTERNAL, "plain/p1")[family]
    assert (plain.reach, plain.reason) == (False, reason)


def test_external_frames_to_workload_nodes_must_not_arrive() -> None:
    made = plan()
    frames = external_flows(made, EXTERNAL, "external")
    assert {one.kind for one in frames} == {external_expectations.FROM_EXTERNAL}
    assert not any(one.reach for one in frames)
    for one in frames:
        node = made["workloads"][one.target]["node"]
        assert one.mac == made["nodes"][node]["gateway"]["mac"]
        assert one.seen_as in EXTERNAL["external"]


def test_a_workload_reaches_its_own_host_from_the_default_network_only() -> None:
    found = external_flows(plan(), {}, None, EVERY)
    assert of(found, external_expectations.TO_OWN_HOST, "plain/p1")[4].reach
    assert not of(found, external_expectations.TO_OWN_HOST, "red/r1")[4].reach
    other = of(found, external_expectations.TO_OTHER_HOST, "red/r1")[4]
    assert (other.reach, other.target, other.address) == (True, "node2", "192.0.2.12")


def test_a_host_reaches_the_default_network_and_others_through_their_vrf() -> None:
    found = [one for one in external_flows(plan(), {}, "node1", EVERY) if one.workload == "red/r1"]
    results = {
        (one.source, one.network): one.reach
        for one in found
        if one.kind in (external_expectations.FROM_HOST, external_expectations.FROM_VRF)
    }
    assert results == {
        ("node1", "default"): False,
        ("node1", "red_net"): False,
        ("node1 vrf red_net", "red_net"): True,
    }
    assert of(external_flows(plan(), {}, "node1", EVERY), external_expectations.FROM_HOST, "plain/p1")[4].reach


def test_untestable_flows_are_reported() -> None:
    flat = plan(vrf=False)
    assert not [one for one in external_flows(flat, EXTERNAL) if one.kind == external_expectations.FROM_VRF]
    (reported,) = left_out(flat, EXTERNAL)
    assert reported.startswith(
        "host in VRF to workload: not possible without VRFs, which the kernel of node1, node2, node3"
    )
    assert left_out(plan(), {}) == ["external: the inventory has no group heddle_external with heddle_addresses"]
    assert left_out(plan_of(MANIFESTS), {}) == ["no host has external connectivity"]
    report = evaluate(plan(), {})
    assert "  external: the inventory has no group heddle_external with heddle_addresses" in reachability_table(report)


def test_every_network_reaches_shared_services_of_its_families() -> None:
    service = {"name": "kube-system/kube-dns", "endpoints": ["plain/p1"], "ports": [{"protocol": "UDP", "port": 53}]}
    services = [{**service, "address": "10.96.0.10"}, {**service, "address": "fd00:10:96::a"}]
    found = external_flows(plan(services=services, vrf=False), {}, None, EVERY)
    assert {number: one.reach for number, one in of(found, external_expectations.TO_SERVICE, "red/r2").items()} == {
        4: True,
        6: False,
    }
    assert all(one.reach for one in of(found, external_expectations.TO_SERVICE, "plain/p1").values())


def test_cluster_ips_are_reached_from_their_network_only() -> None:
    manifests = MANIFESTS + "".join(
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {where}}}\n"
        "spec: {ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}\n"
        for where in ("red", "plain")
    )
    found = plan_of(manifests, hosts=with_gateways("shared"))
    flows = external_flows(found, {}, None, EVERY)
    for name, own in (("red/r2", "red/web"), ("plain/p1", "plain/web")):
        asked = [one for one in flows if (one.kind, one.workload) == (TO_CLUSTER_IP, name)]
        assert {(one.target, one.reach) for one in asked} == {
            (f"{name} TCP 80", name == own) for name in ("red/web", "plain/web")
        }


SERVICES = [
    {
        "name": "kube-system/kube-dns", "endpoints": ["plain/p1"], "address": address,
        "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP", "SCTP")],
    }
    for address in ("10.96.0.10", "fd00:10:96::a")
]  # fmt: skip


@pytest.mark.parametrize("selection", [EVERY, Selection()])
def test_external_hosts_reach_no_service_through_any_node(selection: Selection) -> None:
    made = plan(services=SERVICES)
    kind = external_expectations.FROM_EXTERNAL_TO_SERVICE
    found = [one for one in external_flows(made, EXTERNAL, "external", selection) if one.kind == kind]
    asked = {(one.address, one.protocol, one.port, one.through) for one in found}
    nodes = ("node1", "node2", "node3")
    assert asked == {
        (service["address"], protocol, 53, node)
        for service in SERVICES
        for protocol in ("UDP", "TCP")
        for node in nodes
    }
    assert len(found) == len(asked)
    for one in found:
        assert not one.reach
        assert one.mac == made["nodes"][one.through]["gateway"]["mac"]
        assert one.seen_as == EXTERNAL["external"][one.family == 6]
    assert not [one for one in external_flows(made, EXTERNAL, "node1", selection) if one.kind == kind]


def test_services_are_asked_for_only_over_what_is_there() -> None:
    kind = external_expectations.FROM_EXTERNAL_TO_SERVICE
    four = [one for one in external_flows(plan(services=SERVICES), {"external": ["192.0.2.200"]}) if one.kind == kind]
    assert {one.family for one in four} == {4}
    closed = plan(services=SERVICES)
    closed["nodes"]["node2"]["gateway"] = None
    found = [one for one in external_flows(closed, EXTERNAL) if one.kind == kind]
    assert {one.through for one in found} == {"node1", "node3"}


def test_a_service_that_answers_an_external_host_is_a_leak_and_names_the_node() -> None:
    made = plan(services=SERVICES)
    kind = external_expectations.FROM_EXTERNAL_TO_SERVICE
    rows = [
        one for one in external_flows(made, EXTERNAL, "external", EVERY) if one.kind == kind and one.through == "node2"
    ]
    quiet, loud = {"answered_by": None, "answered_on": None}, {"answered_on": ""}
    seen_ = {
        (one.source, one.target, one.network, one.address): {**loud, "answered_by": one.target} if place == 0 else quiet
        for place, one in enumerate(rows)
    }
    found = evaluated(made, rows, seen_, {}, {"node2", "external"})
    assert [row["result"] for row in found] == ["failed", *["isolated"] * (len(rows) - 1)]
    assert found[0]["text"] == (
        "external host to service: external -> kube-system/kube-dns UDP 53 through node2 10.96.0.10 (IPv4): "
        "answered but must not: services are not reached from the provider network"
    )
    assert {row["result"] for row in evaluated(made, rows, seen_, {}, {"external"})} == {"not tested"}


def test_a_report_counts_them_and_its_classes() -> None:
    made = plan(services=SERVICES)
    rows = external_flows(made, EXTERNAL)
    report = evaluate(made, {}, EXTERNAL)
    counts = [row for row in report["north_south"]["counts"] if row["kind"] == "external host to service"]
    assert [(row["family"], row["must_not"]) for row in counts] == [(4, 6), (6, 6)]
    assert report["coverage"]["sorts"]["flow"]["of"] == len({class_of(askers(made), one) for one in rows})
    assert reachability_table(report)


def seen(one: ExternalFlow, **changes) -> dict:
    answered = {"answered_by": one.target, "answered_on": one.network, "asker": one.seen_as, "large": True}
    return {
        **(answered if one.reach else dict.fromkeys(answered)),
        "milliseconds": 1.0,
        "unsolicited": False,
        **changes,
    }


@pytest.mark.parametrize("changes, text", [
    ({"asker": "10.0.0.3"}, "seen as 10.0.0.3 there, not as 192.0.2.11"),
    ({"large": False}, "packets of 1400 bytes get no answer, small ones do"),
    ({"answered_by": "node3", "answered_on": ""}, "answered by node3 on a host"),
    ({"answered_by": None}, "no answer"),
    ({"unsolicited": True}, "an unsolicited source reached red/r1"),
])  # fmt: skip
def test_each_failure_of_an_external_packet_is_one_line(changes: dict, text: str) -> None:
    made = plan()
    one = of(external_flows(made, EXTERNAL, None, EVERY), external_expectations.TO_EXTERNAL, "red/r1")[4]
    key = (one.source, one.target, one.network, one.address)
    rows = evaluated(made, [one], {key: seen(one, **changes)}, {}, {"node1", "external"})
    assert [row["text"].partition(": ")[2].partition(": ")[2] for row in rows if row["text"]] == [text]
    # What must not arrive and did is final; all else is asked again.
    (row,) = [row for row in rows if row["text"]]
    assert bool(row.get("unconfirmed")) is row["reach"]


@pytest.mark.parametrize("changes, text", [
    ({"asker": "10.0.0.3"}, "seen as 10.0.0.3 there, not as 192.0.2.11"),
    ({"answered_by": "node3", "answered_on": ""}, "answered by node3 on a host"),
])  # fmt: skip
@pytest.mark.parametrize(("alone", "result", "says"), [
    ({"answered": True}, "failed", "{} (also when asked alone)"),
    ({"answered": False}, "failed", "{} (asked alone 5 times)"),
    ({"answered": False, "tries": 0, "dead": 60}, "not tested", "known-good questions took more than 60 s"),
])  # fmt: skip
def test_wrong_answer_has_failed_when_it_comes_again(changes, text, alone, result, says) -> None:
    one = of(external_flows(plan(), EXTERNAL, None, EVERY), external_expectations.TO_EXTERNAL, "red/r1")[4]
    key = (one.source, one.target, one.network, one.address)
    known = {"tries": 5, "waited": 4.0, "slowest": 0.01, "dead": 0, "near": True}
    silence = Silence({"node1": {"again": {key: known | alone}}}, {})
    (row, *_rest) = evaluated(plan(), [one], {key: seen(one, **changes)}, {}, {"node1", "external"}, silence)
    assert (row["result"], row["unconfirmed"]) == (result, False)
    assert says.format(text) in row["text"]


@pytest.mark.parametrize(("asker", "again"), [("192.0.2.11", 0), ("10.0.0.3", 1), (None, 1)])
def test_host_counts_questions_whose_source_was_seen_wrongly_among_those_to_repeat(asker, again) -> None:
    """A run without any question to repeat leaves that step out."""
    one = of(external_flows(plan(), EXTERNAL, None, EVERY), external_expectations.TO_EXTERNAL, "red/r1")[4]
    record = {"answers": [[0, one.target, one.network, asker, 1.5, True, False]], "unsent": [], "untested": []}
    assert Expectations([one], [], {}).unanswered(record) == again


@pytest.mark.parametrize(("heard", "result", "text"), [
    ({}, "failed", "no answer (asked alone 5 times)"),
    ({("external by web of node1 192.0.2.1", "red/w", "red_net", "10.0.0.3"): 0.1}, "failed",
     "the packet arrived, its answer did not (asked alone 5 times)"),
    ({("external by web of node1 192.0.2.1", "red/w", "red_net", "10.0.0.3"): 1.5}, "not tested",
     "the packet arrived and was answered 1.5 s later"),
    # The same Service by its IPv6 address is another question.
    ({("external by web of node1 192.0.2.1", "red/w", "red_net", "fd00::3"): 1.5}, "failed",
     "no answer (asked alone 5 times)"),
])  # fmt: skip
def test_late_answers_of_any_endpoint_are_no_failure_of_a_service(heard, result, text) -> None:
    one = ExternalFlow(
        EXTERNAL_TO_ENTRANCE, "external", "external", "web of node1", "", "", 4, "192.0.2.1",
        True, "a node port", protocol="UDP", port=30000, through="node1", responders=("red/w",),
    )  # fmt: skip
    key = (one.source, one.target, one.network, one.address)
    alone = {"tries": 5, "waited": 4.0, "slowest": 0.01, "dead": 0, "near": True}
    silence = Silence({"external": {"again": {key: alone}}}, {})
    (row,) = evaluated(plan(), [one], {key: seen(one, answered_by=None)}, heard, {"node1", "external"}, silence)
    assert row["result"] == result
    assert text in row["text"]


def test_arriving_frame_is_a_leak_and_silent_host_is_not_tested() -> None:
    made = plan()
    one = of(external_flows(made, EXTERNAL, None, EVERY), external_expectations.FROM_EXTERNAL, "red/r1")[4]
    key = (one.source, one.target, one.network, one.address)
    found = {key: seen(one)}
    (leak,) = evaluated(made, [one], found, {key: 0.0}, {"node1", "external"})
    assert (leak["result"], "got the packet" in leak["text"]) == ("failed", True)
    (fine,) = evaluated(made, [one], found, {}, {"node1", "external"})
    assert fine["result"] == "isolated"
    (silent,) = evaluated(made, [one], found, {}, {"external"})
    assert (silent["result"], silent["text"]) == ("not tested", "node1 did not answer")


@pytest.mark.parametrize(("kind", "on", "result"), [
    (external_expectations.FROM_EXTERNAL, "red_net", "failed"),
    (external_expectations.FROM_EXTERNAL, "", "isolated"),
    (external_expectations.FROM_HOST, "blue_net", "failed"),
    (external_expectations.FROM_HOST, "default", "isolated"),
])  # fmt: skip
def test_the_answer_of_a_third_workload_is_a_leak_unless_the_sender_is_in_its_network(kind, on, result) -> None:
    made = plan()
    found = external_flows(made, EXTERNAL, None, EVERY)
    one = next(one for one in found if (one.kind, one.workload, one.reach) == (kind, "red/r1", False))
    key = (one.source, one.target, one.network, one.address)
    answered = {key: seen(one, answered_by="blue/b9", answered_on=on)}
    (row,) = evaluated(made, [one], answered, {}, {"node1", "external"})
    assert row["result"] == result
    assert ("blue/b9 answered on" in row["text"]) is (result == "failed")


def test_a_datagram_that_reaches_an_endpoint_but_must_not_is_a_leak_without_its_answer() -> None:
    one = ExternalFlow(
        EXTERNAL_TO_ENTRANCE, "external", "external", "web of node1", "", "", 4, "192.0.2.1",
        False, "192.0.2.200 is in no source range", protocol="UDP", port=30000, through="node1",
        responders=("red/w",),
    )  # fmt: skip
    key = (one.source, one.target, one.network, one.address)
    quiet = {key: seen(one)}
    heard = {(sender_of(one), "red/w", "red_net", "10.0.0.3"): 0.1}
    tested = {"node1", "external"}
    assert [row["result"] for row in evaluated(plan(), [one], quiet, heard, tested)] == ["failed"]
    assert [row["result"] for row in evaluated(plan(), [one], quiet, {}, tested)] == ["isolated"]


@pytest.mark.parametrize("addresses", [("192.0.2.200", "10.0.0.3"), ("2001:db8::200", "fd00:10::3")])
def test_frame_checksums(addresses: tuple[str, str]) -> None:
    frame = udp_frame(("02:00:00:00:00:01", "02:00:00:00:00:02"), addresses, (40000, 7654), b"odd")
    assert frame[:12].hex() == "020000000002020000000001"
    six = ":" in addresses[0]
    packed = b"".join(socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, one) for one in addresses)
    datagram = frame[14 + (40 if six else 20) :]
    assert total(packed + struct.pack("!II", 17, len(datagram)) + datagram) == 0xFFFF
    assert six or total(frame[14:34]) == 0xFFFF


@pytest.mark.parametrize("addresses", [("192.0.2.200", "10.96.0.1"), ("2001:db8::200", "fd00:10:96::1")])
def test_a_frame_asks_for_a_connection_with_right_checksums(addresses: tuple[str, str]) -> None:
    frame = tcp_frame(("02:00:00:00:00:01", "02:00:00:00:00:02"), addresses, (40000, 443), 7)
    six = ":" in addresses[0]
    packed = b"".join(socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, one) for one in addresses)
    segment = frame[14 + (40 if six else 20) :]
    assert struct.unpack("!HHIIH", segment[:14]) == (40000, 443, 7, 0, 0x5002)
    assert total(packed + struct.pack("!II", 6, len(segment)) + segment) == 0xFFFF
    assert six or total(frame[14:34]) == 0xFFFF


def total(data: bytes) -> int:
    """The Internet checksum's sum, which is all ones over what carries a right one (RFC 1071)."""
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2))
    found = sum(words)
    while found >> 16:
        found = (found & 0xFFFF) + (found >> 16)
    return found


def test_dns_question_is_valid() -> None:
    assert dns_question(0x1234).hex().startswith("12340100000100000000000006")
