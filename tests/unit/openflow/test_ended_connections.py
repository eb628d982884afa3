# SPDX-License-Identifier: Apache-2.0
"""Connections with a removed address end, also where the run is cut off once the flows are written."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.openflow.parser import Entry
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.reconcile import reconcile_flows
from ansible_collections.heddle.ovn.plugins.module_utils.types.openflow_flow import OWN_COOKIES, Flow


class Killed(BaseException):
    """The program ends here."""


class Switch:
    """A bridge with flows, and a record of what was ended and written."""

    def __init__(self):
        self.table, self.log, self.wanted = [], [], []
        self.is_killed = False

    def set_flooding(self, *_arguments):
        """No port of the test has a setting."""

    def wait_for_ports(self, _wanted, _timeout):
        return {"br-ex": {"br-ex": "LOCAL"}}

    def canonical(self, flows, _numbers):
        self.wanted = [Entry(one.table, one.priority, one.match, one.cookie, one.actions) for one in flows]
        return self.wanted

    def flows(self, _bridge):
        return self.table

    def write_flows(self, _bridge, _lines):
        self.table = self.wanted
        self.log.append("flows")
        if self.is_killed:
            raise Killed

    def end_connections(self, _bridge, zone, source):
        self.log.append((zone, source))


def apply(switch, address):
    actions = f"ct(commit,zone=64000,nat(src={address}))"
    flow = Flow("br-ex", 0, 100, "ip,in_port=LOCAL", actions, cookie=min(OWN_COOKIES))
    return reconcile_flows(switch, ["br-ex"], [flow], write=True)


def test_connections_end_where_the_run_is_cut_off_after_the_flows():
    switch = Switch()
    apply(switch, "192.0.2.10")
    switch.log.clear()
    switch.is_killed = True
    with pytest.raises(Killed):
        apply(switch, "192.0.2.11")
    assert switch.log == [(64000, "192.0.2.10"), "flows"]


def test_connections_that_began_until_the_flows_were_written_end_too():
    switch = Switch()
    apply(switch, "192.0.2.10")
    switch.log.clear()
    assert apply(switch, "192.0.2.11").changed
    assert switch.log == [(64000, "192.0.2.10"), "flows", (64000, "192.0.2.10")]
    assert not apply(switch, "192.0.2.11").changed
