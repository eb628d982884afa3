# SPDX-License-Identifier: Apache-2.0
"""Frames of gateways, which have one MAC address on all hosts: they stay on their host."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.mesh.forwarding import Gateway, Key, Tunnel
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.peers import vni
from tests.unit.mesh.simulation import BROADCAST, Hosts, Mesh
from tests.unit.mesh.test_datapath import NETWORK, PORT_A, PORT_B, A, B, Bridge

MAC = "0a:58:0a:00:00:01"


def hosts(without=()):
    """Three hosts, all connected; those of `without` are no gateways."""
    mesh = Mesh(3, Random(1))
    names = list(mesh.peers)
    for one, other in combinations(names, 2):
        mesh.connect(one, other)
    mesh.spread()
    net = Hosts(mesh)
    for number, name in enumerate(names):
        net.bridges[name].set_gateway(Gateway(MAC, "" if number in without else "gateway"))
        net.bridges[name].set_ports({"port": net.mac(number), "second": second(number)})
    return net, names


def second(number):
    return f"0a:00:00:00:01:{number:02x}"


def ports(net, name, source, destination, port="port"):
    decision = net.bridges[name].decide(Key(port, None, source, destination), 0)
    return decision.ports, decision.tunnels, decision.flow


def test_workload_reaches_the_gateway_of_its_own_host_by_a_flow():
    net, names = hosts()
    for number, name in enumerate(names):
        assert ports(net, name, net.mac(number), MAC) == (("gateway",), (), True)


def test_broadcast_reaches_the_gateway_of_its_own_host_only():
    net, names = hosts()
    found, tunnels, _flow = ports(net, names[0], net.mac(0), BROADCAST)
    assert found == ("gateway", "second")
    assert len(tunnels) == 2
    # Two ports at each of the others, and none of them a gateway.
    assert net.send(names[0], net.mac(0), BROADCAST) == {names[0]: 2, names[1]: 2, names[2]: 2}


def test_gateway_sends_to_workloads_of_its_host_only():
    net, names = hosts()
    assert ports(net, names[0], MAC, BROADCAST, "gateway") == (("port", "second"), (), True)
    # Before the workload has sent anything.
    assert ports(net, names[0], MAC, net.mac(0), "gateway") == (("port", "second"), (), False)
    net.send(names[0], net.mac(0), MAC)
    assert ports(net, names[0], MAC, net.mac(0), "gateway") == (("port",), (), True)
    net.send(names[1], net.mac(1), BROADCAST)
    assert ports(net, names[0], MAC, net.mac(1), "gateway") == ((), (), True)


def test_no_other_port_has_the_address_of_the_gateway():
    net, names = hosts()
    assert ports(net, names[0], MAC, BROADCAST) == ((), (), True)
    assert ports(net, names[0], net.mac(0), BROADCAST, "gateway") == ((), (), True)
    ids = [net.mesh.peers[name].short_id(name) for name in names]
    tunnel = Tunnel(vni(ids[1], ids[0]), net.address(names[1]), net.address(names[0]))
    for source, destination in ((MAC, net.mac(0)), (net.mac(1), MAC)):
        decision = net.bridges[names[0]].decide(Key(None, tunnel, source, destination), 0)
        assert (decision.ports, decision.tunnels) == ((), ())
        assert "address of the gateway" in decision.reason
    assert net.bridges[names[0]].where(MAC) is None


def test_host_that_is_no_gateway_carries_the_network():
    net, names = hosts(without=[0])
    assert ports(net, names[0], net.mac(0), MAC) == ((), (), True)
    assert net.send(names[0], net.mac(0), BROADCAST) == {names[0]: 1, names[1]: 2, names[2]: 2}
    assert net.send(names[1], net.mac(1), net.mac(0)) == {names[0]: 1}


@pytest.mark.parametrize("gateway", [Gateway(MAC, ""), Gateway(MAC, "other"), None])
def test_change_of_the_gateway_makes_flows_wrong(gateway):
    net, names = hosts()
    before = net.bridges[names[0]].generation
    net.bridges[names[0]].set_gateway(Gateway(MAC, "gateway"))
    assert net.bridges[names[0]].generation == before
    net.bridges[names[0]].set_gateway(gateway)
    assert net.bridges[names[0]].generation > before


def test_bridge_forwards_between_workload_and_gateway():
    bridge, gateway = Bridge(), 7
    bridge.datapath.set_networks({NETWORK: {"a": A, "b": B}}, {NETWORK: Gateway(MAC, "gate")})
    bridge.ports(**{"heddle-vxlan": 1, "a": PORT_A, "b": PORT_B, "gate": gateway})
    assert gateway in {
        one.match["in_port"] for one in bridge.take() if one.match is not None and "in_port" in one.match
    }
    made, sent = bridge.frame(A, MAC, port=PORT_A)
    assert [one.port for one in sent.actions] == [gateway]
    made, sent = bridge.frame(MAC, A, port=gateway)
    assert (made.match["in_port"], [one.port for one in sent.actions]) == (gateway, [PORT_A])
