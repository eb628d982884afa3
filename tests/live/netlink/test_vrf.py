# SPDX-License-Identifier: Apache-2.0
"""A host's VRFs, on a kernel that has them."""

import os
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel, vrf_supported
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import planned_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import (  # fmt: skip
    HostAddress,
    HostLink,
    HostNetwork,
    HostRoute,
    Neighbour,
    Rule,
    Sysctl,
    Vrf,
)
from tests.live.netlink.conftest import MAC, apply, ip, make_port, size, snapshot

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

WITH_VRF = HostNetwork(
    links=(HostLink("mp1", mac=MAC, mtu=1400, vrf="mp1-udn-vrf", network="red"),),
    vrfs=(Vrf("mp1-udn-vrf", "mp1", "red"),),
    addresses=(
        HostAddress("mp1", "10.100.0.2/24", network="red"),
        HostAddress("mp1", "fd00:100::2/64", network="red"),
    ),
    routes=(
        HostRoute("10.96.0.0/16", "192.0.2.4", "br-ex", mtu=1400, vrf="mp1-udn-vrf", network="red"),
        HostRoute("10.128.0.0/14", "10.100.0.1", "mp1", vrf="mp1-udn-vrf", network="red"),
        HostRoute("fd00:128::/48", "fd00:100::1", "mp1", vrf="mp1-udn-vrf", network="red"),
        HostRoute("169.254.0.13/32", device="mp1", vrf="mp1-udn-vrf", network="red"),
        HostRoute("0.0.0.0/0", kind="unreachable", metric=4278198272, vrf="mp1-udn-vrf", network="red"),
        HostRoute("::/0", kind="unreachable", metric=4278198272, vrf="mp1-udn-vrf", network="red"),
    ),
    rules=(
        Rule(4, "mp1-udn-vrf", fwmark=0x1003, network="red"),
        Rule(6, "mp1-udn-vrf", to="fd69::d/128", network="red"),
    ),
    neighbours=(Neighbour("mp1", "10.100.0.1", "0a:58:64:41:00:01", "red"),),
    sysctls=(Sysctl("net/ipv4/conf/mp1/rp_filter", "2", network="red"),),
)  # fmt: skip


@pytest.fixture(scope="session")
def vrf():
    if not vrf_supported():
        pytest.skip("this kernel has no VRF; the virtual machines of the lab have")


def test_vrf_create_recognise_remove(vrf, host):
    before = snapshot()
    checked = apply(WITH_VRF, write=False)
    assert snapshot() == before
    assert apply(WITH_VRF).changes == checked.changes
    table = str(HostKernel().read().links["mp1"].index + 1000)
    assert f"vrf table {table}" in ip("-details", "link", "show", "mp1-udn-vrf")
    assert "unreachable default" in ip("route", "show", "table", table)
    assert "master mp1-udn-vrf" in ip("link", "show", "mp1")
    assert not apply(WITH_VRF).changed
    assert apply().changed
    assert "mp1-udn-vrf" not in snapshot()
    assert "lookup 10" not in ip("rule")
    assert not apply().changed


def test_a_link_that_is_enslaved_later_keeps_its_addresses_and_routes(vrf, host):
    apply(replace(WITH_VRF, vrfs=(), routes=(), rules=(), links=(HostLink("mp1", mac=MAC, mtu=1400),)))
    apply(WITH_VRF)
    assert "fd00:100::2/64" in ip("address", "show", "dev", "mp1")
    assert not apply(WITH_VRF).changed
    ip("link", "set", "mp1", "nomaster")
    assert apply(WITH_VRF).changed
    assert not apply(WITH_VRF).changed


def test_recreated_port_is_enslaved_again(vrf, host):
    apply(WITH_VRF)
    ip("link", "del", "mp1")
    make_port("mp1")
    assert "delete" in {change.action for change in apply(WITH_VRF).changes}
    assert not apply(WITH_VRF).changed


def test_unmarked_vrf_of_a_cut_off_run_is_adopted_and_a_foreign_one_is_not(vrf, host):
    index = HostKernel().read().links["mp1"].index
    ip("link", "add", "mp1-udn-vrf", "type", "vrf", "table", str(index + 1000))
    apply(WITH_VRF)
    assert not apply(WITH_VRF).changed
    apply()
    ip("link", "add", "mp1-udn-vrf", "type", "vrf", "table", "77")
    assert "not Heddle's" in dict(apply(WITH_VRF).refused)["red"]
    assert [item.kind for item in apply().foreign] == ["VRF"]


def test_a_host_without_the_libraries_gets_the_same_list_in_check_mode(host):
    planned = planned_host_network(replace(WITH_VRF, sysctls=()))
    assert {change.action for change in planned.changes} == {"create", "update"}
    assert len(planned.changes) == size(WITH_VRF) + 1


def test_rules_name_vrfs_of_others_only(vrf, host):
    """By the table of a network, packets of another one would get into it."""
    ip("link", "add", "partners", "type", "vrf", "table", "4711")
    ip("link", "set", "partners", "up")
    make_port("eth9")
    ip("link", "set", "eth9", "master", "partners")
    apply(WITH_VRF)
    table = str(HostKernel().read().links["mp1-udn-vrf"].table)
    named = [Rule(4, "", source=f"10.100.0.{end}/32", table=text, priority=5000)
             for end, text in enumerate(("partners", "mp1-udn-vrf", table), start=3)]  # fmt: skip
    outcome = apply(replace(WITH_VRF, rules=(*WITH_VRF.rules, *named)))
    assert [change.name for change in outcome.changes if change.kind == "rule"] == [
        "IPv4 5000 from 10.100.0.3/32 table 4711"
    ]
    assert len(outcome.notes) == 2
    assert HostKernel().read_sysctl("net/ipv4/conf/eth9/forwarding") == "1"
    assert not apply(replace(WITH_VRF, rules=(*WITH_VRF.rules, *named))).changed
