# SPDX-License-Identifier: Apache-2.0
"""The inspection of a host, and the external packet that is traced."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit import host_inspection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.host_inspection import (
    MOST_ENTRIES,
    bridges,
    distinguished,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.external_trace import egress_packet, overlapping
from tests.pipeline import layer2, layer3, namespace, plan_of, with_gateways, workload


def two(first: str, second: str) -> dict:
    """A plan of two networks, each with a workload on node1."""
    text = namespace("red") + first + workload("red", "r1", "node1")
    text += namespace("blue") + second + workload("blue", "b1", "node1")
    return plan_of(text, hosts=with_gateways("shared"))


SAME = two(layer2("red", "net", "10.0.0.0/24"), layer2("blue", "net", "10.0.0.0/24"))


def test_networks_with_one_subnet_are_a_pair() -> None:
    assert overlapping(SAME, "node1", []) == [("blue/b1", "blue_net", "10.0.0.3"), ("red/r1", "red_net", "10.0.0.3")]
    assert overlapping(SAME, "node2", []) == []
    apart = two(layer2("red", "net", "10.0.0.0/24"), layer2("blue", "net", "10.1.0.0/24"))
    assert overlapping(apart, "node1", []) == []


def test_trace_enters_at_the_workload_and_has_the_masquerade_address_on_the_bridge() -> None:
    packet = egress_packet(SAME, "node1", ["2001:db8::200", "192.0.2.200"])
    assert packet["title"] == "blue/b1 -> 192.0.2.200 (network blue_net, 10.0.0.3 -> 192.0.2.200)"
    assert packet["datapath"] == "blue_net_ovn_layer2_switch"
    port = SAME["workloads"]["blue/b1"]["interfaces"][1]["port"]
    assert f'inport == "{port}"' in packet["microflow"]
    assert packet["bridge"] == "breth1"
    assert "nw_src=169.254.0." in packet["flow"]
    assert egress_packet(SAME, "node2", ["192.0.2.200"]) is None
    assert egress_packet(SAME, "node1", ["2001:db8::200"]) is None


def test_layer3_trace_enters_the_node_switch() -> None:
    routed = two(layer3("red", "net", "10.1.0.0/16", 24), layer2("blue", "net", "10.0.0.0/24"))
    networks = {routed["workloads"][name]["interfaces"][1]["network"] for name in routed["workloads"]}
    assert networks == {"red_net", "blue_net"}
    del routed["workloads"]["blue/b1"]
    assert egress_packet(routed, "node1", ["192.0.2.200"])["datapath"] == "red_net_node1"


def test_ports_are_named_by_their_interfaces_and_patches_by_their_peers() -> None:
    found = bridges(
        [
            {"name": "br-ex", "ports": ["p1", "p2"], "datapath_type": ""},
            {"name": "br-a", "ports": "p3", "datapath_type": "netdev"},
        ],
        [{"_uuid": f"p{number}", "name": f"n{number}", "interfaces": f"i{number}"} for number in (1, 2, 3)],
        [
            {"_uuid": "i1", "name": "eth1", "type": "", "options": {}},
            {"_uuid": "i2", "name": "patch-x", "type": "patch", "options": {"peer": "patch-y"}},
            {"_uuid": "i3", "name": "br-a", "type": "internal", "options": {}},
        ],
    )  # fmt: skip
    assert found == [
        {"name": "br-a", "datapath": "netdev", "ports": [{"name": "br-a", "type": "internal", "peer": None}]},
        {
            "name": "br-ex",
            "datapath": "system",
            "ports": [
                {"name": "eth1", "type": "system", "peer": None},
                {"name": "patch-x", "type": "patch", "peer": "patch-y"},
            ],
        },
    ]


def test_entries_of_the_pair_come_first_and_each_once() -> None:
    def entry(source: str, target: str, zone: int, mark: str = "") -> str:
        return (
            f"udp,orig=(src={source},dst={target},sport=1,dport=2),reply=(src={target},dst={source}),zone={zone}{mark}"
        )

    others = [entry("169.254.0.2", f"192.0.2.{number}", 64000, ",mark=2") for number in range(MOST_ENTRIES)]
    alike = entry("169.254.0.2", "192.0.2.1", 64000, ",mark=90")
    marked = entry("169.254.0.9", "10.0.0.4", 64000, ",mark=9")
    closing = entry("169.254.0.9", "192.0.2.1", 64000, ",mark=9,protoinfo=(state=CLOSING)")
    inner = entry("10.0.0.4", "192.0.2.1", 7)
    found = distinguished(
        [*others, alike, inner, marked, closing, entry("10.0.0.5", "192.0.2.1", 8)], ["mark=9"], ["10.0.0.4"]
    )
    assert found[:4] == [marked, closing, inner, others[0]]
    assert len(found) == len(set(found)) == MOST_ENTRIES


def test_workloads_that_may_not_send_are_not_chosen() -> None:
    """A datagram that is dropped begins no connection, and there would be none to show."""
    names = ("blue", "green", "red")
    text = "".join(
        namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "w1", "node1") for name in names
    )
    firewall = (
        "---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {name: default, namespace: blue}\n"
        "spec: {egress: [{type: Deny, to: {cidrSelector: 0.0.0.0/0}}]}\n"
    )
    external = ["192.0.2.200"]
    plan = plan_of(text + firewall, hosts=with_gateways("shared"))
    assert [name for name, _network, _address in overlapping(plan, "node1", external)] == ["green/w1", "red/w1"]
    assert egress_packet(plan, "node1", external)["network"] == "green_net"
    everything = plan_of(text, hosts=with_gateways("shared"))
    assert [name for name, _network, _address in overlapping(everything, "node1", external)] == ["blue/w1", "green/w1"]
    assert egress_packet(everything, "node1", external)["network"] == "blue_net"


def test_datagrams_of_a_pair_are_sent_until_open_vswitch_tracks_both(monkeypatch) -> None:
    """A busy host loses the first ones; without a way to send nothing is waited for."""
    pair, sent, marks = overlapping(SAME, "node1", []), [], {"blue_net": "0x1", "red_net": "0x2"}
    monkeypatch.setattr(host_inspection, "connection_mark", lambda view: marks[view.name])
    lines = [f"udp,orig=(src=10.0.0.3,dst=192.0.2.200),zone=64000,mark={mark}" for mark in marks.values()]
    monkeypatch.setattr(host_inspection, "run", lambda _command: "\n".join(lines[: max(0, len(sent) - 2)]))
    monkeypatch.setattr(host_inspection, "_send", lambda *_arguments: sent.append(1) or True)
    assert host_inspection._tracked(SAME, "node1", pair, ["192.0.2.200"], local=False) == lines
    assert len(sent) == 4
    sent.clear()
    monkeypatch.setattr(host_inspection, "_send", lambda *_arguments: bool(sent.append(1)))
    assert host_inspection._tracked(SAME, "node1", pair, [], local=False) == []
    assert len(sent) == 1


def test_traces_are_those_of_legs_on_this_host_and_errors_are_text(monkeypatch) -> None:
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "r1", "node1")
    text += workload("red", "r2", "node2") + namespace("blue") + layer3("blue", "net", "10.1.0.0/16", 24)
    plan = plan_of(text + workload("blue", "b1", "node1") + workload("blue", "b2", "node2"))

    def run(command: list[str]) -> str:
        datapath = command[3]
        if datapath == "blue_net_node1":
            raise ProgramError(command[0], "no such datapath")
        return datapath

    monkeypatch.setattr(host_inspection, "run", run)
    by_node = {node: host_inspection._legs(plan, node) for node in ("node1", "node2", "node3")}
    assert {node: [(one["place"], one["text"]) for one in legs] for node, legs in by_node.items()} == {
        "node1": [(0, "red_net_ovn_layer2_switch"), (2, "ovn-trace: no such datapath")],
        "node2": [(1, "red_net_ovn_layer2_switch"), (3, "blue_net_transit_switch")],
        "node3": [],
    }
