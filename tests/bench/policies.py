# SPDX-License-Identifier: Apache-2.0
"""Policies at scale: the decision, one node's rows beside the bare protocol, and what northd makes of them.

    python -m tests.bench.policies [--namespaces 100] [--rounds 3]

Each namespace has a primary network (half Layer2, half Layer3, dual stack), 20 workloads on three nodes and 10
NetworkPolicies with peers and ports in both directions; two policies of the cluster select everything.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Scope
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import TABLES
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Row

from . import load, raw
from .clock import Clock
from .engine import EVERYTHING, READS_PER_ROUND, apply, write_raw
from .northd import Stopwatch, write_chassis
from .servers import NORTHBOUND, SOUTHBOUND, served, translating

WORKLOADS, POLICIES, APPS = 20, 10, 10
# Room for the workloads in the default network.
SETTINGS = {"cluster_subnets": ["10.128.0.0/14/20", "fd00:10:244::/48/64"]}
ADMIN_API = "policy.networking.k8s.io/v1alpha1"


def document(kind: str, api: str, name: str, namespace: str | None, spec: dict, labels: dict | None = None) -> str:
    """Return a manifest."""
    metadata: dict = {"name": name, "labels": labels or {}}
    if namespace:
        metadata["namespace"] = namespace
    return f"---\n{json.dumps({'apiVersion': api, 'kind': kind, 'metadata': metadata, 'spec': spec})}\n"


def policies(namespace: str) -> str:
    """Return the policies of a namespace."""
    ports = [{"port": 80}, {"port": 8000, "endPort": 8010}, {"port": 53, "protocol": "UDP"}]
    return "".join(
        document(
            "NetworkPolicy", "networking.k8s.io/v1", f"p{number}", namespace,
            {
                "podSelector": {"matchLabels": {"app": f"a{number % APPS}"}},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": f"a{(number + 1) % APPS}"}}},
                                      {"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": ports}],
                "egress": [{"to": [{"namespaceSelector": {"matchLabels": {"tier": "shared"}}}]}],
            },
        )
        for number in range(POLICIES)
    )  # fmt: skip


def of_cluster() -> str:
    """Return the policies of the cluster."""
    everyone = {"namespaces": {}}
    spec = {
        "priority": 10, "subject": everyone,
        "ingress": [{"action": "Pass", "from": [everyone]}],
        "egress": [{"action": "Deny", "to": [{"networks": ["203.0.113.0/24"]}]}],
    }  # fmt: skip
    last = {"subject": everyone, "ingress": [{"action": "Deny", "from": [everyone]}]}
    return document("AdminNetworkPolicy", ADMIN_API, "guard", None, spec) + document(
        "BaselineAdminNetworkPolicy", ADMIN_API, "default", None, last
    )


def manifests(count: int, *, moved: int | None = None, with_policies: bool = True) -> str:
    """Return the YAML; in the namespace `moved` one workload has another label."""
    text = load.manifests(count)
    for number in range(count):
        namespace = f"tenant{number}"
        for index in range(WORKLOADS):
            app = (index + (moved == number and index == 0)) % APPS
            spec = {"node": f"node{index % 3 + 1}"}
            text += document("Workload", "heddle.dev/v1", f"w{index}", namespace, spec, {"app": f"a{app}"})
        text += policies(namespace) if with_policies else ""
    return text + (of_cluster() if with_policies else "")


def rows_of(clock: Clock, label: str, text: str) -> tuple[dict, list[Row]]:
    """Return plan and rows of one node, with the time that each step takes."""
    found = clock.measure(f"{label}validate", load.resources, text)
    after = clock.measure(f"{label}admit", load.admitted, found, None, SETTINGS)
    plan = clock.measure(f"{label}plan", build_plan, after)
    assert len(plan["workloads"]) == text.count('"kind": "Workload"')
    return plan, clock.measure(f"{label}render", render_northbound, plan, load.NODE)


def one_round(clock: Clock, rows: list[Row], changed: list[Row], network: str) -> int:
    """Measure engine and bare protocol once; return the writing transactions of one change."""
    before, after = ([row for row in some if row.network in ("", network)] for some in (rows, changed))
    with served(NORTHBOUND, NORTHBOUND) as (plain, server), raw.RawClient(plain.remote, NORTHBOUND) as client:
        networks, selects = raw.operations(client, rows, load.OWNER)
        clock.measure("raw create", write_raw, client, networks)
        clock.measure("create", apply, server, rows)
        for _read in range(READS_PER_ROUND):
            clock.measure("raw read", client.transact, selects)
            assert clock.measure("no change", apply, server, rows) == (0, 0)
        former = tuple(row for row in before if row.network)
        scope = Scope(tables=frozenset(TABLES), networks=frozenset({network}), former=former)
        changes, transactions = clock.measure("one label changed", apply, server, after, scope)
        assert changes > 0
        assert apply(server, changed, EVERYTHING) == (0, 0)
    return transactions


def flows(plan: dict, rows: list[Row]) -> int:
    """Return the logical flows that northd makes of rows."""
    with served(NORTHBOUND, SOUTHBOUND) as (northbound, southbound), translating(northbound, southbound) as process:
        write_chassis(southbound, plan)
        Stopwatch(northbound, southbound, process).step("all", rows)
        return len(southbound.rows("Logical_Flow"))


def counted(rows: list[Row], matches: Callable[[Row], bool]) -> int:
    """Return how many rows are of a kind."""
    return sum(map(matches, rows))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namespaces", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count, clock = options.namespaces, Clock()
    plan, rows = rows_of(clock, "", manifests(count))
    open_plan, open_rows = rows_of(clock, "without policies: ", manifests(count, with_policies=False))
    _plan, changed = rows_of(clock, "again: ", manifests(count, moved=count // 2))
    for _round in range(options.rounds):
        transactions = one_round(clock, rows, changed, f"tenant{count // 2}_net")
    seconds = clock.best()
    for label in ("validate", "admit", "plan", "render"):
        print(f"{label:28} {seconds[label]:8.3f} s, without policies {seconds['without policies: ' + label]:.3f} s")
    print(f"{'rows of one node':28} {len(rows):8,}, without policies {len(open_rows):,}")
    for table in ("ACL", "Port_Group", "Address_Set"):
        print(f"{'  ' + table:28} {counted(rows, lambda row, table=table: row.table == table):8,}")
    print(f"{'create over raw':28} {seconds['create'] / seconds['raw create']:8.2f} x ({seconds['create']:.3f} s)")
    print(f"{'no change over raw read':28} {seconds['no change'] / seconds['raw read']:8.2f} x "
          f"({seconds['no change']:.3f} s)")  # fmt: skip
    print(f"{'one label changed':28} {seconds['one label changed'] * 1000:8.1f} ms, {transactions} transactions")
    more = (flows(plan, rows) - flows(open_plan, open_rows)) / (count * POLICIES)
    print(f"{'logical flows of a policy':28} {more:8.1f}")


if __name__ == "__main__":
    main()
