# SPDX-License-Identifier: Apache-2.0
"""A tenant of the tests that the lab's own manifests do not have: a namespace with a primary Layer2 network."""

NAMESPACE = """---
apiVersion: v1
kind: Namespace
metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
"""

NETWORK = """---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: green}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, "fd00:10::/64"]}}
"""

GREEN = NAMESPACE + NETWORK
