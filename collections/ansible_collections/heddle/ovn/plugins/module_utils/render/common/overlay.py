# SPDX-License-Identifier: Apache-2.0
"""The encapsulation of the networks of a plan."""

from __future__ import annotations

from ...types.encapsulation import GENEVE, OVERLAYS, Encapsulation


def overlay_of(plan: dict) -> Encapsulation:
    """Return the encapsulation of the networks; in a plan that names none it is Geneve."""
    return OVERLAYS[plan.get("encapsulation", GENEVE.kind)]


def transit_options(plan: dict) -> dict[str, str]:
    """Return the options of a transit switch that keep its key apart from those that northd chooses (ovn-nb(5))."""
    return {} if overlay_of(plan) is GENEVE else {"ic-vxlan_mode": "true"}


def carries_ingress_port(plan: dict) -> bool:
    """Return whether a host learns from which logical port a tunnelled packet comes.

    VXLAN has no room for it (ovn-architecture(7), "Tunnel Encapsulations").
    """
    return overlay_of(plan) is GENEVE
