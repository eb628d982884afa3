# SPDX-License-Identifier: Apache-2.0
"""One host's zone: its databases, what is rendered into them, and ovn-trace on it."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.agent import northd_recompute, service_connections
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.values import Scope
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import synchronise
from ansible_collections.heddle.ovn.plugins.module_utils.render import northbound as rendered
from ansible_collections.heddle.ovn.plugins.module_utils.render import southbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.southbound import render_southbound
from tests.live.conftest import START_TIMEOUT
from tests.pipeline import plan_of


class Zone:
    """node1's zone, or with `bring` another one's; `hosts` are the inventory facts of all hosts."""

    def __init__(self, tools, northbound, southbound_server, text=None, hosts=None, settings=None):
        self.tools, self.northbound, self.southbound = tools, northbound, southbound_server
        self.hosts, self.settings = hosts, settings
        self._macs: dict[str, str] = {}
        if text is not None:
            self.apply(text)

    def apply(self, text):
        """Apply the manifests to the databases; returns the outcome."""
        return self.bring(plan_of(text, hosts=self.hosts, settings=self.settings), "node1")

    def bring(self, plan, node):
        """Apply a node's part of a plan to the databases; returns the outcome."""
        self.plan, plan, self._macs = plan, host_plan(plan, node), {}
        with self.southbound.client() as client:
            rows = render_southbound(plan, node)
            first = reconcile(
                client, "OVN_Southbound", rows, owner="t", scope=Scope(tables=frozenset(southbound.TABLES))
            )
        with self.northbound.client() as client:
            rows = render_northbound(plan, node)
            scope = Scope(tables=frozenset(rendered.TABLES))
            second = reconcile(client, "OVN_Northbound", rows, owner="t", scope=scope)
            with self.southbound.client() as reader:
                synchronise(client, reader, START_TIMEOUT)
        if northd_recompute.is_needed(second, plan, node):
            northd_recompute.recompute()
        service_connections.end(service_connections.ended(second.changes))
        return first + second

    @property
    def router_macs(self) -> dict[str, str]:
        """The MAC addresses of router ports, read once for each plan."""
        if not self._macs:
            self._macs = {row["name"]: row["mac"] for row in self.northbound.rows("Logical_Router_Port", "name", "mac")}
        return self._macs

    def interface(self, name, network):
        """A workload's attachment to a network."""
        found = self.plan["workloads"][name]["interfaces"]
        return next(entry for entry in found if entry["network"] == network)

    def trace(self, datapath, inport, source, target, target_mac, family=4, transport="", options=()):
        """Trace an echo request of a workload, or what `transport` matches (`sctp.src == 1 && sctp.dst == 2`).

        `options` are further ones of ovn-trace(8).
        """
        kind = "ip4" if family == 4 else "ip6"
        transport = transport or ("icmp4.type == 8" if family == 4 else "icmp6.type == 128")
        flow = (
            f'inport == "{inport}" && eth.src == {source["mac"]} && eth.dst == {target_mac} && ip.ttl == 64 && '
            f"{kind}.src == {source['addresses'][0 if family == 4 else -1].partition('/')[0]} && "
            f"{kind}.dst == {target} && {transport}"
        )
        return self.tools.run("ovn-trace", f"--db={self.southbound.remote}", "--minimal", *options, datapath, flow)
