# SPDX-License-Identifier: Apache-2.0
"""A frame that is handed to one port goes out of that port and no other, whatever the flows say."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.packet_out import send_out
from tests.live.conftest import wait_for
from tests.live.gateway.packets import read_capture

FRAME = bytes.fromhex("ffffffffffff" + "0a5864410002" + "88b5") + b"announced".ljust(46, b"\0")


def test_a_frame_goes_out_of_one_port_without_asking_flows(vswitchd, folder):
    for name in ("vm0_h", "vm1_h"):
        pcap = folder / f"{name}.pcap"
        vswitchd.vsctl("add-port", "br-ex", name, "--", "set", "Interface", name, f'options:tx_pcap="{pcap}"')
    vswitchd.ofctl("add-flow", "br-ex", "priority=100,actions=drop")
    send_out("br-ex", "vm0_h", FRAME, run=vswitchd.run)
    wait_for(lambda: read_capture(folder / "vm0_h.pcap") == [FRAME], "the frame")
    assert read_capture(folder / "vm1_h.pcap") == []


def test_a_port_that_is_not_there_is_an_error(vswitchd):
    with pytest.raises(ProgramError, match="gone_h"):
        send_out("br-ex", "gone_h", FRAME, run=vswitchd.run)
