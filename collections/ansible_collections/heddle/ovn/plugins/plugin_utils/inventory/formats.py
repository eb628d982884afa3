# SPDX-License-Identifier: Apache-2.0
"""Formats of texts: each function returns the rule that a value breaks and the remedy, or None.

The option `format` in meta/variables/ has the name of a function.
"""

from __future__ import annotations

import ipaddress
import re

from ...module_utils.common.naming import INTEGRATION_BRIDGE, LINK_NAME, PHYSICAL_NETWORK

Mistake = tuple[str, str]

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_WORKLOAD = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LINK_REMEDY = "use 1 to 15 letters, digits, dots, hyphens and underscores, not beginning with a dot"


def address(text: str) -> Mistake | None:
    """An address that a host can have, without prefix length, as kernels write it.

    It is compared with what hosts report, as text.
    """
    found = _unicast(text)
    if found:
        return found
    one = ipaddress.ip_address(text)
    if one.version == 6 and one.ipv4_mapped:
        return f"{text} is an IPv4 address in IPv6 notation", f"write {one.ipv4_mapped}"
    if one.version == 6 and one.scope_id:
        return f"{text} has a zone", f"write {text.partition('%')[0]}"
    return None if text == str(one) else (f"{text} is not the standard notation (RFC 5952)", f"write {one}")


def _unicast(text: str) -> Mistake | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        remedy = "leave out the prefix length" if "/" in text else "write an IPv4 or IPv6 address"
        return f"{text!r} is no address", remedy
    for what in ("multicast", "loopback", "unspecified", "link_local"):
        if getattr(found, f"is_{what}") and not (what == "link_local" and found.version == 6):
            return (
                f"{text} is not a unicast address of a network: {what.replace('_', '-')}",
                "write an address that other hosts reach",
            )
    return None


def interface_address(text: str) -> Mistake | None:
    """An address with prefix length."""
    plain, slash, _length = text.partition("/")
    if not slash:
        return f"{text!r} has no prefix length", "write ADDRESS/PREFIX"
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return f"{text!r} is no address with prefix length", "write ADDRESS/PREFIX"
    return address(plain)


def interface(text: str) -> Mistake | None:
    """The name of a network interface (Linux, dev_valid_name; 15 characters)."""
    return None if LINK_NAME.fullmatch(text) else (f"{text!r} is no name of an interface", _LINK_REMEDY)


def bridge(text: str) -> Mistake | None:
    """The name of a bridge that Heddle makes."""
    if not LINK_NAME.fullmatch(text):
        return f"{text!r} is no name of a bridge", _LINK_REMEDY
    if text == INTEGRATION_BRIDGE:
        return f"{text} is the integration bridge", "choose another name"
    return None


def physical_network(text: str) -> Mistake | None:
    """The name of a physical network in ovn-bridge-mappings, where colons and commas separate."""
    if not text or set(text) & set(":, "):
        return f"{text!r} is no name of a physical network", "write it without colon, comma and space"
    if text == PHYSICAL_NETWORK:
        return f"{text} is reserved for the provider network", "choose another name"
    return None


def cgroup(text: str) -> Mistake | None:
    """A path below the root of the cgroups."""
    if ".." in text.split("/") or "\0" in text or text.startswith("/sys/"):
        return f"{text!r} is no path below the root of cgroups", "write one like system.slice/prober.service"
    return None


def name(text: str) -> Mistake | None:
    """The name of a deployment or of a set of manifests."""
    if _NAME.fullmatch(text):
        return None
    return f"{text!r} is no name", "use 1 to 63 letters, digits, dots, hyphens and underscores"


def workload(text: str) -> Mistake | None:
    """A workload as NAMESPACE/NAME."""
    return None if _WORKLOAD.fullmatch(text) else (f"{text!r} is no workload", "write NAMESPACE/NAME")


def remotes(text: str) -> Mistake | None:
    """Where OVSDB servers listen."""
    # Imported here since few inventories have it.
    from ...module_utils.ovsdb.protocol.remotes import parse_remotes

    try:
        parse_remotes(text)
    except ValueError as error:
        rule, _semicolon, remedy = str(error).partition("; ")
        return rule, remedy
    return None


def textfile(text: str) -> Mistake | None:
    """A file that node_exporter reads (its documentation, "Textfile Collector")."""
    if text.startswith("/") and text.endswith(".prom") and not set(text) & set(" \"'\n%"):
        return None
    return f"{text!r} is no file of node_exporter", "write an absolute path that ends with .prom"


def local_listener(text: str) -> Mistake | None:
    """Where something listens for the host itself: a unix socket, or a port of the loopback interface."""
    host, _colon, port = text.rpartition(":")
    if host in ("127.0.0.1", "[::1]") and port.isdecimal() and 0 < int(port) < 65536:
        return None
    if text.startswith("/") and not set(text) & set(" \n%"):
        return None
    return f"{text!r} is not on the host itself", "write 127.0.0.1:PORT, [::1]:PORT, or the path of a unix socket"


def watched(value) -> Mistake | None:
    """True, false, or addresses to ping."""
    if isinstance(value, list):
        return next((found for text in value if (found := _unicast(str(text)))), None)
    if str(value).lower() in ("true", "false", "yes", "no", "on", "off", "1", "0"):
        return None
    return f"{value!r} is neither true nor false nor a list of addresses", "write true or a list of addresses"
