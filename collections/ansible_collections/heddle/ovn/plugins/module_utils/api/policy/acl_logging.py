# SPDX-License-Identifier: Apache-2.0
"""The annotation `k8s.ovn.org/acl-logging`: with which severity OVN logs what rules permit, deny or pass on.

ovn-kubernetes reads it on namespaces, for their policies and firewalls, and on (Baseline)AdminNetworkPolicies.
"""

from __future__ import annotations

import json

from ..node import Node
from ..problem import show

ACL_LOGGING = "k8s.ovn.org/acl-logging"
_RESULTS = ("allow", "deny", "pass")
# The column `severity` of ACL (ovn-nb(5)).
SEVERITIES = ("alert", "warning", "notice", "info", "debug")
_REMEDY = 'write {"deny": "alert", "allow": "notice"}'


def read_acl_logging(annotations: Node, spec: dict) -> dict:
    """Return the spec with `aclLogging`, the severity by what a rule does; as it was when nothing is logged."""
    if not isinstance(annotations.value, dict) or annotations.value.get(ACL_LOGGING) is None:
        return spec
    node = annotations.child(ACL_LOGGING)
    text = node.text()
    if not text:
        return spec
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        node.refuse(f"{show(text)} is no JSON", _REMEDY)
        return spec
    fields = Node(value, node.path, node.report).mapping(_RESULTS)
    found = {}
    for name in _RESULTS:
        field = fields.get(name)
        # As in ovn-kubernetes, an empty severity turns it off.
        if field and field.value != "" and (severity := field.choice(SEVERITIES)):
            found[name] = severity
    return {**spec, "aclLogging": found} if found else spec
