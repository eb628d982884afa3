# SPDX-License-Identifier: Apache-2.0
"""Manifests with the fields of the examples in upstream documentation apply as they are.

Services and EndpointSlices: https://kubernetes.io/docs/concepts/services-networking/service/; the others:
https://ovn-kubernetes.io/features/cluster-egress-controls/. What Heddle refuses of them is in docs/differences.md.
"""

from __future__ import annotations

import pytest

from tests.pipeline import EVERYWHERE, decide, labelled, layer2, namespace, plan_of, with_gateways, workload

TENANT = namespace("default", primary=True) + layer2("default", "net", "10.20.0.0/16")
POD = workload("default", "one", "node1").replace(
    "namespace: default", "namespace: default, labels: {app.kubernetes.io/name: MyApp, app: example}"
)
# What follows the head of a Service that is called my-service.
HEAD = "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: my-service\nspec:"
SERVICES = {
    "a port and its target": """
  selector:
    app.kubernetes.io/name: MyApp
  ports:
    - protocol: TCP
      port: 80
      targetPort: 9376
""",
    "several ports": """
  selector:
    app.kubernetes.io/name: MyApp
  ports:
    - name: http
      protocol: TCP
      port: 80
      targetPort: 9376
    - name: https
      protocol: TCP
      port: 443
      targetPort: 9377
""",
    "without a selector, with a slice": """
  ports:
    - name: http
      protocol: TCP
      port: 80
      targetPort: 9376
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: my-service-1
  labels:
    kubernetes.io/service-name: my-service
addressType: IPv4
ports:
  - name: http
    appProtocol: http
    protocol: TCP
    port: 9376
endpoints:
  - addresses:
      - "10.4.5.6"
  - addresses:
      - "10.1.2.3"
""",
    "a node port": """
  type: NodePort
  selector:
    app.kubernetes.io/name: MyApp
  ports:
    - port: 80
      targetPort: 80
      nodePort: 30007
""",
    "external addresses": """
  selector:
    app.kubernetes.io/name: MyApp
  ports:
    - name: http
      protocol: TCP
      port: 80
      targetPort: 49152
  externalIPs:
    - 198.51.100.32
""",
    "headless": """
  clusterIP: None
  selector:
    app.kubernetes.io/name: MyApp
  ports:
    - port: 80
""",
}


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_in_effect(name):
    plan = plan_of(f"{TENANT}{POD}{HEAD}{SERVICES[name]}")
    if name == "headless":
        assert "default/my-service" not in plan["services"].get("default_net", {})
        return
    ports = plan["services"]["default_net"]["default/my-service"]["ports"]
    ends = {(one["port"], end["address"]) for one in ports for end in one["endpoints"]}
    if "slice" in name:
        assert ends == {(80, "10.4.5.6"), (80, "10.1.2.3")}
    else:
        assert {port for port, _address in ends} == {one["port"] for one in ports}


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
