# SPDX-License-Identifier: Apache-2.0
"""The rules for Services in the kernel: what a process sends to a node port arrives at the cluster IP, marked."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.types.nftables_ruleset import Firewall
from tests.golden.test_host import CASES, plan_for
from tests.live.gateway.packets import UDP, Packet, decode
from tests.live.nftables.test_isolation import ip
from tests.pipeline import layer2, plan_of, with_gateways
from tests.pipeline import namespace as namespace_of

NODE = "192.0.2.11"

OUTSIDE = "198.51.100.80"


def services(mode: str) -> dict:
    case = next(case for case in CASES if case.stem == f"services-{mode}")
    return plan_for(case)


@pytest.mark.parametrize("mode", ["shared", "local"])
def test_a_node_port_leads_to_the_cluster_ip(run_nft, namespace, mode):
    plan = services(mode)
    entry = plan["services"]["red_net"]["red/web"]
    target = entry["addresses"][0]
    table = render_firewall(plan, "node1", with_prober=False)
    with kernel.in_netns(namespace("services-host")):
        assert reconcile_firewall(table, write=True, run=run_nft).changed
        assert not reconcile_firewall(table, write=True, run=run_nft).changed
        ip("link", "set", "lo", "up")
        for address in (NODE, target):
            ip("address", "add", f"{address}/32", "dev", "lo")
        # The mark of the network decides about the route; here it is a test that packets have it.
        mark = 4096 + plan["networks"]["red_net"]["id"]
        ip("rule", "add", "fwmark", str(mark), "to", target, "lookup", "77", "priority", "10")
        ip("route", "add", "local", target, "dev", "lo", "table", "77")
        with socket.create_server((target, 80)) as server, socket.create_connection((NODE, 30080), 10) as client:
            accepted, _peer = server.accept()
            with accepted:
                assert accepted.getsockname() == (target, 80)
                assert client.getpeername() == (NODE, 30080)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((NODE, 30081), 10)
        assert reconcile_firewall(Firewall(), write=True, run=run_nft).changed


@pytest.mark.parametrize("mode", ["shared", "local"])
def test_an_external_address_leads_what_comes_in_to_the_cluster_ip(run_nft, namespace, mode):
    """As from a gateway router of another network, by the provider bridge; the kernel has no such address."""
    plan = services(mode)
    service = plan["services"]["default"]["plain/web"]
    target, port = service["addresses"][0], service["ports"][0]["port"]
    masquerade, other = "169.254.0.13", "192.0.2.77"
    with kernel.in_netns(namespace("services-host")):
        table = render_firewall(plan, "node1", with_prober=False)
        assert reconcile_firewall(table, write=True, run=run_nft).changed
        ip("link", "set", "lo", "up")
        ip("link", "add", "sender", "type", "veth", "peer", "name", "receiver")
        for name in ("sender", "receiver"):
            ip("link", "set", name, "up")
        ip("address", "add", f"{target}/32", "dev", "lo")
        ip("route", "add", f"{masquerade}/32", "dev", "receiver")
        mac = kernel.read_links(None)["receiver"]["mac"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((target, port))
            server.settimeout(0.5)
            data = sender = None
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
                wire.bind(("sender", 0))
                # A link that was just made loses frames.
                for _attempt in attempts(60):
                    # Neither another address nor another port is translated; what follows shows that they are dropped.
                    for address, number in ((other, port), (OUTSIDE, port + 1), (OUTSIDE, port)):
                        text = f"{address} {number}".encode()
                        packet = Packet("0a:00:00:00:00:77", mac, masquerade, address, UDP, 4000, number, payload=text)
                        wire.send(packet.encode())
                    with contextlib.suppress(TimeoutError):
                        data, sender = server.recvfrom(2048)
                        break
        assert (data, sender) == (f"{OUTSIDE} {port}".encode(), (masquerade, 4000))


PROCESS = (
    namespace_of("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
    "spec: {type: NodePort, externalTrafficPolicy: Local, ipFamilyPolicy: RequireDualStack, "
    "ports: [{protocol: UDP, port: 53, nodePort: 30053}]}\n"
    + "".join(
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        f"metadata: {{name: {family.lower()}, namespace: red, labels: {{kubernetes.io/service-name: web}}}}\n"
        f"addressType: {family}\nports: [{{protocol: UDP, port: 5353}}]\n"
        f"endpoints: [{{addresses: ['{address}'], nodeName: node1}}]\n"
        for family, address in (("IPv4", "192.0.2.11"), ("IPv6", "2001:db8::b"))
    )
)  # fmt: skip


@pytest.mark.parametrize("mode", ["shared", "local"])
@pytest.mark.parametrize("family", [4, 6])
def test_a_process_of_the_node_sees_the_client_s_address_with_the_policy_local(run_nft, namespace, family, mode):
    plan = plan_of(PROCESS, hosts=with_gateways(mode))
    own, client = {4: ("192.0.2.11", "192.0.2.77"), 6: ("2001:db8::b", "2001:db8::77")}[family]
    with kernel.in_netns(namespace(f"process-{os.getpid()}")):
        assert reconcile_firewall(render_firewall(plan, "node1", with_prober=False), write=True, run=run_nft).changed
        ip("link", "set", "lo", "up")
        ip("link", "add", "breth1", "type", "veth", "peer", "name", "uplink")
        for name in ("breth1", "uplink"):
            ip("link", "set", name, "up")
        more = ("nodad",) if family == 6 else ()
        ip("address", "add", f"{own}/{24 if family == 4 else 64}", "dev", "breth1", *more)
        far = "0a:00:00:00:00:77"
        ip("neighbour", "add", client, "lladdr", far, "dev", "breth1")
        mac = kernel.read_links(None)["breth1"]["mac"]
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        asked = Packet(far, mac, client, own, UDP, 4000, 30053, payload=b"question")
        with (
            socket.socket(kind, socket.SOCK_DGRAM) as server,
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire,
        ):
            server.bind((own, 5353))
            server.settimeout(0.5)
            wire.bind(("uplink", 0))
            found = None
            # A link that was just made loses frames.
            for _attempt in attempts(60):
                wire.send(asked.encode())
                with contextlib.suppress(TimeoutError):
                    found = server.recvfrom(2048)
                    break
            assert found is not None
            assert (found[0], found[1][:2]) == (b"question", (client, 4000))
            server.sendto(b"answer", found[1])
            wire.settimeout(20)
            while not isinstance(answer := decode(wire.recv(2048)), Packet) or answer.payload != b"answer":
                pass
        assert (answer.source, answer.source_port, answer.target, answer.target_port) == (own, 30053, client, 4000)
