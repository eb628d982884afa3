# SPDX-License-Identifier: Apache-2.0
"""Links and addresses as plain messages are those that pyroute2 decodes."""

from __future__ import annotations

import os
import subprocess

import pytest
from pyroute2 import IPRoute

from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.kernel import read_links as read_links_of_kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.kernel import scratch
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol import fou, route_tables
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol.link_dumps import read_addresses, read_links
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol.raw_socket import RawSocket

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

COMMANDS = [
    "link set lo up",
    "link add one type veth peer name two",
    "link set one mtu 1400 up alias heddle:x",
    "link add stick type bridge",
    "link set two master stick",
    "address add 198.18.7.1/24 dev one",
    "address add 198.18.9.1 peer 198.18.9.2/32 dev one",
    "address add fd00:6864:7::1/64 dev one nodad",
    "address add fd00:6864:8::1/64 dev one nodad preferred_lft 0 noprefixroute",
    "address add 198.18.8.1/32 dev stick proto 85",
]


@pytest.fixture
def links():
    """A namespace with links of several kinds, and with each kind of address."""
    with scratch():
        for command in COMMANDS:
            done = subprocess.run(["ip", *command.split()], check=False, capture_output=True, text=True)
            # Older programs and kernels have no protocol of addresses.
            assert done.returncode == 0 or "proto" in command, done.stderr
        with RawSocket() as raw, IPRoute() as decoded:
            yield raw, decoded


def test_links_are_those_that_pyroute2_reads(links):
    raw, decoded = links
    expected = {}
    for message in decoded.get_links():
        made = message.get_attr("IFLA_LINKINFO")
        expected[message.get_attr("IFLA_IFNAME")] = (
            message["index"], message["ifi_type"], bool(message["flags"] & 1), message.get_attr("IFLA_ADDRESS"),
            message.get_attr("IFLA_MTU"), message.get_attr("IFLA_IFALIAS") or "",
            (made.get_attr("IFLA_INFO_KIND") if made else "") or "", message.get_attr("IFLA_MASTER") or 0,
        )  # fmt: skip
    found = {
        link.name: (link.index, link.type, link.up, link.mac, link.mtu, link.alias, link.kind, link.master)
        for link in read_links(raw)
    }
    assert found == expected
    assert found["one"][4:] == (1400, "heddle:x", "veth", 0)
    assert found["two"][7] == found["stick"][0]


def test_addresses_are_those_that_pyroute2_reads(links):
    raw, decoded = links
    expected = sorted(
        (
            message["index"],
            f"{message.get_attr('IFA_LOCAL') or message.get_attr('IFA_ADDRESS')}/{message['prefixlen']}",
            message.get_attr("IFA_FLAGS") or message["flags"], message["scope"],
        )
        for message in decoded.get_addr()
    )  # fmt: skip
    found = read_addresses(raw)
    assert sorted((one.index, one.text, one.flags, one.scope) for one in found) == expected
    assert "198.18.9.1/32" in {one.text for one in found}


def test_marks_of_addresses_are_read(links):
    with HostKernel() as kernel:
        kernel.add_address("stick", "198.18.8.2/32", deprecated=True, prefix_route=False)
        state = kernel.read()
    address = state.addresses["stick", "198.18.8.2/32"]
    assert (address.own, address.deprecated, address.prefix_route) == (True, True, False)
    assert not state.addresses["one", "198.18.7.1/24"].own
    assert state.links["two"].master == "stick"


def test_names_and_aliases_may_have_any_bytes(links):
    """The kernel takes them; one link of a host must not keep all others from being read, nor their output."""
    raw, _decoded = links
    for command in (
        [b"link", b"add", b"x\xff", b"type", b"veth", b"peer", b"name", b"three"],
        [b"link", b"set", b"lo", b"alias", b"caf\xe9"],
        [b"link", b"add", b"t\xff", b"type", b"ipip", b"local", b"192.0.2.1", b"remote", b"192.0.2.2"],
        [b"rule", b"add", b"iif", b"x\xff", b"table", b"7", b"protocol", b"85"],
    ):
        done = subprocess.run([b"ip", *command], check=False, capture_output=True)
        assert done.returncode == 0 or b"ipip" in command, done.stderr
    found = {link.name: link.alias for link in read_links(raw)}
    assert (found["lo"], found["x\\xff"]) == ("caf\\xe9", "")
    assert read_links_of_kernel(None).keys() == found.keys()
    assert {one.name for one in fou.read_tunnels().values()} <= {"t\\xff", "tunl0"}
    assert [rule.iif for rule in route_tables.read_rules(85)] == ["x\\xff"]
    with HostKernel() as kernel:
        assert kernel.read().links.keys() == found.keys()
    "".join(found).encode()
