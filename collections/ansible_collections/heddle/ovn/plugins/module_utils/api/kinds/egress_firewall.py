# SPDX-License-Identifier: Apache-2.0
"""EgressFirewall: where the workloads of a namespace may connect to beyond their network (k8s.ovn.org/v1)."""

from __future__ import annotations

import re

from ..addresses import read_cidr
from ..kind import Kind
from ..names import read_default_name
from ..node import Node
from ..problem import show
from ..selector import read_selector
from ..services.ports import read_port_number

_TYPES = ("Allow", "Deny")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TARGETS = ("cidrSelector", "dnsName", "nodeSelector")
# The API's rule for a name, which may begin with a wildcard (ovn-kubernetes, crd/egressfirewall/v1/types.go).
_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?({_LABEL}\.)*{_LABEL}\.?", re.ASCII)
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
# ovn-kubernetes: priorities 10000 down to 2000.
_MOST_RULES = 8000


def _read_spec(node: Node) -> dict:
    """The normalised spec.

    ``{"egress": [{"type": "Allow" | "Deny", "cidr": str | None, "dnsName": str | None, "nodeSelector": selector | None,
    "ports": [{"protocol": str, "port": int}]}]}``; a rule without ports is about all of them.
    """
    fields = node.mapping(("egress",))
    rules = fields.require("egress", "list the rules; the first one that matches applies")
    return {"egress": [_read_rule(item) for item in rules.sequence(most=_MOST_RULES)] if rules else []}


def _read_rule(node: Node) -> dict:
    fields = node.mapping(("type", "to", "ports"))
    kind, target, ports = fields.require("type", "write Allow or Deny"), fields.require("to"), fields.get("ports")
    return {
        "type": kind.choice(_TYPES) if kind else None,
        **(_read_target(target) if target else {"cidr": None, "dnsName": None, "nodeSelector": None}),
        "ports": [_read_port(item) for item in ports.sequence()] if ports else [],
    }


def _read_target(node: Node) -> dict:
    fields = node.mapping(_TARGETS)
    cidr, name, nodes = map(fields.get, _TARGETS)
    if sum(one is not None for one in (cidr, name, nodes)) != 1:
        node.refuse("Invalid value: must have exactly one of cidrSelector, dnsName and nodeSelector")
    found = read_cidr(cidr) if cidr else None
    return {
        "cidr": str(found.value) if found else None,
        "dnsName": _read_dns_name(name) if name else None,
        "nodeSelector": read_selector(nodes) if nodes else None,
    }


def _read_dns_name(node: Node) -> str | None:
    """The name in lower case, without the dot that may end it."""
    text = node.text()
    if text is None:
        return None
    if not _DNS_NAME.fullmatch(text):
        node.refuse(f"Invalid value: {show(text)}: should match '^{_DNS_NAME.pattern}$'")
        return None
    name = text.lower().rstrip(".")
    if name.startswith("*."):
        node.refuse(
            f"Invalid value: {show(text)}: a name with a wildcard cannot be resolved",
            "list each name in a rule of its own",
        )
    elif len(name) > _LONGEST_NAME or any(len(label) > _LONGEST_LABEL for label in name.split(".")):
        node.refuse(f"Too long: a name has at most {_LONGEST_NAME} characters, and each label {_LONGEST_LABEL}")
    return name


def _read_port(node: Node) -> dict:
    fields = node.mapping(("protocol", "port"))
    protocol, port = fields.require("protocol", f"use one of {', '.join(_PROTOCOLS)}"), fields.require("port")
    return {
        "protocol": protocol.choice(_PROTOCOLS) if protocol else None,
        "port": read_port_number(port) if port else None,
    }


KIND = Kind(
    name="EgressFirewall",
    api_versions=("k8s.ovn.org/v1",),
    namespaced=True,
    default_namespace="default",
    read_spec=_read_spec,
    read_name=read_default_name,
)
