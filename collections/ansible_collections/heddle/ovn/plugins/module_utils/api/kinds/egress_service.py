# SPDX-License-Identifier: Apache-2.0
"""EgressService: how the endpoints of a load balancer's Service leave the cluster (k8s.ovn.org/v1).

Fields and the words of their errors as in ovn-kubernetes's `k8s.ovn.org_egressservices.yaml`. The object has the
namespace and the name of its Service.
"""

from __future__ import annotations

import re

from ..kind import Kind
from ..node import Node
from ..selector import read_selector

LOAD_BALANCER_IP, NETWORK = "LoadBalancerIP", "Network"
# ip-rule(8), TABLEID: a number, or a name of /etc/iproute2/rt_tables; here also that of a VRF device.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LARGEST_TABLE = 0xFFFFFFFF
# Table 255, `local`, decides what the host receives; 0 is no table.
_RESERVED = ("0", "255", "local")


def _read_spec(node: Node) -> dict:
    """The normalised spec: ``{"sourceIPBy": str, "nodeSelector": selector, "network": str}``.

    `network` is a number or a name of a routing table, "" for the host's own routing.
    """
    if node.value is None:
        return {"sourceIPBy": LOAD_BALANCER_IP, "nodeSelector": read_selector(None), "network": ""}
    fields = node.mapping(("sourceIPBy", "nodeSelector", "network"))
    source, network = fields.get("sourceIPBy"), fields.get("network")
    return {
        # ovn-kubernetes does the same for an object without the field.
        "sourceIPBy": source.choice((LOAD_BALANCER_IP, NETWORK)) if source else LOAD_BALANCER_IP,
        "nodeSelector": read_selector(fields.get("nodeSelector")),
        "network": (_read_table(network) or "") if network else "",
    }


def _read_table(node: Node) -> str | None:
    text = node.text()
    if not text:
        return text
    number = int(text) if text.isascii() and text.isdigit() else None
    fits = _NAME.fullmatch(text) if number is None else number <= _LARGEST_TABLE and text == str(number)
    if not fits or text in _RESERVED:
        node.refuse(
            f'Invalid value: "{text}": must be the number or the name of a routing table',
            "write a number from 1 to 4294967295, a name of /etc/iproute2/rt_tables, or that of a VRF device",
        )
        return None
    return text


KIND = Kind(
    name="EgressService",
    api_versions=("k8s.ovn.org/v1",),
    namespaced=True,
    default_namespace="default",
    read_spec=_read_spec,
)
