# SPDX-License-Identifier: Apache-2.0
"""Cluster-wide settings, such as the address ranges common to all networks.

Defaults are ovn-kubernetes's, with the cluster subnets of its kind deployment and its wide masquerade range.
"""

from __future__ import annotations

import ipaddress
import re

from ..common.addressing import family, overlapping
from .coil_settings import SETTING as COIL
from .coil_settings import in_standard_notation as coil_in_standard_notation
from .coil_settings import mistakes as coil_mistakes
from .encapsulation import AUTO, CHOICES, CHOSEN_MTU
from .encapsulation import SETTING as ENCAPSULATION
from .layer2_version import SETTING as LAYER2_TOPOLOGY
from .layer2_version import TOPOLOGIES
from .shared_services import SETTING as SHARED_SERVICES
from .shared_services import in_standard_notation as service_in_standard_notation
from .shared_services import mistakes as service_mistakes

# Whether a user-defined network is only on nodes that need it, and the seconds for which it stays on one that no longer
# does (ovn-kubernetes, enable-dynamic-udn-allocation and udn-deletion-grace-period).
DYNAMIC_NETWORKS = "dynamic_networks"
GRACE_PERIOD = "dynamic_networks_grace_period"
# The domain that names of Services and workloads end with; without one there are no names.
CLUSTER_DOMAIN = "cluster_domain"
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_LONGEST_DOMAIN = 100
# Where workloads of namespaces without a primary network and without a pool are: OVN's default network, or the pool
# `default` (Coil v2).
DEFAULT_NETWORK_KIND = "default_network"
DEFAULT_NETWORK_KINDS = ("ovn", "coil")
# Whether what answers a connection to a client of an Egress leaves as if there was no Egress (Coil,
# enable-originating-only).
ORIGINATING_ONLY = "egress_originating_only"
# Whether hosts have Open vSwitch and OVN. Without them there are address pools alone, by default the pool `default`.
OVN = "ovn"
DEFAULTS = {
    "cluster_subnets": ["10.244.0.0/16/24", "fd00:10:244::/48/64"],
    "service_subnets": ["10.96.0.0/16", "fd00:10:96::/112"],
    "join_subnets": ["100.64.0.0/16", "fd98::/64"],
    "network_join_subnets": ["100.65.0.0/16", "fd99::/64"],
    "transit_subnets": ["100.88.0.0/16", "fd97::/64"],
    "masquerade_subnets": ["169.254.0.0/17", "fd69::/112"],
    CLUSTER_DOMAIN: "cluster.local",
    "mtu": 1400,
    "networks_total": 4095,
    "networks_per_namespace": 0,
    LAYER2_TOPOLOGY: "transit-router",
    SHARED_SERVICES: [],
    DYNAMIC_NETWORKS: True,
    GRACE_PERIOD: 120,
    DEFAULT_NETWORK_KIND: "ovn",
    COIL: {},
    ORIGINATING_ONLY: False,
    OVN: True,
    ENCAPSULATION: "geneve",
}
# Hosts and routers have one address of each range, so there is one range per family.
_ONE_OF_A_FAMILY = ("join_subnets", "network_join_subnets", "transit_subnets", "masquerade_subnets")
_HOST_PREFIXES = {4: 24, 6: 64}
# Maximum number of networks; 0 is no limit.
LIMITS = ("networks_total", "networks_per_namespace")
# What the plan is made with; no host needs it.
NOT_IN_PLAN = (
    *LIMITS,
    DYNAMIC_NETWORKS,
    GRACE_PERIOD,
    DEFAULT_NETWORK_KIND,
    COIL,
    ORIGINATING_ONLY,
    OVN,
    ENCAPSULATION,
)


def complete(given: dict | None) -> dict:
    """Return the settings with defaults filled in; ValueError names every setting that is unknown or malformed."""
    settings, mistakes = examine(given)
    if mistakes:
        raise ValueError("; ".join(mistakes))
    return settings


def examine(given: dict | None) -> tuple[dict, list[str]]:
    """Return the settings with defaults filled in, and a line for each that is unknown or malformed.

    Without mistakes subnets and addresses are as the `ipaddress` module writes them: they are compared as text later.
    """
    given = {name: value for name, value in (given or {}).items() if value is not None}
    mistakes = [
        f"unknown setting {name}; known are {', '.join(DEFAULTS)}"
        for name in sorted(set(given) - set(DEFAULTS), key=str)
    ]
    settings = {name: given.get(name, default) for name, default in DEFAULTS.items()}
    for name, value in settings.items():
        if name.endswith("_subnets"):
            mistakes += [f"setting {name}: {mistake}" for mistake in _mistakes(name, value)]
    if not isinstance(settings["mtu"], int) or not 576 <= settings["mtu"] <= 65535:
        mistakes.append(f"setting mtu: must be a number from 576 to 65535, not {settings['mtu']!r}")
    for name in LIMITS:
        if not isinstance(settings[name], int) or isinstance(settings[name], bool) or settings[name] < 0:
            mistakes.append(f"setting {name}: must be a number, 0 for no limit, not {settings[name]!r}")
    mistakes += _domain_mistakes(settings[CLUSTER_DOMAIN]) + _dynamic_mistakes(settings)
    mistakes += [f"setting {COIL}: {mistake}" for mistake in coil_mistakes(settings[COIL])]
    if settings[DEFAULT_NETWORK_KIND] not in DEFAULT_NETWORK_KINDS:
        known = " or ".join(DEFAULT_NETWORK_KINDS)
        mistakes.append(f"setting {DEFAULT_NETWORK_KIND}: must be {known}, not {settings[DEFAULT_NETWORK_KIND]!r}")
    if settings[ENCAPSULATION] not in list(CHOICES):
        known = ", ".join(CHOICES)
        mistakes.append(f"setting {ENCAPSULATION}: must be one of {known}, not {settings[ENCAPSULATION]!r}")
    if settings[LAYER2_TOPOLOGY] not in list(TOPOLOGIES):
        known = " or ".join(TOPOLOGIES)
        mistakes.append(f"setting {LAYER2_TOPOLOGY}: must be {known}, not {settings[LAYER2_TOPOLOGY]!r}")
    if not mistakes:
        services = service_mistakes(settings[SHARED_SERVICES], settings["service_subnets"])
        mistakes += _overlaps(settings) + [f"setting {SHARED_SERVICES}: {mistake}" for mistake in services]
    if settings[ENCAPSULATION] == AUTO and "mtu" not in given:
        settings["mtu"] = CHOSEN_MTU
    return settings if mistakes else _in_standard_notation(settings), mistakes


