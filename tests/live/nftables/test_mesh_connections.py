# SPDX-License-Identifier: Apache-2.0
"""Connections of a removed MeshNetwork end: what answers them reaches no other network that gets its id.

Workloads, the host and an external host are network namespaces; the table is the one that is rendered for the host.
This kernel may have no VRFs: a rule by the mark of a network leads replies to its port, as its VRF does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol import conntrack
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from tests.live.nftables.test_isolation import ip
from tests.pipeline import namespace as space
from tests.pipeline import plan_of, with_gateways, workload

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

PREFIX = f"mc{os.getpid()}-"
# Of the host, and of what it sends to.
NODE, OUTSIDE = ("192.0.2.11", "2001:db8::11"), ("192.0.2.77", "2001:db8::77")
GATEWAY, WORKLOAD = ("10.9.0.1", "fd00:10:9::1"), ("10.9.0.2", "fd00:10:9::2")
LENGTHS = (24, 64)
PORT, OUTER_PORT = 4000, 4001


def mesh(name: str) -> str:
    """A tenant with a primary MeshNetwork and a workload; all have the same subnets."""
    return (
        space(name)
        + f"---\napiVersion: heddle.dev/v1\nkind: MeshNetwork\nmetadata: {{name: net, namespace: {name}}}\n"
        + 'spec: {role: Primary, subnets: [10.9.0.0/24, "fd00:10:9::/64"]}\n'
        + workload(name, "a", "node1")
    )


def plan_for(*tenants: str) -> dict:
    return plan_of("".join(map(mesh, tenants)) or space("empty"), hosts=with_gateways("shared", vrf=True))


class Scene:
    """A host that forwards, and an external host."""

    def __init__(self, namespace, run_nft) -> None:
        self._namespace, self._run = namespace, run_nft
        self.host, self.outside = namespace(f"{PREFIX}host"), namespace(f"{PREFIX}outside")
        with kernel.in_netns(self.host):
            for setting in ("ipv4/conf/all/forwarding", "ipv6/conf/all/forwarding"):
                Path(f"/proc/sys/net/{setting}").write_text("1")
        self._link("breth1", NODE, self.outside, OUTSIDE)

    def _link(self, device: str, own: tuple[str, str], other: str, address: tuple[str, str]) -> None:
        with kernel.in_netns(self.host):
            ip("link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", other)
        for name, link, texts in ((self.host, device, own), (other, "eth0", address)):
            with kernel.in_netns(name):
                ip("link", "set", link, "up")
                for text, length in zip(texts, LENGTHS, strict=True):
                    ip("address", "add", f"{text}/{length}", "dev", link, *(["nodad"] if ":" in text else []))

    def attach(self, plan: dict, tenant: str) -> str:
        """Make the port of a tenant's network and its workload; return the namespace of the latter."""
        number, name = plan["networks"][f"{tenant}_net"]["id"], self._namespace(f"{PREFIX}{tenant}")
        device, table = f"ovn-k8s-mp{number}", str(1000 + number)
        self._link(device, GATEWAY, name, WORKLOAD)
        with kernel.in_netns(self.host):
            for version, subnet in (("-4", "10.9.0.0/24"), ("-6", "fd00:10:9::/64")):
                ip(version, "route", "replace", subnet, "dev", device, "table", table)
                ip(version, "rule", "add", "fwmark", str(4096 + number), "lookup", table, "priority", str(number))
        with kernel.in_netns(name):
            for text in GATEWAY:
                ip("route", "add", "default", "via", text)
        return name

    def detach(self, plan: dict, tenant: str) -> None:
        """Remove the port of a tenant's network, with the rules that lead to it."""
        number = plan["networks"][f"{tenant}_net"]["id"]
        with kernel.in_netns(self.host):
            ip("link", "delete", f"ovn-k8s-mp{number}")
            for version in ("-4", "-6"):
                ip(version, "rule", "delete", "priority", str(number))

    def load(self, plan: dict):
        with kernel.in_netns(self.host):
            return reconcile_firewall(render_firewall(plan, "node1", with_prober=False), write=True, run=self._run)


