# SPDX-License-Identifier: Apache-2.0
"""The field `template` of an Egress: labels and annotations of its routers, and the hosts that they may run on.

A router is a network namespace, so of a pod's specification only what chooses its host has a meaning here: the node
selector, and the required anti-affinity that keeps routers apart (Kubernetes, core/v1, PodSpec).
"""

from __future__ import annotations

from ..names import check_label_key, read_annotations, read_labels
from ..node import Fields, Node
from ..selector import read_selector

_NO_POD = "remove it: a router is a network namespace, and only what chooses its host has a meaning"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Fields of a PodSpec that say how a pod runs.
_OF_PODS = (
    "activeDeadlineSeconds", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers",
    "hostname", "imagePullSecrets", "initContainers", "nodeName", "os", "overhead", "preemptionPolicy", "priority",
    "priorityClassName", "readinessGates", "resourceClaims", "resources", "restartPolicy", "runtimeClassName",
    "schedulerName", "schedulingGates", "securityContext", "serviceAccount", "serviceAccountName",
    "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds", "tolerations",
    "topologySpreadConstraints", "volumes",
)  # fmt: skip


def read_template(node: Node | None) -> dict:
    """Return `labels`, `annotations`, `nodeSelector` (labels), and `apart`: how routers are kept apart.

    Each entry of `apart` has a `selector` of labels of routers and `topologyKey`, a label of hosts: two routers that
    the selector matches are never on hosts with the same value of it.
    """
    fields = node.mapping(("metadata", "spec")) if node else None
    metadata, spec = (fields.get(name) if fields else None for name in ("metadata", "spec"))
    known = metadata.mapping(("annotations", "labels")) if metadata else None
    pod = spec.mapping(("affinity", "nodeSelector"), dict.fromkeys(_OF_PODS, _NO_POD)) if spec else None
    return {
        "labels": read_labels(known.get("labels")) if known else {},
        "annotations": read_annotations(known.get("annotations")) if known else {},
        "nodeSelector": read_labels(pod.get("nodeSelector")) if pod else {},
        "apart": _read_affinity(pod.get("affinity")) if pod else [],
    }


def _read_affinity(node: Node | None) -> list[dict]:
    if node is None:
        return []
    fields = node.mapping(("podAntiAffinity", "podAffinity", "nodeAffinity"))
    _refuse(fields, ("podAffinity", "nodeAffinity"), "use nodeSelector, and podAntiAffinity to keep routers apart")
    anti = fields.get("podAntiAffinity")
    if anti is None:
        return []
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = anti.mapping((_REQUIRED, preferred))
    _refuse(terms, (preferred,), f"remove it, routers are spread anyway; {_REQUIRED} enforces it")
    required = terms.get(_REQUIRED)
    return [_read_term(item) for item in required.sequence()] if required else []


def _read_term(node: Node) -> dict:
    fields = node.mapping(("labelSelector", "topologyKey", "namespaces", "namespaceSelector"))
    _refuse(fields, ("namespaces", "namespaceSelector"), "remove it, routers of one Egress are in one namespace")
    field = fields.require("topologyKey", "name a label of hosts, as in kubernetes.io/hostname")
    key = field.text() if field else None
    if key is not None:
        check_label_key(field, key)
    return {"selector": read_selector(fields.get("labelSelector")), "topologyKey": key}


def _refuse(fields: Fields, names: tuple[str, ...], remedy: str) -> None:
    for name in names:
        field = fields.get(name)
        if field:
            field.refuse("is accepted by the API, not supported by Heddle", remedy)
