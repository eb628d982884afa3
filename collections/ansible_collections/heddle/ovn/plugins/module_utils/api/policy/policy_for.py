# SPDX-License-Identifier: Apache-2.0
"""The annotation of a MultiNetworkPolicy that names the networks that it is about.

https://github.com/k8snetworkplumbingwg/multi-networkpolicy, "Policy-for annotation": definitions, separated by commas.
"""

from __future__ import annotations

from ..names import is_dns_label, is_dns_subdomain
from ..node import Node
from ..problem import show

POLICY_FOR = "k8s.v1.cni.cncf.io/policy-for"


def read_policy_for(annotations: Node, spec: dict) -> dict:
    """Return the spec with `policyFor`: `{"namespace": str | None, "name": str}` of each definition, in their order."""
    values = annotations.value if isinstance(annotations.value, dict) else {}
    if not isinstance(values.get(POLICY_FOR), str):
        return {**spec, "policyFor": []}
    node = annotations.child(POLICY_FOR)
    found = []
    for part in (part.strip() for part in node.value.split(",")):
        namespace, slash, name = part.rpartition("/")
        if not is_dns_subdomain(name) or (slash and not is_dns_label(namespace)):
            node.refuse(
                f"{show(part)} is not the name of a network attachment definition",
                "write NAME or NAMESPACE/NAME, separated by commas",
            )
        else:
            found.append({"namespace": namespace or None, "name": name})
    return {**spec, "policyFor": found}
