# SPDX-License-Identifier: Apache-2.0
"""Rows of EgressFirewalls, where those of several namespaces are on one network."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import namespace, plan_of, workload


def firewall(where: str, *rules: str) -> str:
    return (
        f"---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {{name: default, namespace: {where}}}\n"
        f"spec: {{egress: [{', '.join(rules)}]}}\n"
    )


def allow(name: str) -> str:
    return f"{{type: Allow, to: {{dnsName: {name}}}}}"


def test_firewalls_of_one_network_share_the_addresses_of_a_dns_name():
    text = "".join(namespace(name, primary=False) + workload(name, "w", "node1") for name in ("a", "b"))
    text += firewall("a", allow("www.example.com")) + firewall("b", allow("www.example.com"), allow("www.example.org"))
    rows = render_northbound(plan_of(text), "node1")
    keys = [(row.table, row.key) for row in rows]
    assert len({*keys}) == len(keys)
    sets = [row.columns["name"] for row in rows if row.table == "Address_Set" and "addresses" not in row.columns]
    matches = [row.columns["match"] for row in rows if row.table == "ACL" and "EgressFirewall" in str(row.columns)]
    # Of each family that of the name which both have, and the other.
    assert sorted(sum(f"${name} " in f"{match} " for match in matches) for name in sets) == [1, 1, 2, 2]