@pytest.fixture
def scene(namespace, run_nft):
    made = Scene(namespace, run_nft)
    try:
        made.load(plan_for("red", "green"))
    except ProgramError as error:
        pytest.skip(f"this kernel has no nf_tables: {error}")
    return made


@contextlib.contextmanager
def bound(name: str, address: str, port: int):
    """A UDP socket in a namespace."""
    with kernel.in_netns(name):
        opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    with opened:
        opened.settimeout(20)
        opened.bind((address, port))
        yield opened


def cut_off(run):
    """Return a `run` that ends like a killed program once it has replaced the table."""

    def cut(argv, text):
        output = run(argv, text)
        if "delete table" in text:
            raise KeyboardInterrupt
        return output

    return cut


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("version", [4, 6])
def test_connections_of_a_removed_network_end_and_no_others(scene, version, cut, monkeypatch):
    which = version == 6
    former = plan_for("red", "green")
    there = {tenant: scene.attach(former, tenant) for tenant in ("red", "green")}
    with contextlib.ExitStack() as stack:
        outer = stack.enter_context(bound(scene.outside, OUTSIDE[which], OUTER_PORT))
        own = stack.enter_context(bound(scene.host, NODE[which], PORT + 1))
        inner = {name: stack.enter_context(bound(where, WORKLOAD[which], PORT)) for name, where in there.items()}
        known = {}
        for name, opened in {**inner, "host": own}.items():
            opened.sendto(name.encode(), (OUTSIDE[which], OUTER_PORT))
            data, known[name] = outer.recvfrom(99)
            assert (data.decode(), known[name][0]) == (name, NODE[which])
            outer.sendto(b"answer", known[name])
            assert opened.recv(99) == b"answer"

        # The network of red goes, and another one gets its id.
        scene.detach(former, "red")
        if cut:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(scene, "_run", cut_off(scene._run))
                scene.load(remaining(former, "red"))
        assert scene.load(remaining(former, "red")).notes == ()
        later = renamed(former, "red", "blue")
        inner["red"].close()
        blue = stack.enter_context(bound(scene.attach(later, "blue"), WORKLOAD[which], PORT))
        scene.load(later)

        for name, opened in (("green", inner["green"]), ("host", own)):
            outer.sendto(b"more", known[name])
            assert opened.recv(99) == b"more"
        outer.connect(known["red"])
        outer.send(b"for red")
        # The host has no such connection any more.
        with pytest.raises(ConnectionRefusedError):
            outer.recv(99)
        blue.setblocking(False)
        with pytest.raises(BlockingIOError):
            blue.recv(99)


def test_a_kernel_that_does_not_end_connections_is_reported(scene, monkeypatch):
    def refused(zones):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(conntrack, "end_connections", refused)
    plan = plan_for("red", "green")
    zone = 57344 + plan["networks"]["red_net"]["id"]
    (note,) = scene.load(remaining(plan, "red")).notes
    assert note.startswith(f"connections in the zones {zone} remain")
    # Without zones that go, nothing is ended.
    assert scene.load(plan).notes == ()


def remaining(plan: dict, tenant: str) -> dict:
    """The plan without a tenant; ids of other networks stay."""
    networks = {name: one for name, one in plan["networks"].items() if name != f"{tenant}_net"}
    workloads = {name: one for name, one in plan["workloads"].items() if name != f"{tenant}/a"}
    return {**plan, "networks": networks, "workloads": workloads}


def renamed(plan: dict, tenant: str, other: str) -> dict:
    """The plan with another tenant, whose network has the id of the former one's."""
    left = remaining(plan, tenant)
    network, member = plan["networks"][f"{tenant}_net"], plan["workloads"][f"{tenant}/a"]
    interfaces = [
        {**one, "network": f"{other}_net"} if one["network"] == f"{tenant}_net" else one for one in member["interfaces"]
    ]
    return {
        **left,
        "networks": {**left["networks"], f"{other}_net": network},
        "workloads": {**left["workloads"], f"{other}/a": {**member, "interfaces": interfaces}},
    }
