# SPDX-License-Identifier: Apache-2.0
"""The annotations with which a workload asks for routers of Egress objects: egress.coil.cybozu.com/NAMESPACE: NAMES.

NAMESPACE is that of the Egress, NAMES a list separated by commas (Coil, docs/cmd-coil-egress-controller.md). As there,
blanks are part of a name.
"""

from __future__ import annotations

from ..names import is_dns_label, is_dns_subdomain
from ..node import Node
from ..problem import path_text, show

EGRESS = "egress.coil.cybozu.com/"


def egress_path(namespace: str) -> str:
    """Return the path of an annotation, as messages have it."""
    return path_text(("metadata", "annotations", EGRESS + namespace))


def read_egress_selection(annotations: Node, spec: dict) -> dict:
    """Return a workload's spec with `egresses` in their order, each `namespace/name`; unchanged without any."""
    values = annotations.value if isinstance(annotations.value, dict) else {}
    found: list[str] = []
    for key in values:
        if not isinstance(key, str) or not key.startswith(EGRESS):
            continue
        node = annotations.child(key)
        if spec["kind"] != "netns":
            node.refuse(
                "is for network namespaces: a virtual machine has no tunnels that Heddle could make",
                "remove it, or set kind to netns",
            )
            continue
        found += _names(node, key.removeprefix(EGRESS))
    return {**spec, "egresses": list(dict.fromkeys(found))} if found else spec


def _names(node: Node, namespace: str) -> list[str]:
    if not is_dns_label(namespace):
        node.refuse(f"{show(namespace)} is not the name of a namespace", f"write {EGRESS}NAMESPACE of the Egress")
        return []
    # What is no text was refused with the annotations.
    text = node.value if isinstance(node.value, str) else ""
    names = text.split(",")
    wrong = next((name for name in names if not is_dns_subdomain(name)), None)
    if wrong is not None and isinstance(node.value, str):
        node.refuse(
            f"{show(wrong)} is not the name of an Egress",
            "list names separated by commas, without blanks, as in internet,office",
        )
    return [f"{namespace}/{name}" for name in names] if wrong is None else []
