# SPDX-License-Identifier: Apache-2.0
"""A bridge of the mesh with more ports than one OpenFlow message describes: 65,535 bytes, 64 for each port."""

from __future__ import annotations

import asyncio
import random

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import MESH_BRIDGE, MESH_TUNNELS
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.gossip import Gossip
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.datapath import Datapath
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.switch import open_switch, parser
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.management_connection import management_socket

NETWORK, WORKLOADS, SECONDS = 7, 1500, 600


def test_the_daemon_of_the_mesh_knows_all_ports(vswitchd):
    ports = {f"w{number}": f"0a:00:00:00:{number >> 8:02x}:{number & 0xFF:02x}" for number in range(WORKLOADS)}
    vswitchd.vsctl("add-br", MESH_BRIDGE, *(word for name in [MESH_TUNNELS, *ports]
                                            for word in ("--", "add-port", MESH_BRIDGE, name)))  # fmt: skip
    sent = []
    own = Gossip("02:00:00:00:00:01", 1, random.Random(1))
    datapath = Datapath(own, "192.0.2.1", lambda *messages: sent.extend(messages), None, None, 0)
    datapath.set_networks({NETWORK: ports}, {})

    async def follow() -> int:
        switch = await open_switch(management_socket(MESH_BRIDGE))
        datapath.restarted()
        parts = 0
        while True:
            message = await switch.read()
            datapath.received(message, 0)
            if isinstance(message, parser.OFPPortDescStatsReply):
                parts += 1
                if not message.flags:
                    switch.close()
                    return parts

    assert asyncio.run(asyncio.wait_for(follow(), SECONDS)) == 2
    assert datapath.is_ready
    flows = [one for one in sent if isinstance(one, parser.OFPFlowMod) and one.match is not None]
    assert len({one.match["in_port"] for one in flows if "in_port" in one.match}) == WORKLOADS
