# SPDX-License-Identifier: Apache-2.0
"""Manifests with the fields of the examples of egress in upstream documentation apply as they are.

https://ovn-kubernetes.io/features/cluster-egress-controls/. What Heddle refuses of them is in docs/differences.md.
"""

from __future__ import annotations

import pytest

from tests.pipeline import EVERYWHERE, decide, labelled, layer2, namespace, with_gateways, workload

TENANT = namespace("default", primary=True) + layer2("default", "net", "10.20.0.0/16")
POD = workload("default", "one", "node1").replace(
    "namespace: default", "namespace: default, labels: {app.kubernetes.io/name: MyApp, app: example}"
)
EGRESS = {
    "EgressIP": (
        "",
        "egressip-prod",
        """
spec:
  egressIPs:
    - 192.0.2.133
    - 192.0.2.144
  namespaceSelector:
    matchExpressions:
      - key: environment
        operator: NotIn
        values:
          - development
  podSelector:
    matchLabels:
      app: example
""",
    ),
    "EgressFirewall": (
        "default",
        "default",
        """
spec:
  egress:
  - type: Allow
    to:
      dnsName: www.openvswitch.org
  - type: Allow
    to:
      cidrSelector: 1.2.3.0/24
    ports:
      - protocol: UDP
        port: 55
  - type: Allow
    to:
      nodeSelector:
        matchLabels:
          region: east
  - type: Deny
    to:
      cidrSelector: 0.0.0.0/0
""",
    ),
    "EgressQoS": (
        "default",
        "default",
        """
spec:
  egress:
  - dscp: 30
    dstCIDR: 1.2.3.0/24
  - dscp: 42
    podSelector:
      matchLabels:
        app: example
  - dscp: 28
""",
    ),
    "EgressService": (
        "default",
        "my-service",
        """
spec:
  sourceIPBy: LoadBalancerIP
  nodeSelector:
    matchLabels:
      node-role.kubernetes.io/worker: ""
""",
    ),
}
BALANCED = """---
apiVersion: heddle.dev/v1
kind: LoadBalancerPool
metadata: {name: pool}
spec: {subnets: [192.0.2.192/28]}
---
apiVersion: v1
kind: Service
metadata: {name: my-service, namespace: default}
spec: {type: LoadBalancer, selector: {app: example}, ports: [{port: 8080}]}
"""


@pytest.mark.parametrize("kind", EGRESS)
def test_egress_object_is_in_effect(kind):
    space, name, spec = EGRESS[kind]
    hosts = labelled(with_gateways("shared"))
    for one in hosts.values():
        one["labels"] = {**one["labels"], "node-role.kubernetes.io/worker": "", "region": "east"}
    place = f"metadata: {{name: {name}, namespace: {space}}}" if space else f"metadata: {{name: {name}}}"
    # As in ovn-kubernetes, EgressQoS is for the default network.
    tenant = namespace("default", primary=False) if kind == "EgressQoS" else TENANT
    text = f"{tenant}{POD}{BALANCED}---\napiVersion: k8s.ovn.org/v1\nkind: {kind}\n{place}{spec}"
    after, problems = decide(text, hosts=hosts, settings=EVERYWHERE)
    assert not problems, "\n".join(map(str, problems))
    status = after.objects["/".join(filter(None, (kind, space, name)))].status
    assert [one["status"] for one in status["conditions"]] == ["True"]
    if kind == "EgressIP":
        assert {one["egressIP"] for one in status["items"]} == {"192.0.2.133", "192.0.2.144"}
