# SPDX-License-Identifier: Apache-2.0
"""Egress (coil.cybozu.com/v2): routers that translate source addresses, for workloads that ask for them.

Schema and rules are those of Coil's CRD and its admission webhook (v2/api/v2/egress_types.go).
"""

from __future__ import annotations

from ..addresses import parse_cidr
from ..coil.coil import COIL_VERSIONS
from ..coil.disruption import read_disruption_budget
from ..coil.egress_template import read_template
from ..kind import Kind
from ..names import read_dns_1035_label
from ..node import Node
from ..problem import show
from ..services.session_affinity import CLIENT_IP, read_session_affinity

_STRATEGIES = ("Recreate", "RollingUpdate")
# More are more than one Deployment of a large cluster has; the limit keeps a mistyped number from filling the hosts.
_MOST_REPLICAS = 1000
_MOST_DESTINATIONS = 1000
# The names of routers are NAME-NUMBER, and DNS labels.
_LONGEST_NAME = 58
_FIELDS = (
    "destinations", "replicas", "strategy", "template", "sessionAffinity", "sessionAffinityConfig",
    "fouSourcePortAuto", "podDisruptionBudget",
)  # fmt: skip


def _read_name(node: Node) -> str | None:
    name = read_dns_1035_label(node)
    if name is not None and len(name) > _LONGEST_NAME:
        node.refuse(
            f"Too long: may not be more than {_LONGEST_NAME} bytes: its routers are called NAME-NUMBER",
            "choose a shorter name",
        )
        return None
    return name


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("Required value", "add it with destinations")
        return None
    fields = node.mapping(_FIELDS)
    destinations = fields.require("destinations", "list the networks that clients reach through it, as in 0.0.0.0/0")
    replicas, strategy, auto = (fields.get(name) for name in ("replicas", "strategy", "fouSourcePortAuto"))
    if strategy:
        _check_strategy(strategy)
    return {
        "destinations": _read_destinations(destinations) if destinations else [],
        "replicas": (replicas.integer(1, _MOST_REPLICAS) or 1) if replicas else 1,
        "template": read_template(fields.get("template")),
        # Seconds for which a client stays with a router, 0 for none: then each flow has a router of its own.
        "affinity": read_session_affinity(fields, CLIENT_IP),
        "fouSourcePortAuto": bool(auto.boolean()) if auto else False,
        "podDisruptionBudget": read_disruption_budget(fields.get("podDisruptionBudget")),
    }


def _read_destinations(node: Node) -> list[str]:
    """Networks as canonical text; those that are written twice are kept once."""
    found = []
    for item in node.sequence(1, _MOST_DESTINATIONS):
        text = item.text()
        parsed = None if text is None else parse_cidr(text)
        if parsed is not None:
            found.append(str(parsed[1]))
        elif text is not None:
            item.refuse(
                f"Invalid value: {show(text)}: invalid CIDR address: {text}",
                "write a network and a prefix length, as in 0.0.0.0/0 or 2001:db8::/32",
            )
    return list(dict.fromkeys(found))


def _check_strategy(node: Node) -> None:
    fields = node.mapping(("type", "rollingUpdate"))
    kind = fields.get("type")
    if kind is None:
        supported = ", ".join(map(show, _STRATEGIES))
        fields.place("type").refuse(
            f'Unsupported value: "": supported values: {supported}', f"set it to {_STRATEGIES[0]}"
        )
    else:
        kind.choice(_STRATEGIES)


KIND = Kind(
    name="Egress",
    api_versions=COIL_VERSIONS,
    namespaced=True,
    # As kubectl has it.
    default_namespace="default",
    read_spec=_read_spec,
    read_name=_read_name,
)
