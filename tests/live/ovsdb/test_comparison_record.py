# SPDX-License-Identifier: Apache-2.0
"""A recorded comparison saves the next one its work, and hides no drift, on a real ovsdb-server."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import topology
from ansible_collections.heddle.ovn.plugins.module_utils.agent.comparison_record import ComparisonRecord
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.trace import replies_equal
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import Announcement
from tests.live.conftest import stop
from tests.pipeline import layer2, layer3, namespace, plan_of, with_gateways, workload

OWNER = "t:topology"
MANIFESTS = "".join(
    [
        *(namespace("red"), layer2("red", "net", "10.140.0.0/16"), workload("red", "w", "node1")),
        *(namespace("blue"), layer3("blue", "net", "10.141.0.0/16", 24), workload("blue", "w", "node1")),
    ]
)
ROUTER = ["name", "==", "GR_red_net_node1"]
SWITCH = ["name", "==", "red_net_ovn_layer2_switch"]


class Node:
    """node1's Northbound, applied as the module `zone` does; `rendered` counts how often that needed the rows."""

    def __init__(self, northbound, path, monkeypatch) -> None:
        self.northbound, self.path, self.rendered = northbound, path, 0
        self.plan = plan_of(MANIFESTS, hosts=with_gateways("shared"))
        render = topology.render_northbound

        def counted(plan, node):
            self.rendered += 1
            return render(plan, node)

        monkeypatch.setattr(topology, "render_northbound", counted)

    def apply(self, *, sources: str = "this", recorded: bool = True) -> tuple[int, bool]:
        """Return the number of changes, and whether everything was compared."""
        record = ComparisonRecord(sources, str(self.path)) if recorded else None
        context, before = NodeContext("node1", "", write=True, record=record), self.rendered
        with self.northbound.client() as client:
            outcome = topology.apply_northbound(context, client, self.plan, OWNER, Announcement())
        return len(outcome.changes), self.rendered > before


@pytest.fixture
def node(northbound, folder, monkeypatch):
    """A node whose comparison is recorded."""
    made = Node(northbound, folder / "compared.json", monkeypatch)
    assert made.apply()[0] > 0
    assert made.apply() == (0, True)
    assert made.apply() == (0, False)
    return made


def changed(table, condition, **columns):
    return lambda node: [{"op": "update", "table": table, "where": [condition], "row": columns}]


def mutated(table, condition, mutation):
    return lambda node: [{"op": "mutate", "table": table, "where": [condition], "mutations": [mutation]}]


def stray(node):
    """A row with the owner's marks that no plan has."""
    marks = ["map", [["heddle/owner", OWNER], ["heddle/key", "stray"], ["heddle/network", "red_net"]]]
    return [{"op": "insert", "table": "Logical_Switch", "row": {"name": "stray", "external_ids": marks}}]


def removed_route(node):
    route = node.northbound.rows("Logical_Router_Static_Route", "ip_prefix")[0]["_uuid"]
    gone = [["static_routes", "delete", route]]
    return [{"op": "mutate", "table": "Logical_Router", "where": [], "mutations": gone}]


# `external_ids` and `options` are maps, `static_routes` and `ports` sets.
DRIFT = {
    "column": changed("Logical_Switch_Port", ["type", "==", "router"], type="remote"),
    "one key of a map": mutated("Logical_Router", ROUTER, ["options", "delete", ["set", ["chassis"]]]),
    "mark": changed("Logical_Switch", SWITCH, external_ids=["map", []]),
    "row deleted": lambda node: [{"op": "delete", "table": "Logical_Switch", "where": [SWITCH]}],
    "member removed": removed_route,
    "row too many": stray,
    "everything deleted": lambda node: [
        {"op": "delete", "table": table, "where": []} for table in ("Logical_Switch", "Logical_Router")
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", DRIFT)
def test_drift_is_repaired_although_a_comparison_was_recorded(node, kind):
    operations = DRIFT[kind](node)
    before = len(node.northbound.rows("Logical_Router"))
    node.northbound.transact(*operations)
    changes, compared = node.apply()
    assert compared
    assert changes > 0
    assert node.apply(recorded=False) == (0, True)
    assert len(node.northbound.rows("Logical_Router")) == before


def test_nothing_of_a_foreign_owner_is_needed_or_changed(node):
    node.northbound.transact({"op": "insert", "table": "Logical_Switch", "row": {"name": "foreign"}})
    assert node.apply() == (0, False)
    assert "foreign" in {row["name"] for row in node.northbound.rows("Logical_Switch", "name")}


def test_another_program_or_plan_compares_everything(node):
    assert node.apply(sources="other") == (0, True)
    assert node.apply(sources="other") == (0, False)
    assert node.apply() == (0, True)
    assert node.apply() == (0, False)
    node.plan = plan_of(MANIFESTS + workload("red", "x", "node1"), hosts=with_gateways("shared"))
    changes, compared = node.apply()
    assert changes > 0 and compared


def test_without_known_sources_nothing_is_recorded(node):
    assert node.apply(sources="") == (0, True)
    assert node.apply(sources="") == (0, True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"OVN_Northbound": 1}', '{"OVN_Northbound": {"key": "x"}}'])
def test_a_lost_or_damaged_record_compares_everything(node, text):
    node.path.write_text(text)
    assert node.apply() == (0, True)
    assert node.apply() == (0, False)


@pytest.mark.parametrize("edit", [{"replies": []}, {"requests": []}, {"requests": 7}, {"replies": ["0"]}])
def test_a_record_of_an_unusable_read_compares_everything(node, edit):
    found = json.loads(node.path.read_text())
    found["OVN_Northbound"]["read"] |= edit
    node.path.write_text(json.dumps(found))
    assert node.apply() == (0, True)


def test_a_record_never_writes(node):
    found = json.loads(node.path.read_text())
    found["OVN_Northbound"]["read"]["requests"][-1][1].append({"op": "delete", "table": "Logical_Switch", "where": []})
    node.path.write_text(json.dumps(found))
    assert node.apply() == (0, True)


def test_a_restarted_server_that_lost_rows_is_repaired(node, serve):
    assert node.apply() == (0, False)
    read = json.loads(node.path.read_text())["OVN_Northbound"]["read"]
    stop(node.northbound.process)
    assert not replies_equal(node.northbound.remote, read, 1.0)
    assert not replies_equal("unix:/nonexistent", read, 1.0)
    node.northbound.file.unlink()
    node.northbound = serve("OVN_Northbound")
    changes, compared = node.apply()
    assert changes > 0 and compared
    # The repaired rows are those of the record again, in whatever order the server has them.
    assert node.apply() == (0, False)
