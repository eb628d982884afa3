# SPDX-License-Identifier: Apache-2.0
"""What all load balancers of Services have in common (ovn-nb(5), Load_Balancer; ovn-kubernetes's values)."""

from __future__ import annotations

from ..common.node_network import NodeNetwork

_HAIRPIN_MASQUERADE = 5
# A port without targets answers with a TCP reset or an ICMP error.
_OPTIONS = {"reject": "true", "event": "false", "neighbor_responder": "none"}


def options_of(view: NodeNetwork, protocol: str, vips: dict[str, str], *, keeps_source: bool = False) -> dict:
    """Return the options of a load balancer, with the source addresses that a workload sees that is its own endpoint.

    One without any target keeps source addresses: a gateway router translates its own TCP resets and ICMP errors
    otherwise, as if they were requests, and they get the wrong source (northd of OVN 25.03, `lr_out_snat`).
    """
    return {
        **_OPTIONS,
        # OVN chooses an endpoint for the first packet of a connection. Datagrams of one source port never begin another
        # one while they follow each other, so ovn-controller ends those to endpoints that are gone. Connections of
        # other protocols end by themselves, as with ovn-kubernetes and kube-proxy, which end those of UDP only.
        **({"ct_flush": "true"} if protocol == "UDP" else {}),
        "skip_snat": "true" if keeps_source or not any(vips.values()) else "false",
        "hairpin_snat_ip": " ".join(view.masquerade(_HAIRPIN_MASQUERADE)),
    }


def socket(address: str, port: int) -> str:
    """Return an address and a port as OVN writes them."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
