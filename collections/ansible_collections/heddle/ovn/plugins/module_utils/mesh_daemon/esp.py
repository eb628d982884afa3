# SPDX-License-Identifier: Apache-2.0
"""ESP for the tunnels of the mesh: security associations and policies of the kernel (xfrm), by ip-xfrm(8).

Policies are for UDP port 6784 as a whole, so a packet of a tunnel is sent encrypted or not at all, and one that
arrives unencrypted is dropped, from whatever host. Associations are one for each direction between two hosts, in
transport mode with AES-256-GCM (RFC 4106), extended sequence numbers and a window against replays. All have Heddle's
`reqid`, by which those of former processes are found; nothing else of the host's IPsec is touched.

Keys reach ip(8) by its standard input, since arguments are visible to all users.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

from ..common.errors import NotInstalled, ProgramError
from ..common.processes.subprocesses import run
from ..mesh.codec import ESP_KEY_BYTES
from ..render.host.mesh import VXLAN_PORT

REQUEST_ID = 6784
# An association that was replaced receives what is still on its way.
GRACE_SECONDS = 10
_STATE = re.compile(r"src (\S+) dst (\S+)\n\s+proto esp spi 0x([0-9a-f]+) reqid (\d+)")
_POLICY = re.compile(r"(src \S+ dst \S+ proto udp dport \d+)\s+(dir \w+)")
_ENTRY = re.compile(r"^(?=src )", re.MULTILINE)
_KEY = re.compile(r"\b(0x)?[0-9a-fA-F]{32,}\b")
# Reserved for local use and never sent (RFC 4303, section 2.1): of the attempt of `lacking` only.
_LOCAL_SPI = 255
# Source and destination of that attempt; those of IPv6 are for documentation (RFC 3849).
_UNUSED = {4: ("127.0.0.2", "127.0.0.3"), 6: ("2001:db8::2", "2001:db8::3")}


@dataclass(frozen=True)
class Association:
    """One direction between two hosts."""

    source: str
    destination: str
    spi: int

    @property
    def line(self):
        """How ip-xfrm(8) names it."""
        return f"src {self.source} dst {self.destination} proto esp spi {self.spi:#x}"


def lacking(address):
    """Why this kernel cannot do what is needed for tunnels of this host's address; empty when it can.

    ESP for IPv4 and for IPv6 are different modules (CONFIG_INET_ESP, CONFIG_INET6_ESP).
    """
    attempt = Association(*_UNUSED[ip_address(address).version], _LOCAL_SPI)
    try:
        _batch([_added(attempt, "00" * ESP_KEY_BYTES), f"state delete {attempt.line}"])
    except ProgramError as error:
        reason = error.stderr.splitlines()[0] if error.stderr else error
        return f"no ESP with AES-GCM for IPv{ip_address(address).version} in the kernel ({reason})"
    return ""


def own_entries():
    """Return the policies and associations of the mesh on this host, as ip-xfrm(8) names them; none without xfrm."""
    try:
        return [f"policy {line}" for line in _policies()] + [f"state {one.line}" for one in _states()]
    except ProgramError:
        return []


def remove_all():
    """Remove every policy and association of the mesh on this host, the policies last: nothing leaves in clear."""
    _batch([_deleted(entry) for entry in reversed(own_entries())])


class Esp:
    """The kernel's ESP of a host. `address` is its own; associations that are there already are of a former process."""

    def __init__(self, address, now):
        self._address = address
        self._leaving = dict.fromkeys(_states(), now + GRACE_SECONDS)
        self._inbound, self._outbound = {}, {}
        _batch([_policy(address, direction) for direction in ("in", "out")])

    def receive_from(self, address, spi, key, now):
        """Accept what a host sends with this key; a former one for some time more."""
        self._replaced(self._inbound, address, now)
        self._inbound[address] = self._add(Association(address, self._address, spi), key)

    def send_to(self, address, spi, key, now):
        """Send to a host with this key from now on."""
        before = self._outbound.get(address)
        self._outbound[address] = self._add(Association(self._address, address, spi), key)
        former = [one for one in self._leaving if one.destination == address]
        # Two associations to one destination: the kernel may take either, so the older ones go at once.
        gone = [one for one in ([before] if before else []) + former if one != self._outbound[address]]
        self._delete(gone)

    def forget(self, address, now):
        """Remove what there is for a host without a connection."""
        for held in (self._inbound, self._outbound):
            self._replaced(held, address, now - GRACE_SECONDS)
        self.tick(now)

    def tick(self, now):
        """Remove what was replaced long enough ago."""
        self._delete([one for one, until in self._leaving.items() if now >= until])

    def _replaced(self, held, address, now):
        before = held.pop(address, None)
        if before is not None:
            self._leaving[before] = now + GRACE_SECONDS

    def _add(self, association, key):
        self._leaving.pop(association, None)
        _batch([_added(association, key)])
        return association

    def _delete(self, associations):
        for one in associations:
            self._leaving.pop(one, None)
            try:
                _batch([f"state delete {one.line}"])
            except ProgramError:
                # Flushed by another program: what has to go is gone.
                continue


def _deleted(entry):
    what, name = entry.split(" ", 1)
    return f"{what} delete {name}"


def _added(association, key):
    return (
        f"state add {association.line} reqid {REQUEST_ID} mode transport replay-window 256 flag esn "
        f"aead rfc4106(gcm(aes)) 0x{key} 128"
    )


def _policy(address, direction):
    version = ip_address(address).version
    anywhere, own = ("0.0.0.0/0", f"{address}/32") if version == 4 else ("::/0", f"{address}/128")
    source, destination = (anywhere, own) if direction == "in" else (own, anywhere)
    return (
        f"policy update src {source} dst {destination} proto udp dport {VXLAN_PORT} dir {direction} "
        f"tmpl proto esp reqid {REQUEST_ID} mode transport level required"
    )


def _states():
    """The associations with Heddle's number."""
    found = _STATE.findall(run(["ip", "xfrm", "state", "list", "nokeys"]))
    return [
        Association(source, destination, int(spi, 16))
        for source, destination, spi, request in found if int(request) == REQUEST_ID
    ]  # fmt: skip


def _policies():
    """The policies with Heddle's number, as ip-xfrm(8) names them."""
    entries = _ENTRY.split(run(["ip", "xfrm", "policy", "list"]))
    own = [entry for entry in entries if f"proto esp reqid {REQUEST_ID} " in entry]
    return [" ".join(found.groups()) for entry in own if (found := _POLICY.match(entry))]


def _batch(lines):
    if not lines:
        return
    try:
        run(["ip", "-batch", "-"], "".join(f"xfrm {line}\n" for line in lines))
    except NotInstalled:
        raise
    except ProgramError as error:
        # ip(8) may repeat what it does not accept.
        raise ProgramError("ip xfrm", _KEY.sub("(key)", error.stderr)) from None
