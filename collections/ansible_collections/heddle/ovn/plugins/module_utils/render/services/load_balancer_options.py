# SPDX-License-Identifier: Apache-2.0
"""What all load balancers of Services have in common (ovn-nb(5), Load_Balancer; ovn-kubernetes's values)."""

from __future__ import annotations

from ..common.node_network import NodeNetwork

_HAIRPIN_MASQUERADE = 5
# A port without targets answers with a TCP reset or an ICMP error.
OPTIONS = {"reject": "true", "event": "false", "skip_snat": "false", "neighbor_responder": "none"}


def hairpin_options(view: NodeNetwork) -> dict:
    """Return the option with the source addresses that a workload sees when it is its own endpoint."""
    return {"hairpin_snat_ip": " ".join(view.masquerade(_HAIRPIN_MASQUERADE))}


def socket(address: str, port: int) -> str:
    """Return an address and a port as OVN writes them."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
