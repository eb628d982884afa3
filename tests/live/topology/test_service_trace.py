# SPDX-License-Identifier: Apache-2.0
"""What ovn-northd makes of Services: each protocol reaches an endpoint, and no other network has the cluster IP."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch, node_switch
from tests.live.conftest import wait_for
from tests.live.topology.test_external import make_zone
from tests.pipeline import layer2, layer3, namespace, with_gateways, workload

TRANSPORT = {"TCP": "tcp.src == 4000 && tcp.dst == 80", "UDP": "udp.src == 4000 && udp.dst == 80",
             "SCTP": "sctp.src == 4000 && sctp.dst == 80"}  # fmt: skip
# The connection is new, and what endpoint is chosen does not matter: there is one.
NEW = ("--ct=new", "--ct=new", "--ct=new")
SWITCHES = {"two": layer2_switch("two_net"), "three": node_switch("three_net", "node1"), "plain": "node1"}
GATEWAYS = {"two": "0a:58:0a:32:00:01", "three": "0a:58:0a:32:00:01", "plain": "0a:58:0a:f4:00:01"}


def service(where: str) -> str:
    ports = ", ".join(f"{{name: {name.lower()}, protocol: {name}, port: 80, targetPort: 8080}}" for name in TRANSPORT)
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {where}}}\n"
        f"spec: {{selector: {{app: web}}, ports: [{ports}]}}\n"
    )


MANIFESTS = "".join(
    [
        namespace("two") + layer2("two", "net", "10.50.0.0/16"),
        namespace("three") + layer3("three", "net", "10.50.0.0/16", 24),
        namespace("plain", primary=False),
        *(workload(where, "a", "node1") for where in SWITCHES),
        *(
            workload(where, "b", "node1").replace(f": {where}}}", f": {where}, labels: {{app: web}}}}")
            for where in SWITCHES
        ),
        *(service(where) for where in SWITCHES),
    ]
)  # fmt: skip


@pytest.fixture(name="zone")
def _zone(tools, northbound, southbound, northd):
    found = make_zone(tools, northbound, southbound, with_gateways("shared"))
    found.apply(MANIFESTS)
    return found


def primary(zone, name: str) -> dict:
    return zone.plan["workloads"][name]["interfaces"][-1]


def cluster_ip(zone, where: str) -> str:
    network = primary(zone, f"{where}/a")["network"]
    return zone.plan["services"][network][f"{where}/web"]["addresses"][0]


@pytest.mark.parametrize("protocol", TRANSPORT)
@pytest.mark.parametrize("where", SWITCHES)
def test_cluster_ip(zone, where, protocol):
    own, endpoint = primary(zone, f"{where}/a"), primary(zone, f"{where}/b")
    way = SWITCHES[where], own["port"], own
    seen = zone.trace(*way, cluster_ip(zone, where), GATEWAYS[where], transport=TRANSPORT[protocol], options=NEW)
    assert f'output("{endpoint["port"]}")' in seen, seen
    for other in SWITCHES:
        if other != where:
            seen = zone.trace(
                *way, cluster_ip(zone, other), GATEWAYS[where], transport=TRANSPORT[protocol], options=NEW
            )
            assert f'output("{primary(zone, f"{other}/b")["port"]}")' not in seen, seen
            assert f'output("{endpoint["port"]}")' not in seen, seen


def test_an_endpoint_changes_one_row_for_each_protocol(zone):
    unready = MANIFESTS.replace("labels: {app: web}}\nspec: {", "labels: {app: web}}\nspec: {ready: false, ", 1)
    changes = zone.apply(unready).changes
    assert [(change.action, change.kind) for change in changes] == [("update", "Load_Balancer")] * len(TRANSPORT)
    assert {change.network for change in changes} == {"two_net"}
    assert len(zone.apply(MANIFESTS).changes) == len(TRANSPORT)


def test_deleted_rows_are_restored_and_foreign_ones_stay(zone):
    before = {table: zone.northbound.rows(table) for table in ("Load_Balancer", "Load_Balancer_Group")}
    foreign = {"name": "foreign", "vips": ["map", [["198.51.100.9:80", "198.51.100.10:80"]]]}
    zone.northbound.transact(
        {"op": "delete", "table": "Load_Balancer", "where": [["protocol", "==", "tcp"]]},
        {"op": "insert", "table": "Load_Balancer", "row": foreign, "uuid-name": "foreign"},
        {"op": "mutate", "table": "Load_Balancer_Group", "where": [],
         "mutations": [["load_balancer", "insert", ["set", [["named-uuid", "foreign"]]]]]},
    )  # fmt: skip
    # ovn-northd fails on a row that is deleted and inserted with the same uuid in one iteration (docs/services.md).
    names = {row["name"] for row in before["Load_Balancer"] if row["protocol"] == "tcp"}
    copies = zone.southbound.rows
    wait_for(lambda: not names & {row["name"] for row in copies("Load_Balancer", "name")}, "the deletion")
    assert zone.apply(MANIFESTS).changed
    assert not zone.apply(MANIFESTS).changed
    after = zone.northbound.rows("Load_Balancer")
    assert [row for row in after if row["name"] != "foreign"] == before["Load_Balancer"]
    (own,) = [row["_uuid"] for row in after if row["name"] == "foreign"]
    assert all(own in row["load_balancer"][1] for row in zone.northbound.rows("Load_Balancer_Group"))
