# SPDX-License-Identifier: Apache-2.0
"""Rules for Services of the type ExternalName (core/v1, `ValidateService`): an alias has no addresses of its own."""

from __future__ import annotations

from ..names import is_dns_subdomain
from ..node import Fields, Node
from ..problem import show

_FORBIDDEN = "Forbidden: may not be set for ExternalName services"
_ONE_ADDRESS = "clusterIP"


def refuse_missing_name(fields: Fields) -> None:
    """Note an ``externalName`` that is missing or is no name; a dot at its end is allowed."""
    node = fields.get("externalName")
    written = "" if node is None else node.text()
    if written is None:
        return
    if not (name := written.removesuffix(".")):
        fields.place("externalName").refuse("Required value", "write the name that the Service is an alias of")
    elif not is_dns_subdomain(name):
        node.refuse(
            f"Invalid value: {show(name)}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
            "characters, '-' or '.', and must start and end with an alphanumeric character"
        )


def refuse_addresses(fields: Fields) -> None:
    """Note the fields for addresses and their families, of which such a Service has none."""
    for name in (_ONE_ADDRESS, "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if (field := fields.get(name)) and not _is_empty(field):
            field.refuse(_FORBIDDEN, "remove it, or choose another type")


def _is_empty(field: Node) -> bool:
    """Return whether a field counts as left out: an empty list, or `clusterIP` without text."""
    return field.value == [] or (field.value == "" and field.path[-1] == _ONE_ADDRESS)
