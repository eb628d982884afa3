# SPDX-License-Identifier: Apache-2.0
"""Encapsulation and MTU of a new cluster, chosen from what gets through between its hosts."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.store.encapsulation import encapsulation_of
from tests.pipeline import THREE_NODES, decide, layer2, namespace, stored

AUTO = {"encapsulation_type": "auto"}
TEXT = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
OPEN = {"geneve": 1500, "vxlan": 1500}


def hosts(changes: dict | None = None, mtu: int = 1500, address: str = "198.18.1.{}", **more) -> dict:
    """Return hosts whose paths let everything through, but for `changes`: {(from, to): sizes}."""
    return {
        name: {
            **host, "underlay_mtu": mtu, "encap_ips": [address.format(number)],
            "paths": {other: (changes or {}).get((name, other), {"geneve": mtu, "vxlan": mtu})
                      for other in THREE_NODES if other != name},
            **more.get(name, {}),
        }
        for number, (name, host) in enumerate(THREE_NODES.items(), start=11)
    }  # fmt: skip


def every(sizes: dict) -> dict:
    return dict.fromkeys(itertools.permutations(THREE_NODES, 2), sizes)


def chosen(found: dict, text: str = TEXT, **settings) -> tuple[str, int]:
    after, problems = decide(text, hosts=found, settings={**AUTO, **settings})
    assert not problems, "\n".join(map(str, problems))
    return encapsulation_of(after).kind, after.settings["mtu"]


def refusals(found: dict, text: str = TEXT, before=None, **settings) -> list[str]:
    return [str(one) for one in decide(text, before, hosts=found, settings={**AUTO, **settings})[1]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("geneve", 1400)),
        ({("node1", "node3"): {"geneve": 1450, "vxlan": 1500}}, ("geneve", 1392)),
        ({("node3", "node1"): {"geneve": 0, "vxlan": 1500}}, ("vxlan", 1400)),
        ({("node3", "node1"): {"geneve": 0, "vxlan": 1400}}, ("vxlan", 1350)),
        # Too small for IPv6 with Geneve only.
        (every({"geneve": 1330, "vxlan": 1330}), ("vxlan", 1280)),
    ],
)
def test_choice(changes, expected):
    assert chosen(hosts(changes)) == expected


def test_a_given_mtu_may_decide():
    path = {("node1", "node2"): {"geneve": 1450, "vxlan": 1450}}
    assert chosen(hosts(path), mtu=1392) == ("geneve", 1392)
    assert chosen(hosts(path), mtu=1400) == ("vxlan", 1400)


def test_ipv6_underlay_has_less_room():
    assert chosen(hosts(address="fd00:6864:1::{}", mtu=1450)) == ("geneve", 1372)


def test_a_single_host_has_no_paths():
    one = {"node1": {**THREE_NODES["node1"], "underlay_mtu": 1400}}
    assert chosen(one) == ("geneve", 1342)
    assert chosen({"node1": THREE_NODES["node1"]}) == ("geneve", 1400)


def test_every_pair_without_a_way_is_named():
    found = refusals(hosts({
        ("node1", "node2"): {"geneve": 0, "vxlan": 1500},
        ("node2", "node3"): {"geneve": 1500, "vxlan": 0},
    }, node3={"path_problems": {"vxlan": "another program has UDP port 4789"}}))  # fmt: skip
    assert len(found) == 2
    assert (
        "encapsulation_type: node1 to node2: Geneve (UDP 6081) does not get through, VXLAN (UDP 4789) gets through "
        "with 1500 bytes; every pair of hosts needs the same encapsulation, with room for packets of 1280 bytes"
        in found[0]
    )
    assert "let UDP 6081 through in both directions" in found[0]
    assert (
        "node2 to node3: Geneve (UDP 6081) gets through with 1500 bytes, VXLAN (UDP 4789) does not get through "
        in (found[1])
    )
    assert "(another program has UDP port 4789)" in found[1]


def test_a_path_that_was_not_measured_is_no_reason_to_choose():
    found = hosts()
    del found["node2"]["paths"]["node3"]
    found["node3"].pop("paths")
    (problem,) = refusals(found)
    assert "the paths between hosts were not measured: node2 to node3, node3 to node1, node3 to node2" in problem


def test_an_existing_cluster_keeps_its_own():
    before = stored(TEXT, hosts=hosts({("node3", "node1"): {"geneve": 0, "vxlan": 1500}}), settings=AUTO)
    again = stored(TEXT, before, hosts=hosts(), settings=AUTO)
    assert (encapsulation_of(again).kind, again.settings["mtu"]) == ("vxlan", 1400)
    assert build_plan(again)["digest"] == build_plan(before)["digest"]
    (problem,) = refusals(hosts(), before=before, encapsulation_type="geneve")
    assert "geneve can only be chosen for a cluster that has no hosts yet" in problem
    assert "this one has vxlan; write vxlan or auto" in problem
    # One that began without the setting has Geneve, and the MTU that it had.
    old = stored(TEXT, hosts=THREE_NODES)
    after = stored(TEXT, old, hosts=hosts(), settings=AUTO)
    assert (encapsulation_of(after).kind, after.settings["mtu"]) == ("geneve", 1400)
    assert refusals(hosts(), before=old, encapsulation_type="vxlan")


def test_a_network_that_does_not_fit_names_the_pair():
    path = {("node3", "node1"): {"geneve": 1450, "vxlan": 1450}}
    wide = TEXT.replace("role: Primary", "role: Primary, mtu: 1440")
    (problem,) = refusals(hosts(path), wide)
    assert "UserDefinedNetwork" in problem
    assert (
        "spec.mtu: 1440 does not fit into the tunnels from node3 to node1: Geneve (UDP 6081) gets through with packets "
        "of up to 1450 bytes; use 1392 or less, or raise the MTU of that path" in problem
    )


def test_a_path_that_shrinks_does_not_refuse_what_is_there():
    before = stored(TEXT, hosts=hosts(), settings=AUTO)
    shrunk = hosts({("node2", "node1"): {"geneve": 1400, "vxlan": 1400}})
    after = stored(TEXT, before, hosts=shrunk, settings=AUTO)
    assert after.settings["mtu"] == 1400
    more = namespace("blue") + layer2("blue", "net", "10.0.0.0/24").replace("role: Primary", "role: Primary, mtu: 1400")
    (problem,) = refusals(shrunk, TEXT + more, before)
    assert "1400 does not fit into the tunnels from node2 to node1" in problem


def test_what_was_measured_stays_until_it_is_measured_again():
    before = stored(TEXT, hosts=hosts(), settings=AUTO)
    known = before.objects["Node/node1"].spec["paths"]
    again = stored(TEXT, before, hosts={**THREE_NODES, "node1": {**THREE_NODES["node1"], "paths": None}}, settings=AUTO)
    assert again.objects["Node/node1"].spec["paths"] == known
    part = {**THREE_NODES, "node1": {**THREE_NODES["node1"], "paths": {"node2": OPEN}}}
    assert stored(TEXT, before, hosts=part, settings=AUTO).objects["Node/node1"].spec["paths"] == known


def test_vxlan_has_keys_of_twelve_bits():
    plan = build_plan(stored(TEXT, settings={"encapsulation_type": "vxlan"}))
    keys = [key for network in plan["networks"].values() for key in network["tunnel_keys"]]
    assert plan["encapsulation"] == "vxlan"
    assert sorted(keys) == [1024, 1025, 2560]
    assert "encapsulation" not in build_plan(stored(TEXT))
    (problem,) = refusals({}, encapsulation_type="vxlan", layer2_topology="gateway-router")
    assert "vxlan needs transit routers in Layer2 networks" in problem


def test_vxlan_has_fewer_keys_for_what_a_host_has_alone():
    """205 Layer3 networks need more than the 1,023 keys that northd has for datapaths of a host."""
    text = namespace("red", primary=False) + "".join(
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\n"
        f"metadata: {{name: n{number}}}\nspec: {{namespaceSelector: {{}}, network: {{topology: Layer3, layer3: "
        f"{{role: Secondary, subnets: [{{cidr: 10.{number // 256}.{number % 256}.0/24, hostSubnet: 28}}]}}}}}}\n"
        for number in range(511)
    )
    after = stored(text, settings={"encapsulation_type": "vxlan"})
    missing = [entry.name for entry in after.of_kind("ClusterUserDefinedNetwork") if "hosts" in str(entry.status)]
    conditions = [str(entry.status) for entry in after.of_kind("ClusterUserDefinedNetwork")]
    assert sum("with vxlan a host has 1023 keys" in one for one in conditions) == 2, missing
