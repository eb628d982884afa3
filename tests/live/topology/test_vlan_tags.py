# SPDX-License-Identifier: Apache-2.0
"""Frames of a network with a VLAN are never untagged on the physical network, not for the moment of its creation."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.live.conftest import stop, wait_for
from tests.live.topology.zone import Zone
from tests.pipeline import namespace, with_gateways, workload

LOCALNET = """---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: plant}
spec:
  namespaceSelector: {}
  network:
    topology: Localnet
    localnet:
      role: Secondary
      physicalNetworkName: physnet
      subnets: [10.55.0.0/24]
      vlan: {mode: Access, access: {id: 30}}
"""
VLAN_OF_PROVIDER = 100


@pytest.fixture
def seen(tools, folder, southbound):
    """A function that returns the tags that each port has had in the Southbound, in order."""
    log = folder / "port-bindings.json"
    # Of all tables, since Port_Binding is empty at first, and then it would not be seen when it has begun.
    argv = tools.command("ovsdb-client", "--format=json", "monitor", southbound.remote, "OVN_Southbound", "ALL")
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output)

    def tags() -> dict[str, list]:
        found: dict[str, list] = {}
        for line in log.read_text().splitlines():
            table = json.loads(line) if line.endswith("}") else {}
            if "tag" not in table.get("headings", ()):
                continue
            for row in (dict(zip(table["headings"], one, strict=True)) for one in table["data"]):
                if row["action"] in ("insert", "new") and row["type"] == "localnet":
                    found.setdefault(row["logical_port"], []).append(row["tag"])
        return found

    wait_for(lambda: log.stat().st_size, "the first rows", process)
    yield tags
    stop(process)


def test_a_port_has_its_tag_from_the_beginning(tools, northbound, southbound, northd, seen):
    manifests = namespace("many", primary=False) + LOCALNET + workload("many", "a", "node1", "plant")
    zone = Zone(tools, northbound, southbound, manifests, with_gateways("shared", vlan=VLAN_OF_PROVIDER))
    wait_for(lambda: len(seen()) == 2, "the ports of both networks")
    expected = {name: [30 if "plant" in name else VLAN_OF_PROVIDER] for name in seen()}
    assert seen() == expected

    # The provider network without its VLAN.
    zone.hosts = with_gateways("shared")
    zone.apply(manifests)
    expected = {name: [30] if "plant" in name else [VLAN_OF_PROVIDER, ["set", []]] for name in seen()}
    wait_for(lambda: seen() == expected, f"tags as in {expected}")
    assert not zone.apply(manifests).changed
