# SPDX-License-Identifier: Apache-2.0
"""FoU listeners (linux/fou.h, by generic netlink) and tunnels with FoU (linux/if_tunnel.h). It decides nothing.

Everything is of the current network namespace. pyroute2 does not know listeners.
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass

from ..kernel import read_whole, scratch
from .messages import FAMILIES
from .raw_messages import attributes, decoded
from .raw_socket import CREATE, EXCLUSIVE, RawSocket, attribute
from .rtnetlink import (
    IFF_UP,
    IFINFOMSG,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    IFLA_MTU,
    RTM_DELLINK,
    RTM_GETLINK,
    RTM_NEWLINK,
    U32,
)

_GENERIC, _CONTROL = 16, 16
_GENERIC_HEADER = struct.Struct("=BBxx")
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2
_FOU_ADD, _FOU_DELETE, _FOU_GET, _FOU_VERSION = 1, 2, 3, 1
_FOU_PORT, _FOU_AF, _FOU_IPPROTO, _FOU_TYPE, _FOU_DIRECT = 1, 2, 3, 4, 1
_SHORT, _BIG_SHORT = struct.Struct("=H"), struct.Struct(">H")
_LOCAL, _REMOTE, _TTL, _ENCAP_LIMIT, _FLAGS, _PROTOCOL = 2, 3, 4, 6, 8, 9
_ENCAP_TYPE, _ENCAP_FLAGS, _ENCAP_SPORT, _ENCAP_DPORT, _COLLECT_METADATA = 15, 16, 17, 18, 19
_FOU = 1
_IGNORE_ENCAP_LIMIT = 1
# Coil's TTL and hop limit.
_HOPS = 225
_KINDS = {4: "ipip", 6: "ip6tnl"}
# What is inside the tunnel (IANA, protocol numbers): IPv4 or IPv6.
_INNER = {4: 4, 6: 41}


@dataclass(frozen=True)
class TunnelLink:
    """A tunnel as the kernel has it; `is_catch_all` is for one that receives from any remote end."""

    name: str
    kind: str
    local: str
    remote: str
    source_port: int
    port: int
    mtu: int
    up: bool
    is_catch_all: bool


def _fou_family(netlink: RawSocket) -> int:
    """Return the number of the generic netlink family, and load its module; OSError (ENOENT) where there is none."""
    answer = netlink.ask(_CONTROL, _GENERIC_HEADER.pack(_GET_FAMILY, 1) + attribute(_FAMILY_NAME, "fou"))
    return _SHORT.unpack(attributes(answer[_GENERIC_HEADER.size :])[_FAMILY_ID][:2])[0]


def read_listeners() -> dict[int, int]:
    """Return the port of each family that FoU listens on; nothing on a kernel without FoU."""
    with RawSocket(_GENERIC) as netlink:
        try:
            number = _fou_family(netlink)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return {}
        found = {}
        for body in netlink.dump(number, _GENERIC_HEADER.pack(_FOU_GET, _FOU_VERSION)):
            values = attributes(body[_GENERIC_HEADER.size :])
            version = 6 if values[_FOU_AF][0] == socket.AF_INET6 else 4
            found[version] = _BIG_SHORT.unpack(values[_FOU_PORT][:2])[0]
        return found


def write_listener(version: int, port: int, *, remove: bool) -> None:
    """Listen for FoU on a port, or end that; one that is there already, or gone, is no error."""
    body = _GENERIC_HEADER.pack(_FOU_DELETE if remove else _FOU_ADD, _FOU_VERSION)
    body += attribute(_FOU_PORT, _BIG_SHORT.pack(port)) + attribute(_FOU_AF, bytes([FAMILIES[version]]))
    body += attribute(_FOU_IPPROTO, bytes([_INNER[version]])) + attribute(_FOU_TYPE, bytes([_FOU_DIRECT]))
    with RawSocket(_GENERIC) as netlink:
        try:
            netlink.request((_fou_family(netlink), 0, body))
        except OSError as error:
            if error.errno != (errno.ENOENT if remove else errno.EADDRINUSE):
                raise


@read_whole
def read_tunnels() -> dict[str, TunnelLink]:
    """Return the tunnels of the kinds that an Egress uses, by name."""
    found = {}
    with RawSocket() as netlink:
        for message in netlink.dump(RTM_GETLINK, IFINFOMSG.pack(0, 0, 0, 0, 0)):
            values = attributes(message[IFINFOMSG.size :])
            information = attributes(values.get(IFLA_LINKINFO, b""))
            kind = decoded(information.get(IFLA_INFO_KIND, b""))
            if kind not in _KINDS.values():
                continue
            data = attributes(information.get(IFLA_INFO_DATA, b""))
            name = decoded(values[IFLA_IFNAME])
            found[name] = TunnelLink(
                name,
                kind,
                _address(data.get(_LOCAL)),
                _address(data.get(_REMOTE)),
                _port(data.get(_ENCAP_SPORT)),
                _port(data.get(_ENCAP_DPORT)),
                U32.unpack(values[IFLA_MTU])[0],
                bool(IFINFOMSG.unpack_from(message)[3] & IFF_UP),
                _COLLECT_METADATA in data,
            )
    return found


def _address(value: bytes | None) -> str:
    if value is None or not any(value):
        return ""
    return socket.inet_ntop(socket.AF_INET if len(value) == 4 else socket.AF_INET6, value)


def _port(value: bytes | None) -> int:
    return _BIG_SHORT.unpack(value[:2])[0] if value else 0


def _link(name: str, kind: str, data: bytes, mtu: int = 0) -> bytes:
    message = IFINFOMSG.pack(0, 0, 0, IFF_UP, IFF_UP) + attribute(IFLA_IFNAME, name)
    message += attribute(IFLA_MTU, mtu) if mtu else b""
    return message + attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind) + attribute(IFLA_INFO_DATA, data))


def add_tunnel(name: str, local: str, remote: str, source_port: int, port: int, mtu: int) -> None:
    """Make a tunnel and set it up.

    Within IPv6 it carries IPv6 only and no encapsulation limit (RFC 2473, section 4.1.1), which would take 8 bytes.
    """
    version = 6 if ":" in remote else 4
    data = b"".join(
        attribute(kind, socket.inet_pton(FAMILIES[version], text))
        for kind, text in ((_LOCAL, local), (_REMOTE, remote))
    )
    data += attribute(_TTL, bytes([_HOPS])) + attribute(_PROTOCOL, bytes([_INNER[version]]))
    if version == 6:
        data += attribute(_FLAGS, _IGNORE_ENCAP_LIMIT) + attribute(_ENCAP_LIMIT, b"\0")
    data += attribute(_ENCAP_TYPE, _SHORT.pack(_FOU)) + attribute(_ENCAP_FLAGS, _SHORT.pack(0))
    data += attribute(_ENCAP_SPORT, _BIG_SHORT.pack(source_port)) + attribute(_ENCAP_DPORT, _BIG_SHORT.pack(port))
    with RawSocket() as netlink:
        netlink.request((RTM_NEWLINK, CREATE | EXCLUSIVE, _link(name, _KINDS[version], data, mtu)))


def add_catch_all(name: str, version: int) -> None:
    """Make the device that receives what no other tunnel of its kind does, and set it up."""
    with RawSocket() as netlink:
        message = _link(name, _KINDS[version], attribute(_COLLECT_METADATA, b""))
        netlink.request((RTM_NEWLINK, CREATE | EXCLUSIVE, message))


def add_marker(name: str) -> None:
    """Make a dummy link, which stays down."""
    information = attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, "dummy"))
    with RawSocket() as netlink:
        message = IFINFOMSG.pack(0, 0, 0, 0, 0) + attribute(IFLA_IFNAME, name) + information
        netlink.request((RTM_NEWLINK, CREATE | EXCLUSIVE, message))


def remove_device(name: str) -> None:
    """Remove a link; a missing one is no error."""
    with RawSocket() as netlink:
        try:
            netlink.request((RTM_DELLINK, 0, IFINFOMSG.pack(0, 0, 0, 0, 0) + attribute(IFLA_IFNAME, name)))
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise


def rename_device(name: str, to: str) -> None:
    """Rename a link that is down."""
    index = socket.if_nametoindex(name)
    with RawSocket() as netlink:
        netlink.request((RTM_NEWLINK, 0, IFINFOMSG.pack(0, 0, index, 0, 0) + attribute(IFLA_IFNAME, to)))


def lacking() -> list[str]:
    """Return what this kernel lacks of what an Egress needs, tried in a namespace that is removed at once."""
    found = []
    tried = {
        "dummy": lambda: add_marker("probe"),
        "ipip with FoU": lambda: add_tunnel("probe4", "192.0.2.1", "192.0.2.2", 0, 5555, 0),
        "ip6tnl with FoU": lambda: add_tunnel("probe6", "2001:db8::1", "2001:db8::2", 0, 5555, 0),
        "fou (IPv4)": lambda: write_listener(4, 5555, remove=False),
        "fou (IPv6)": lambda: write_listener(6, 5555, remove=False),
    }
    with scratch():
        for name, attempt in tried.items():
            try:
                attempt()
            except OSError:
                found.append(name)
    return found
