# SPDX-License-Identifier: Apache-2.0
"""Contents of the notebook on gateways, and their checks."""

from __future__ import annotations

import json
from html import escape

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.markup import table

from . import tables
from .egress import bridge_steps, datapath_actions, egress, logical_leg
from .inside import connections, inside, pair_of
from .report import Markup, Picture, Report

MOST_LINES = 60


class Gateways(Report):
    """The results of a run, with what was found inside one host."""

    def __init__(self, directory: str, pictures: str = "", node: str = "") -> None:
        super().__init__(directory, pictures)
        self.node = node or next(iter(self.plan["nodes"]))
        self.host = json.loads(self._text(f"host-{self.node}.json", "verify"))

    def inside(self) -> Picture:
        """Bridges, patch ports and VRFs of the host."""
        return self._kept(f"inside-{self.node}", inside(self.plan, self.host))

    def rules(self) -> Markup:
        """The host's policy rules."""
        head = ["family", "priority", "selector", "table"]
        rows = [
            [f"IPv{rule['family']}", str(rule["priority"]), escape(_selector(rule)), escape(str(rule.get("table", "")))]
            for rule in self.host["rules"]
        ]
        return Markup(table(head, rows))

    def routes(self) -> Markup:
        """The host's routes, those of VRFs by table."""
        names = {vrf["table"]: vrf["name"] for vrf in self.host["vrfs"]}
        rows = [
            [
                escape(str(names.get(route.get("table"), route.get("table", "main")))), escape(str(route.get("dst"))),
                escape(route.get("gateway", "")), escape(route.get("dev", route.get("type", ""))),
                escape(str(route.get("protocol", ""))),
            ]
            for route in self.host["routes"][:MOST_LINES]
        ]  # fmt: skip
        return Markup(table(["table", "to", "via", "device", "protocol"], rows))

    def firewall(self) -> str:
        """The nftables table as text."""
        return self.host["firewall"]

    def egress(self) -> Picture:
        """The path of an external packet."""
        return self._kept(f"egress-{self.node}", egress(self.plan, self.host))

    def pair(self) -> Markup:
        """Connections of two networks with one subnet."""
        head = ["network", "protocol", "zone", "mark", "from, as the bridge got it", "sent as", "to"]
        rows = [
            [tables.network(self.plan, row["network"]), *(f"<code>{escape(row[key])}</code>" for key in keys)]
            for keys in [("protocol", "zone", "mark", "seen", "sent", "to")]
            for row in pair_of(self.plan, self.host)
        ]
        who = "".join(
            f"<li><b>{escape(workload)}</b> in {escape(network)} has {escape(address)}</li>"
            for workload, network, address in self.host["pair"]
        )
        return Markup(f"<ul>{who}</ul>" + table(head, rows))

    def external_flows(self) -> Markup:
        """Counts of the north-south flows."""
        head = ["kind", "family", "must reach", "reached", "must not", "isolated", "not tested"]
        found = self.verify["north_south"]
        keys = ("must_reach", "reached", "must_not", "isolated", "not_tested")
        rows = [
            [escape(row["kind"]), f"IPv{row['family']}", *(str(row[key]) for key in keys)] for row in found["counts"]
        ]
        left = "".join(f"<li>{escape(line)}</li>" for line in found["left_out"])
        return Markup(table(head, rows) + (f"<p>Left out</p><ul>{left}</ul>" if left else ""))

    def check(self) -> None:
        """Raise AssertionError unless all passed, the packet left, and the pair is distinguished."""
        super().check()
        assert self.host["plan"] == self.plan["digest"], f"host-{self.node}.json is of another plan"
        last = logical_leg(self.host).hops[-1]
        assert last.output_type == "localnet", f"OVN did not let the packet out: it ends at {last.datapath}"
        assert bridge_steps(self.host), "ofproto/trace matched nothing"
        assert "drop" not in datapath_actions(self.host), "the provider bridge drops the packet"
        marks = {row["mark"] for row in pair_of(self.plan, self.host)}
        assert len(marks) == len(self.host["pair"]), (
            "connections of networks with one subnet have no marks of their own"
        )
        sent = [(row["protocol"], row["sent"], row["to"]) for row in connections(self.plan, self.host)]
        assert len(sent) == len(set(sent)), "two connections left by the same port to the same place"


def _selector(rule: dict) -> str:
    words = [*(["not"] if "not" in rule else []), f"from {rule.get('src', 'all')}"]
    if "dst" in rule:
        words.append(f"to {rule['dst']}")
    if "fwmark" in rule:
        words.append(f"fwmark {rule['fwmark']}" + (f"/{rule['fwmask']}" if "fwmask" in rule else ""))
    if rule.get("l3mdev") is not None or "l3mdev" in rule:
        words.append("of a VRF's device")
    if "goto" in rule:
        words.append(f"goto {rule['goto']}")
    return " ".join(words)
