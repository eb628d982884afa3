# SPDX-License-Identifier: Apache-2.0
"""Writes VRFs, addresses, routes, rules, neighbours and settings of a network namespace through one netlink socket.

It decides nothing; `reconcile.py` does.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

from ..types.host_network import PROTOCOL
from . import kernel
from .main_table import copied_attributes
from .protocol.messages import FAMILIES
from .protocol.raw_socket import CREATE, REPLACE, RawSocket, attribute
from .protocol.rtnetlink import (
    FIB_RULE_INVERT,
    FR_ACT_GOTO,
    FR_ACT_TO_TBL,
    IFA_ADDRESS,
    IFA_CACHEINFO,
    IFA_F_NODAD,
    IFA_F_NOPREFIXROUTE,
    IFA_FLAGS,
    IFA_LOCAL,
    IFA_PROTO,
    IFADDRMSG,
    IFINFOMSG,
    IFLA_IFNAME,
    RT_SCOPE_LINK,
    RT_SCOPE_UNIVERSE,
    RTM_DELADDR,
    RTM_GETLINK,
    RTM_NEWADDR,
    RTNH_F_ONLINK,
)
from .reader import KINDS, NEIGHBOUR_PERMANENT, HostState, RouteState, RuleState, read_state

try:
    from pyroute2 import IPRoute
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, rtnl
    from pyroute2.netlink.rtnl.fibmsg import fibmsg
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

    from .reader import AddressMessage, NeighbourMessage
except ImportError:
    IPRoute = None

_NO_IPV6 = (errno.EACCES, errno.EAFNOSUPPORT, errno.EOPNOTSUPP)
# ifa_cacheinfo of linux/if_addr.h: never preferred, valid for ever.
_DEPRECATED = struct.pack("=IIII", 0, 0xFFFFFFFF, 0, 0)


class HostKernel:
    """Netlink handle of the namespace in which this was created; usable as a context manager."""

    def __init__(self) -> None:
        self._netlink = IPRoute()
        known = {rtnl.RTM_NEWADDR: AddressMessage, rtnl.RTM_NEWNEIGH: NeighbourMessage}
        self._netlink.marshal.msg_map = {**self._netlink.marshal.msg_map, **known}
        self._raw = RawSocket()

    def __enter__(self) -> HostKernel:
        return self

    def __exit__(self, *_exception) -> None:
        self._netlink.close()
        self._raw.close()

    def read(self) -> HostState:
        """Return links, addresses, routes of all tables, rules and neighbours of this network namespace.

        Raises NetlinkFailure or OSError when the kernel refuses one of the dumps (rtnetlink(7)).
        """
        return read_state(self._netlink, self._raw)

    def has_link(self, name: str) -> bool:
        """Return whether there is a link of that name."""
        return bool(self._netlink.link_lookup(ifname=name))

    def create_vrf(self, name: str, table: int, mark: str) -> None:
        """Create a VRF, marked and up."""
        self._netlink.link("add", ifname=name, kind="vrf", vrf_table=table)
        self.change_link(name, ifalias=mark, state="up")

    def remove_link(self, name: str) -> None:
        """Remove a link; a missing one is no error."""
        with _gone(errno.ENODEV):
            self._netlink.link("del", index=self._index(name))

    def change_link(self, name: str, **settings) -> None:
        """Set attributes of a link: `address`, `mtu`, `state`, `ifalias`."""
        self._netlink.link("set", index=self._index(name), **settings)

    def set_master(self, name: str, master: str) -> None:
        """Make a link a port of another one; "" removes it."""
        self._netlink.link("set", index=self._index(name), master=self._index(master) if master else 0)

    def add_address(self, device: str, address: str, *, deprecated: bool, prefix_route: bool) -> None:
        """Add an address with the mark, without duplicate address detection."""
        family = 6 if ":" in address else 4
        flags = (IFA_F_NODAD if family == 6 else 0) | (0 if prefix_route else IFA_F_NOPREFIXROUTE)
        message = self._address(device, address) + attribute(IFA_FLAGS, flags) + attribute(IFA_PROTO, bytes([PROTOCOL]))
        if deprecated:
            message += attribute(IFA_CACHEINFO, _DEPRECATED)
        try:
            self._raw.request((RTM_NEWADDR, CREATE | REPLACE, message))
        except OSError as error:
            if family == 6 and error.errno in _NO_IPV6:
                reason = f"IPv6 is switched off on {device} (net.ipv6.conf.{device}.disable_ipv6), and networks need it"
                raise OSError(error.errno, reason) from error
            raise

    def remove_address(self, device: str, address: str) -> None:
        """Remove an address; a missing one is no error."""
        with _gone(errno.EADDRNOTAVAIL):
            self._raw.request((RTM_DELADDR, 0, self._address(device, address)))

    def set_route(self, table: int, to: str, metric: int, route: RouteState) -> None:
        """Add a route with the mark, or replace the one in its place."""
        text, _slash, length = to.partition("/")
        family = 6 if ":" in text else 4
        connected = family == 4 and route.kind == "unicast" and not route.via
        message = rtmsg()
        message["family"], message["dst_len"] = FAMILIES[family], int(length)
        message["table"] = table if table < 256 else 0
        message["proto"], message["type"] = PROTOCOL, KINDS[route.kind]
        message["scope"] = RT_SCOPE_LINK if connected else RT_SCOPE_UNIVERSE
        message["flags"] = RTNH_F_ONLINK if route.on_link else 0
        attributes = {
            "RTA_TABLE": table,
            "RTA_PRIORITY": metric,
            "RTA_DST": text if int(length) else None,
            "RTA_GATEWAY": route.via or None,
            "RTA_PREFSRC": route.source or None,
            "RTA_METRICS": {"attrs": [("RTAX_MTU", route.mtu)]} if route.mtu else None,
            "RTA_OIF": self._index(route.device) if route.device else None,
        }
        message["attrs"] = [(name, value) for name, value in attributes.items() if value is not None]
        self._send(message, rtnl.RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE)

    def copy_route(self, table: int, found) -> None:
        """Add a route like one of the kernel's messages to another table, with the mark, or replace it there."""
        message = rtmsg()
        for name in ("family", "dst_len", "src_len", "tos", "scope", "type"):
            message[name] = found[name]
        message["flags"] = found["flags"] & RTNH_F_ONLINK
        message["table"], message["proto"] = table if table < 256 else 0, PROTOCOL
        message["attrs"] = [*copied_attributes(found), ("RTA_TABLE", table)]
        self._send(message, rtnl.RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE)

    def remove_route(self, found) -> None:
        """Remove a route by the kernel's own message; a missing one is no error."""
        message = rtmsg()
        for name in ("family", "dst_len", "src_len", "tos", "table", "proto", "scope", "type"):
            message[name] = found[name]
        kept = ("RTA_TABLE", "RTA_DST", "RTA_PRIORITY", "RTA_OIF", "RTA_GATEWAY")
        message["attrs"] = [(name, value) for name, value in found["attrs"] if name in kept]
        with _gone(errno.ESRCH):
            self._send(message, rtnl.RTM_DELROUTE, 0)

    def add_rule(self, rule: RuleState) -> None:
        """Add a rule with the mark."""
        text, _slash, length = rule.to.partition("/")
        message = fibmsg()
        message["family"], message["dst_len"] = FAMILIES[rule.family], int(length or 0)
        message["action"] = FR_ACT_GOTO if rule.goto else FR_ACT_TO_TBL
        message["flags"] = FIB_RULE_INVERT if rule.inverted else 0
        attributes = [("FRA_PRIORITY", rule.priority), ("FRA_PROTOCOL", PROTOCOL)]
        attributes.append(("FRA_GOTO", rule.goto) if rule.goto else ("FRA_TABLE", rule.table))
        if rule.to:
            attributes.append(("FRA_DST", text))
        if rule.source:
            address, _slash, length = rule.source.partition("/")
            message["src_len"] = int(length)
            attributes.append(("FRA_SRC", address))
        if rule.source_port:
            attributes.append(("FRA_SPORT_RANGE", f"{rule.source_port}:{rule.source_port}"))
        if rule.fwmark:
            attributes += [("FRA_FWMARK", rule.fwmark), ("FRA_FWMASK", rule.fwmask)]
        message["attrs"] = attributes
        with _no_error(errno.EEXIST):
            self._send(message, rtnl.RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL)

    def remove_rule(self, found) -> None:
        """Remove a rule by the kernel's own message; a missing one is no error."""
        message = fibmsg()
        for name in ("family", "dst_len", "src_len", "tos", "table", "action", "flags"):
            message[name] = found[name]
        message["attrs"] = list(found["attrs"])
        with _gone(errno.ENOENT):
            self._send(message, rtnl.RTM_DELRULE, 0)

    def set_neighbour(self, device: str, address: str, mac: str) -> None:
        """Set a permanent neighbour with the mark."""
        message = NeighbourMessage()
        message["family"] = FAMILIES[6 if ":" in address else 4]
        message["state"] = NEIGHBOUR_PERMANENT
        message["ifindex"] = self._index(device)
        message["attrs"] = [("NDA_DST", address), ("NDA_LLADDR", mac), ("NDA_PROTOCOL", PROTOCOL)]
        self._send(message, rtnl.RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE)

    def remove_neighbour(self, device: str, address: str) -> None:
        """Remove a neighbour; a missing one is no error."""
        with _gone(errno.ENOENT):
            family = FAMILIES[6 if ":" in address else 4]
            self._netlink.neigh("del", dst=address, ifindex=self._index(device), family=family)

    def read_sysctl(self, name: str) -> str | None:
        """Return a kernel setting with one blank between its words, or None when the kernel does not have it."""
        try:
            with open(f"/proc/sys/{name}", encoding="utf-8") as value:
                return " ".join(value.read().split())
        except FileNotFoundError:
            return None

    def promotes(self, device: str) -> bool:
        """Return whether secondary IPv4 addresses of a device stay when the primary one goes."""
        names = (f"net/ipv4/conf/{scope}/promote_secondaries" for scope in ("all", device))
        return any(self.read_sysctl(name) not in (None, "0") for name in names)

    def write_sysctl(self, name: str, value: str) -> None:
        """Set a kernel setting until the next boot."""
        with open(f"/proc/sys/{name}", "w", encoding="utf-8") as setting:
            setting.write(value)

    def _address(self, device: str, address: str) -> bytes:
        text, _slash, length = address.partition("/")
        family = FAMILIES[6 if ":" in text else 4]
        packed = socket.inet_pton(family, text)
        message = IFADDRMSG.pack(family, int(length), 0, RT_SCOPE_UNIVERSE, self._index(device))
        return message + attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed)

    def _index(self, name: str) -> int:
        # pyroute2 would decode all links of the host.
        try:
            link = self._raw.ask(RTM_GETLINK, IFINFOMSG.pack(0, 0, 0, 0, 0) + attribute(IFLA_IFNAME, name))
        except OSError as error:
            if error.errno == errno.ENODEV:
                raise OSError(errno.ENODEV, f"there is no link {name}") from error
            raise
        return IFINFOMSG.unpack_from(link)[2]

    def _send(self, message, kind: int, flags: int) -> None:
        self._netlink.nlm_request(message, kind, msg_flags=NLM_F_REQUEST | NLM_F_ACK | flags)


@contextlib.contextmanager
def _no_error(*codes: int):
    try:
        yield
    except (OSError, kernel.NetlinkFailure) as error:
        if (error.errno if isinstance(error, OSError) else error.code) not in codes:
            raise


def _gone(code: int):
    """An object to remove may be gone, alone or with its link: Open vSwitch removes links concurrently."""
    return _no_error(code, errno.ENODEV)


def vrf_supported() -> bool:
    """Return whether this kernel has VRFs; tried in a namespace of its own, which also loads the module.

    NetlinkFailure when the kernel refuses for another reason, such as a missing privilege.
    """
    try:
        with kernel.scratch(), HostKernel() as probe:
            probe.create_vrf("probe", 10, "")
    except kernel.NetlinkFailure as error:
        if error.code != errno.EOPNOTSUPP:
            raise
        return False
    return True
