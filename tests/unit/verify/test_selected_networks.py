# SPDX-License-Identifier: Apache-2.0
"""Who must reach whom on networks that workloads selected: by address, twice, and with a default route elsewhere."""

from __future__ import annotations

import os
import socket

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    TO_EXTERNAL,
    TO_OTHER_HOST,
    TO_OWN_HOST,
    external_flows,
    left_out,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Groups, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import (
    Listener,
    listeners,
    open_listeners,
)
from tests.pipeline import namespace, plan_of, with_gateways, workload

EVERY_PAIR = Selection(ALL)
BASE = namespace("many", primary=False) + "".join(
    "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
    f"metadata: {{name: {name}, namespace: many}}\nspec: {{topology: Layer2, layer2: {{role: Secondary, {more}}}}}\n"
    for name, more in (("flat", "subnets: [10.77.0.0/24]"), ("wire", "ipam: {mode: Disabled}"))
)


def reached(text: str, network: str) -> dict[tuple[str, str, str], bool]:
    pairs = expected(plan_of(BASE + text), None, EVERY_PAIR)
    return {(one.source, one.target, one.address): one.reach for one in pairs if one.network == network}


def test_only_those_that_select_a_network_reach_each_other_on_it() -> None:
    text = workload("many", "a", "node1", "flat") + workload("many", "b", "node2", "flat")
    assert reached(text + workload("many", "c", "node1"), "many_flat") == {
        ("many/a", "many/b", "10.77.0.2"): True,
        ("many/b", "many/a", "10.77.0.1"): True,
        ("many/c", "many/a", "10.77.0.1"): False,
        ("many/c", "many/b", "10.77.0.2"): False,
    }


def test_static_addresses_are_reached_from_their_own_subnet() -> None:
    text = "".join(
        workload("many", name, "node1", [{"name": "wire", **({"ips": [ip]} if ip else {})}])
        for name, ip in (("a", "192.0.2.1/24"), ("b", "192.0.2.2/24"), ("c", "198.51.100.3/24"), ("d", ""))
    )
    found = reached(text, "many_wire")
    to = {(source, target) for (source, target, _address), reach in found.items() if reach}
    assert to == {("many/a", "many/b"), ("many/b", "many/a")}
    # No other one has link-local addresses only, and a port with other addresses may not send from one.
    assert not [target for _source, target, _address in found if target == "many/d"]


def test_both_interfaces_of_one_network_are_asked_and_count_as_one_workload() -> None:
    text = workload("many", "a", "node1", "flat,flat") + workload("many", "b", "node2", "flat")
    assert {key[2] for key, reach in reached(text, "many_flat").items() if reach} == {
        "10.77.0.1", "10.77.0.2", "10.77.0.3",
    }  # fmt: skip
    plan = plan_of(BASE + workload("many", "a", "node1", "flat,flat"))
    assert "many_flat: one workload only, which has no peer on its network" in " ".join(
        Groups(plan, Selection()).left_out()
    )


def test_answers_leave_by_the_interface_that_was_asked() -> None:
    plan = plan_of(BASE + workload("many", "a", "node1", "flat,flat"))
    devices = {one.address: one.device for one in listeners(plan, "node1") if one.network == "many_flat"}
    assert devices == {"10.77.0.1": "net1", "10.77.0.2": "net2"}
    assert {one.device for one in listeners(plan_of(BASE + workload("many", "a", "node1", "flat")), "node1")} == {""}


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_a_listener_of_a_device_is_bound_to_it() -> None:
    name = f"t{os.getpid()}-device"
    kernel.create_namespace(name, "")
    try:
        listener = Listener("many/a", name, "many_flat", "127.0.0.1", device="lo")
        opened, problems = open_listeners([listener], 7654)
        assert problems == []
        for one in opened:
            bound = one.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
            one.close()
            assert bound.rstrip(b"\0") == b"lo"
    finally:
        kernel.remove_namespace(name)


def test_where_a_default_route_leads_elsewhere_nothing_is_claimed_and_the_report_says_so() -> None:
    chosen = [{"name": "flat", "default-route": ["10.77.0.9"]}]
    plan = plan_of(BASE + workload("many", "a", "node1", chosen), hosts=with_gateways("shared"))
    external = {"far": ["192.0.2.99", "2001:db8::99"]}
    found = external_flows(plan, external, None, EVERY_PAIR)
    kinds = (TO_EXTERNAL, TO_OWN_HOST, TO_OTHER_HOST)
    assert {(one.kind, one.family) for one in found if one.kind in kinds} == {(kind, 6) for kind in kinds}
    assert "many/a: its IPv4 default route leads out of net1, which is not tested" in left_out(plan, external)
