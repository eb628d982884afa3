# SPDX-License-Identifier: Apache-2.0
"""The bridges of a chassis: mappings, uplinks, VLANs."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import render_integration_bridge

PROVIDER = {"name": "br-ex", "uplink": "eth2", "mac": "02:00:00:00:00:01", "vlan": 7,
            "physical_networks": ["physnet", "factory"]}  # fmt: skip
APART = {"name": "br-apart", "uplink": None, "mac": None, "vlan": None, "physical_networks": ["apart"]}
HOST = {"name": "node1", "encap_ips": ["198.18.1.1", "198.18.1.2"], "encapsulation": "geneve", "datapath": "system"}


def rows(*bridges: dict) -> dict:
    found = render_integration_bridge({**HOST, "bridges": list(bridges)})
    return {(row.table, row.key): row for row in found}


def test_every_physical_network_is_mapped_to_its_bridge():
    settings = rows(PROVIDER, APART)["Open_vSwitch", "host"].columns["external_ids"].values
    assert settings["ovn-bridge-mappings"] == "physnet:br-ex,factory:br-ex,apart:br-apart"
    assert settings["ovn-encap-ip"] == "198.18.1.1,198.18.1.2"


def test_mapping_is_removed_without_physical_networks():
    assert rows()["Open_vSwitch", "host"].columns["external_ids"].values["ovn-bridge-mappings"] is None


def test_bridge_has_the_mac_of_its_uplink():
    found = rows(PROVIDER, APART)
    assert found["Bridge", "br-ex"].columns["other_config"].values == {"hwaddr": "02:00:00:00:00:01"}
    assert found["Bridge", "br-ex"].columns["fail_mode"] == "standalone"
    assert found["Port", "eth2"].parent.key == "br-ex"
    assert "other_config" not in found["Bridge", "br-apart"].columns


def test_provider_vlan_on_bridge_and_trunk_on_uplink():
    found = rows(PROVIDER)
    assert found["Port", "br-ex"].columns["tag"] == 7
    assert "tag" not in found["Port", "eth2"].columns
