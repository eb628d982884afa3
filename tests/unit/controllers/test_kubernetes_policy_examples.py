# SPDX-License-Identifier: Apache-2.0
"""The manifests of https://kubernetes.io/docs/concepts/services-networking/network-policies/ apply as they are."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from tests.pipeline import namespace, stored

HEAD = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
EXAMPLES = {
    "test-network-policy": """
metadata:
  name: test-network-policy
  namespace: default
spec:
  podSelector:
    matchLabels:
      role: db
  policyTypes:
  - Ingress
  - Egress
  ingress:
  - from:
    - ipBlock:
        cidr: 172.17.0.0/16
        except:
        - 172.17.1.0/24
    - namespaceSelector:
        matchLabels:
          project: myproject
    - podSelector:
        matchLabels:
          role: frontend
    ports:
    - protocol: TCP
      port: 6379
  egress:
  - to:
    - ipBlock:
        cidr: 10.0.0.0/24
    ports:
    - protocol: TCP
      port: 5978
""",
    "default-deny-ingress": """
metadata:
  name: default-deny-ingress
spec:
  podSelector: {}
  policyTypes:
  - Ingress
""",
    "allow-all-ingress": """
metadata:
  name: allow-all-ingress
spec:
  podSelector: {}
  ingress:
  - {}
  policyTypes:
  - Ingress
""",
    "default-deny-egress": """
metadata:
  name: default-deny-egress
spec:
  podSelector: {}
  policyTypes:
  - Egress
""",
    "allow-all-egress": """
metadata:
  name: allow-all-egress
spec:
  podSelector: {}
  egress:
  - {}
  policyTypes:
  - Egress
""",
    "default-deny-all": """
metadata:
  name: default-deny-all
spec:
  podSelector: {}
  policyTypes:
  - Ingress
  - Egress
""",
    "multi-port-egress": """
metadata:
  name: multi-port-egress
  namespace: default
spec:
  podSelector:
    matchLabels:
      role: db
  policyTypes:
    - Egress
  egress:
    - to:
        - ipBlock:
            cidr: 10.0.0.0/24
      ports:
        - protocol: TCP
          port: 32000
          endPort: 32768
""",
    "egress-namespaces": """
metadata:
  name: egress-namespaces
spec:
  podSelector:
    matchLabels:
      app: myapp
  policyTypes:
  - Egress
  egress:
   - to:
     - namespaceSelector:
         matchExpressions:
         - key: namespace
           operator: In
           values: ["frontend", "backend"]
""",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_accepted(name):
    after = stored(namespace("default", primary=False) + HEAD + EXAMPLES[name].lstrip("\n"))
    [condition] = after.objects[f"NetworkPolicy/default/{name}"].status["conditions"]
    assert (condition["type"], condition["status"]) == ("Accepted", "True")


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ("{}", ["Ingress"]),
        ("{podSelector: {}, ingress: [{}]}", ["Ingress"]),
        ("{podSelector: {}, egress: [{}]}", ["Ingress", "Egress"]),
        ("{podSelector: {}, egress: []}", ["Ingress"]),
        ("{podSelector: {}, policyTypes: []}", ["Ingress"]),
        ("{podSelector: {}, policyTypes: [Egress, Egress]}", ["Egress"]),
    ],
)
def test_default_of_policy_types(spec, types):
    [policy], problems = read_manifests([("t.yml", f"{HEAD}metadata: {{name: p}}\nspec: {spec}\n")])
    assert not problems
    assert policy.namespace == "default"
    assert policy.spec["policyTypes"] == types
