# SPDX-License-Identifier: Apache-2.0
"""Tenants that several lab tests have, and the manifests of their egress addresses."""

from __future__ import annotations

import json

from tests.lab.green_network import GREEN

_TEAL = """---
apiVersion: v1
kind: Namespace
metadata: {name: teal, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: teal}
spec:
  topology: Layer3
  layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 24}, {cidr: "fd00:10::/48", hostSubnet: 64}]}
"""
_APART = """---
apiVersion: v1
kind: Namespace
metadata: {name: apart}
"""
# Namespaces with a Layer2, a Layer3 and the default network; two of these have equal subnets.
TENANTS = {"green": GREEN, "teal": _TEAL, "apart": _APART}


def egress_ip(name: str, *addresses: str, namespace: str | None = None) -> str:
    """Return an EgressIP for all workloads of a namespace, by default the one of its name."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace or name}}
    document = {
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "EgressIP",
        "metadata": {"name": name},
        "spec": {"egressIPs": list(addresses), "namespaceSelector": selector},
    }
    return f"---\n{json.dumps(document)}\n"
