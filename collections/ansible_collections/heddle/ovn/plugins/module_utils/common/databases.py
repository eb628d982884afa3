# SPDX-License-Identifier: Apache-2.0
"""The OVSDB databases that Heddle uses: their names in the schema, and where their servers listen on a host.

The sockets of OVN and Open vSwitch are those of ovn-ctl(8) and ovs-ctl(8). `ovsdb/protocol/remotes.py` reads other
remotes.
"""

from __future__ import annotations

OVN_NORTHBOUND, OVN_SOUTHBOUND, OPEN_VSWITCH, HEDDLE = "OVN_Northbound", "OVN_Southbound", "Open_vSwitch", "Heddle"

NORTHBOUND_REMOTE = "unix:/var/run/ovn/ovnnb_db.sock"
SOUTHBOUND_REMOTE = "unix:/var/run/ovn/ovnsb_db.sock"
VSWITCH_REMOTE = "unix:/var/run/openvswitch/db.sock"
STATE_REMOTE = "unix:/run/heddle-state/heddle.sock"
