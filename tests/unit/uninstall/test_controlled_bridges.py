# SPDX-License-Identifier: Apache-2.0
"""Flows are looked for on other bridges than those of controllers, which disappear while Heddle is removed."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import INTEGRATION_BRIDGE, MESH_BRIDGE
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall import network


def test_flows_of_controllers_are_left_alone(monkeypatch):
    skipped = set()

    class Switch:
        def __init__(self, client):
            pass

        def bridges_with(self, cookies, *, without):
            skipped.update(without)
            return set()

    monkeypatch.setattr(network, "Switch", Switch)
    monkeypatch.setattr(network, "_own_bridges", lambda client: {"br-ex": ""})
    assert not network._remove_flows(None, write=True).changed
    assert skipped == {INTEGRATION_BRIDGE, MESH_BRIDGE, "br-ex"}
