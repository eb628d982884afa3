# SPDX-License-Identifier: Apache-2.0
"""The DSCP that an external host receives packets with, in both gateway modes, compared with the EgressQoS."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address, ip_network

import pytest

from tests.lab.conftest import MANIFESTS, NODES, Lab
from tests.lab.remote_program import RemoteProgram
from tests.lab.test_gateways import external

pytestmark = pytest.mark.long
INTERFACE, PORT, MODES = "eth2", 7010, ("shared", "local")
# What senders set themselves: a rule replaces it, and everything else leaves with it.
OWN = 8
# On the default network without an EgressIP, so that local gateway mode leads it through the host's kernel. IPv4 to the
# external host meets the first rule, IPv6 the second one where the label is, and else none.
GRADED = {
    "egress": [
        {"dscp": 34, "dstCIDR": f"{external(4)}/32"},
        {"dscp": 10, "podSelector": {"matchLabels": {"app": "web"}}},
    ]
}
WORKLOADS = {"web": ("node1", {"app": "web"}), "other": ("node2", {})}
# Of a user-defined network, for which there is no EgressQoS.
OF_ANOTHER_NETWORK = "red/red1"


def manifests() -> str:
    """Return the tenant that the test adds to those of the lab."""
    documents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "graded"}},
        {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressQoS", "metadata": {"name": "default", "namespace": "graded"},
         "spec": GRADED},
        *(
            {"apiVersion": "heddle.dev/v1", "kind": "Workload",
             "metadata": {"name": name, "namespace": "graded", "labels": labels}, "spec": {"node": node}}
            for name, (node, labels) in WORKLOADS.items()
        ),
    ]  # fmt: skip
    return "".join(f"---\n{json.dumps(one)}\n" for one in documents)


@pytest.fixture(scope="module", params=MODES)
def plan(request, lab: Lab, tmp_path_factory) -> Iterator[dict]:
    before = lab.plan()
    if request.param == "local" and not all(node["gateway"]["vrf"] for node in before["nodes"].values()):
        pytest.skip("local gateway mode needs a kernel with VRFs")
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("qos") / "manifests")
    (directory / "graded.yml").write_text(manifests())
    lab.play("site.yml", "-e", f"heddle_gateway_mode={request.param}", manifests=directory)
    try:
        found = lab.plan()
        assert {node["gateway"]["mode"] for node in found["nodes"].values()} == {request.param}
        yield found
    finally:
        lab.play("site.yml")


def wanted(plan: dict, name: str, number: int) -> int:
    """Return the DSCP of what a workload sends to the external host: that of the first rule about both, or its own."""
    target = ip_address(external(number))
    rules = [rule for entry in plan["egress_qos"] for rule in entry["rules"] if name in rule["workloads"]]
    for rule in rules:
        about = ip_network(rule["target"]) if rule["target"] else None
        if about is None or (about.version == number and target in about):
            return rule["dscp"]
    return OWN


def senders(plan: dict) -> list[str]:
    """Return the workloads of all namespaces with an EgressQoS, and one of another network."""
    having = {entry["namespace"] for entry in plan["egress_qos"]}
    found = [name for name, one in plan["workloads"].items() if one["namespace"] in having and one["kind"] == "netns"]
    return [*found, OF_ANOTHER_NETWORK]


def own_addresses(plan: dict, name: str) -> list[str]:
    interfaces = plan["workloads"][name]["interfaces"]
    return [address.partition("/")[0] for one in interfaces for address in one["addresses"]]


def test_the_model_of_the_rules_decides_each_case(plan):
    """What is compared below has every case: all nodes, a rule for each family, none, and the first of two."""
    names = senders(plan)
    assert {plan["workloads"][name]["node"] for name in names} == set(NODES)
    assert {wanted(plan, "plain/plain1", number) for number in (4, 6)} == {46}
    assert [wanted(plan, "graded/web", number) for number in (4, 6)] == [34, 10]
    assert [wanted(plan, "graded/other", number) for number in (4, 6)] == [34, OWN]
    assert [wanted(plan, OF_ANOTHER_NETWORK, number) for number in (4, 6)] == [OWN, OWN]


@pytest.mark.parametrize("number", [4, 6], ids=["IPv4", "IPv6"])
def test_an_external_host_receives_what_the_rules_say(lab, plan, number):
    names = senders(plan)
    with ExitStack() as stack:
        watched = RemoteProgram(lab, "external", "marked_frames.py", "watch", INTERFACE, PORT)
        stack.callback(watched.process.kill)
        assert watched.line() == "ready"
        sending = []
        for name in names:
            workload = plan["workloads"][name]
            inside = f"{workload['namespace']}_{workload['name']}"
            words = ("send", external(number), PORT, name, OWN)
            sending.append(RemoteProgram(lab, workload["node"], "marked_frames.py", *words, namespace=inside))
            stack.callback(sending[-1].process.kill)
        for one in sending:
            one.end()
            assert one.process.returncode == 0, one.process.stderr.read()
        received = watched.end()
    found: dict[str, set[int]] = {name: set() for name in names}
    for name, source, dscp in received:
        found[name].add(dscp)
        # That of the node or of an EgressIP, and never the workload's own.
        assert source not in own_addresses(plan, name)
    assert found == {name: {wanted(plan, name, number)} for name in names}
