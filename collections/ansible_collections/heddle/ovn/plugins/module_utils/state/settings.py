# SPDX-License-Identifier: Apache-2.0
"""Cluster-wide settings: the address ranges that every network shares.

Defaults are ovn-kubernetes's, with the cluster subnets of its kind deployment and its wide masquerade range.
"""

from __future__ import annotations

import ipaddress

from ..addressing import overlapping
from .layer2_version import SETTING as LAYER2_TOPOLOGY
from .layer2_version import TOPOLOGIES
from .shared_services import SETTING as SHARED_SERVICES
from .shared_services import mistakes as service_mistakes

DEFAULTS = {
    "cluster_subnets": ["10.244.0.0/16/24", "fd00:10:244::/48/64"],
    "service_subnets": ["10.96.0.0/16", "fd00:10:96::/112"],
    "join_subnets": ["100.64.0.0/16", "fd98::/64"],
    "network_join_subnets": ["100.65.0.0/16", "fd99::/64"],
    "transit_subnets": ["100.88.0.0/16", "fd97::/64"],
    "masquerade_subnets": ["169.254.0.0/17", "fd69::/112"],
    "mtu": 1400,
    "networks_total": 4095,
    "networks_per_namespace": 0,
    LAYER2_TOPOLOGY: "transit-router",
    SHARED_SERVICES: [],
}
# How many networks there may be; 0 is no limit. Hosts need not know them.
LIMITS = ("networks_total", "networks_per_namespace")


def complete(given: dict | None) -> dict:
    """Return the settings with defaults filled in; ValueError names every setting that is unknown or malformed."""
    given = {name: value for name, value in (given or {}).items() if value is not None}
    mistakes = [
        f"unknown setting {name}; known are {', '.join(DEFAULTS)}" for name in sorted(set(given) - set(DEFAULTS))
    ]
    settings = {**DEFAULTS, **given}
    for name, value in settings.items():
        if name.endswith("_subnets"):
            mistakes += [f"setting {name}: {mistake}" for mistake in _mistakes(value)]
    if not isinstance(settings["mtu"], int) or not 576 <= settings["mtu"] <= 65535:
        mistakes.append(f"setting mtu: must be a number from 576 to 65535, not {settings['mtu']!r}")
    for name in LIMITS:
        if not isinstance(settings[name], int) or isinstance(settings[name], bool) or settings[name] < 0:
            mistakes.append(f"setting {name}: must be a number, 0 for no limit, not {settings[name]!r}")
    if settings[LAYER2_TOPOLOGY] not in TOPOLOGIES:
        known = " or ".join(TOPOLOGIES)
        mistakes.append(f"setting {LAYER2_TOPOLOGY}: must be {known}, not {settings[LAYER2_TOPOLOGY]!r}")
    if not mistakes:
        services = service_mistakes(settings[SHARED_SERVICES], settings["service_subnets"])
        mistakes += _overlaps(settings) + [f"setting {SHARED_SERVICES}: {mistake}" for mistake in services]
    if mistakes:
        raise ValueError("; ".join(mistakes))
    return settings


def _mistakes(value) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        return [f"must be a list of subnets, not {value!r}"]
    mistakes = []
    for text in value:
        cidr, _slash, host_prefix = text.rpartition("/") if text.count("/") == 2 else (text, "", "64")
        try:
            ipaddress.ip_network(cidr)
            int(host_prefix)
        except ValueError as error:
            mistakes.append(f"{text}: {error}")
    return mistakes


def _overlaps(settings: dict) -> list[str]:
    """Ranges that meet on one router must differ; that of the networks' joins is behind routers of its own."""
    names = [name for name in DEFAULTS if name.endswith("_subnets") and name != "network_join_subnets"]
    ranges = [(name, "/".join(text.split("/")[:2])) for name in names for text in settings[name]]
    return [
        f"setting {one}: {first} overlaps with {second} of {other}"
        for index, (one, first) in enumerate(ranges)
        for other, second in ranges[index + 1 :]
        if overlapping(first, second)
    ]


def cluster_subnets(settings: dict) -> list[dict]:
    """Return the default network's subnets as a manifest would give them: `cidr` and `hostSubnet`."""
    subnets = []
    for text in settings["cluster_subnets"]:
        cidr, _slash, host_prefix = text.rpartition("/") if text.count("/") == 2 else (text, "", "")
        subnets.append({"cidr": cidr, "hostSubnet": int(host_prefix or (64 if ":" in cidr else 24))})
    return subnets
