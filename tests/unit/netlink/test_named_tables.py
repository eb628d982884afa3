# SPDX-License-Identifier: Apache-2.0
"""Routing tables by their names."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink.named_tables import named_table, ports_of
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.policy_rules import forwarding, wanted_rules
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reader import LinkState
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import Rule

LINKS = {
    "blue": LinkState(7, "", 0, up=True, kind="vrf", table=1007),
    "eth5": LinkState(8, "", 0, up=True, master="blue"),
    "eth6": LinkState(9, "", 0, up=True),
}


@pytest.fixture
def folders(tmp_path):
    own, shared = tmp_path / "etc", tmp_path / "usr"
    (own / "rt_tables.d").mkdir(parents=True)
    shared.mkdir()
    (own / "rt_tables.d" / "more.conf").write_text("# comment\n\n 200\tgreen # a name\nnot a table\n")
    (own / "rt_tables.d" / "left-out.txt").write_text("201 other\n")
    (shared / "rt_tables").write_text("255 local\n254 main\n200 green\n300 red\n202 green\n")
    return own, tmp_path / "missing", shared


@pytest.mark.parametrize(
    ("text", "expected"),
    [("17", 17), ("blue", 1007), ("green", 200), ("red", 300), ("main", 254), ("default", 253), ("other", None),
     ("eth6", None), ("table", None)],
)  # fmt: skip
def test_tables(text, expected, folders):
    assert named_table(text, LINKS, folders) == expected


def test_only_a_vrf_has_ports():
    assert ports_of("blue", LINKS) == ["eth5"]
    assert ports_of("eth6", LINKS) == ports_of("nothing", LINKS) == []


def test_tables_of_networks_are_not_for_others():
    asked = [Rule(4, "", source=f"10.0.0.{end}/32", table=text) for end, text in enumerate(("17", "1003", "blue"))]
    found, notes = wanted_rules(asked, LINKS, {1003}, [], lambda vrf, what: 254)
    assert [(one.source, one.table) for one in found] == [("10.0.0.0/32", 17), ("10.0.0.2/32", 1007)]
    assert [note.split(" on ")[0] for note in notes] == ["there is no routing table 1003"]
    assert [one.name for one in forwarding(asked, LINKS)] == ["net/ipv4/conf/eth5/forwarding"]
