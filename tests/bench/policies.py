# SPDX-License-Identifier: Apache-2.0
"""Policies at scale: the decision, one node's rows beside the bare protocol, and what northd makes of them.

    python -m tests.bench.policies [--namespaces 100] [--rounds 3]

Each namespace has a primary network (half Layer2, half Layer3, dual stack), 20 workloads on three nodes and 10
NetworkPolicies with peers and ports in both directions; two policies of the cluster select everything.
"""

from __future__ import annotations

import argparse

from . import load
from .clock import Clock
from .scenario import document, flows, one_round, print_figures, rows_of

WORKLOADS, POLICIES, APPS = 20, 10, 10
ADMIN_API = "policy.networking.k8s.io/v1alpha1"


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
    print_figures(clock, "without policies", rows, ("ACL", "Port_Group", "Address_Set"), "one label changed")
    print(f"{'  transactions':36} {transactions:8}")
    more = (flows(plan, rows) - flows(open_plan, open_rows)) / (count * POLICIES)
    print(f"{'logical flows of a policy':36} {more:8.1f}")


if __name__ == "__main__":
    main()