def _in_standard_notation(settings: dict) -> dict:
    subnets = {name: [*map(standard_subnet, value)] for name, value in settings.items() if name.endswith("_subnets")}
    services = [*map(service_in_standard_notation, settings[SHARED_SERVICES])]
    return {**settings, **subnets, SHARED_SERVICES: services, COIL: coil_in_standard_notation(settings[COIL])}


def standard_subnet(text: str) -> str:
    """Return ADDRESS/PREFIX, or ADDRESS/PREFIX/HOST_PREFIX, as the `ipaddress` module writes it."""
    address, length, *of_hosts = text.split("/")
    return "/".join([str(ipaddress.ip_network(f"{address}/{length}")), *(str(int(part)) for part in of_hosts)])


def _domain_mistakes(domain) -> list[str]:
    """A name of a Service and of its namespace have up to 63 characters each, a whole name 253 (RFC 1035, 2.3.4)."""
    is_name = isinstance(domain, str) and re.fullmatch(rf"({_LABEL}(\.{_LABEL})*)?", domain)
    if is_name and len(domain) <= _LONGEST_DOMAIN:
        return []
    rule = f"must be a domain in lower case of up to {_LONGEST_DOMAIN} characters, such as cluster.local"
    return [f"setting {CLUSTER_DOMAIN}: {rule}, not {domain!r}"]


def _dynamic_mistakes(settings: dict) -> list[str]:
    period = settings[GRACE_PERIOD]
    found = [
        f"setting {name}: must be true or false, not {settings[name]!r}"
        for name in (DYNAMIC_NETWORKS, ORIGINATING_ONLY, OVN)
        if not isinstance(settings[name], bool)
    ]
    if not isinstance(period, int) or isinstance(period, bool) or period < 0:
        found.append(f"setting {GRACE_PERIOD}: must be a number of seconds, 0 for at once, not {period!r}")
    return found


def _mistakes(name: str, value) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        return [f"must be a list of subnets, not {value!r}"]
    mistakes = [mistake for text in value for mistake in _subnet_mistakes(name, text)]
    if not mistakes and name in _ONE_OF_A_FAMILY and len({":" in text for text in value}) < len(value):
        mistakes.append(f"must have one subnet of each family, not {', '.join(value)}")
    return mistakes


def _subnet_mistakes(name: str, text: str) -> list[str]:
    parts = text.split("/")
    shape = "ADDRESS/PREFIX or ADDRESS/PREFIX/HOST_PREFIX" if name == "cluster_subnets" else "ADDRESS/PREFIX"
    if not 2 <= len(parts) <= (3 if name == "cluster_subnets" else 2) or not all(
        part.isdecimal() for part in parts[1:]
    ):
        return [f"{text}: must be {shape}"]
    try:
        network = ipaddress.ip_network("/".join(parts[:2]))
    except ValueError as error:
        return [f"{text}: {error}"]
    of_hosts = int(parts[2]) if len(parts) == 3 else _HOST_PREFIXES[network.version]
    if name == "cluster_subnets" and not network.prefixlen <= of_hosts <= network.max_prefixlen:
        return [f"{text}: HOST_PREFIX must be from {network.prefixlen} to {network.max_prefixlen}, not {of_hosts}"]
    return []


def _overlaps(settings: dict) -> list[str]:
    """Ranges used on the same router must differ; those of the networks' join subnets are on separate routers."""
    ranges = shared_ranges(settings)
    return [
        f"setting {one}: {first} overlaps with {second} of {other}"
        for index, (one, first) in enumerate(ranges)
        for other, second in ranges[index + 1 :]
        if overlapping(first, second)
    ]


def shared_ranges(settings: dict) -> list[tuple[str, str]]:
    """Return each range that all networks share with the setting that has it; join subnets of networks are apart."""
    names = [name for name in DEFAULTS if name.endswith("_subnets") and name != "network_join_subnets"]
    return [(name, "/".join(text.split("/")[:2])) for name in names for text in settings[name]]


def cluster_subnets(settings: dict) -> list[dict]:
    """Return the default network's subnets as a manifest would give them: `cidr` and `hostSubnet`."""
    subnets = []
    for text in settings["cluster_subnets"]:
        cidr, _slash, host_prefix = text.rpartition("/") if text.count("/") == 2 else (text, "", "")
        subnets.append({"cidr": cidr, "hostSubnet": int(host_prefix or _HOST_PREFIXES[family(cidr)])})
    return subnets
