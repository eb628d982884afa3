# SPDX-License-Identifier: Apache-2.0
"""An Egress with a router and clients on one host, whose addresses are of a pool, so that no OVN is needed."""

from __future__ import annotations

import json
import os

from tests.pipeline import namespace, plan_of, workload

TENANT, INTERNET = f"t{os.getpid()}", f"i{os.getpid()}"
CLIENT, OTHER = f"{TENANT}_web", f"{TENANT}_plain"


def router(number: int = 0) -> str:
    """Return the network namespace of a router."""
    return f"{INTERNET}_nat-{number}"


def text(client: bool = True, egress: bool = True, clients: int = 1, **spec) -> str:
    """Return the manifests; `spec` are fields of the Egress."""
    found = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: pool1}\n"
        "spec: {blockSizeBits: 3, subnets: [{ipv4: 10.2.0.0/24, ipv6: 'fd02::/120'}]}\n"
    )
    for name in (TENANT, INTERNET):
        found += namespace(name, primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: pool1}\n"
    for name in ("web", *(f"web{number}" for number in range(1, clients))):
        one = workload(TENANT, name, "node1")
        if client and egress:
            one = one.replace(
                f"name: {name},", f"name: {name}, annotations: {{egress.coil.cybozu.com/{INTERNET}: nat}},"
            )
        found += one
    found += workload(TENANT, "plain", "node1")
    if egress:
        selector = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node1"}}}
        fields = {"destinations": ["0.0.0.0/0", "::/0"], "template": selector, **spec}
        found += (
            "---\napiVersion: coil.cybozu.com/v2\nkind: Egress\n"
            f"metadata: {{name: nat, namespace: {INTERNET}}}\nspec: {json.dumps(fields)}\n"
        )
    return found


def plan(settings: dict | None = None, **more) -> dict:
    """Return the plan of them."""
    return plan_of(text(**more), settings=settings)
