# SPDX-License-Identifier: Apache-2.0
"""A host that belongs to another OVN, or whose interface is a port of another bridge, is refused before any write."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis import chassis
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError

OWN_REMOTE = "unix:/var/run/ovn/ovnsb_db.sock"


def arguments() -> dict:
    provider = {
        "uplink": "lo", "bridge": "br-ex", "mode": "shared", "next_hops": [], "addresses": [], "vlan": None,
        "prober": "",
    }  # fmt: skip
    return {
        "name": "node1", "encap_ips": ["198.18.1.11"], "datapath": "system", "underlay_interface": None,
        "provider": provider, "physical_networks": {}, "owner": "heddle:chassis",
    }  # fmt: skip


def prepare(vswitch, remote: str, bridge: str) -> None:
    """Make a bridge with the port `lo`, on a host of the OVN at `remote`."""
    ids = ["map", [["ovn-remote", remote], ["system-id", "c"]]]
    vswitch.transact(
        {"op": "insert", "table": "Interface", "uuid-name": "i", "row": {"name": "lo"}},
        {"op": "insert", "table": "Port", "uuid-name": "p", "row": {"name": "lo", "interfaces": ["named-uuid", "i"]}},
        {"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": bridge, "ports": ["named-uuid", "p"]}},
        {"op": "insert", "table": "Open_vSwitch", "row": {"bridges": ["named-uuid", "b"], "external_ids": ids}},
    )


@pytest.mark.parametrize(
    ("remote", "bridge", "message"),
    [
        (
            "tcp:192.0.2.1:6642",
            "br-ex",
            "this host belongs to another OVN: external_ids:ovn-remote is tcp:192.0.2.1:6642",
        ),
        (OWN_REMOTE, "br-other", "lo is a port of the bridge br-other, which is not Heddle's"),
    ],
)
@pytest.mark.parametrize("check_mode", [True, False])
def test_a_foreign_host_is_refused_and_left_as_it_is(vswitch, monkeypatch, remote, bridge, message, check_mode):
    pytest.importorskip("pyroute2")
    prepare(vswitch, remote, bridge)
    monkeypatch.setattr(chassis, "VSWITCH_REMOTE", vswitch.remote)
    before = vswitch.dump()
    with pytest.raises(UserError, match=message):
        chassis.apply_chassis(arguments(), write=not check_mode)
    assert vswitch.dump() == before
