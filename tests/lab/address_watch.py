# SPDX-License-Identifier: Apache-2.0
"""Runs on an external host by `remote_program.py`: who has addresses, and do connections work?

Words: `to` or `from`, an interface, its address of each family, the addresses to watch, each with its ports. Every
20 ms one address in turn is asked for by ARP or a neighbour solicitation, broadcast or multicast. With `to` a
connection to each address and port is begun every 50 ms; with `from` this host listens on the ports, and others
connect with the addresses. It prints "ready" when each address was answered for and each connection worked once, so
that a move which follows is seen from its beginning, or what is still missing after two minutes.

After a line of input it goes on until there was a further connection for each address and port, and prints a JSON
object: by address `hosts` and `senders`, the MAC addresses of answers, and of the frames of such connections, and
`frames`, those of both, in their order with repetitions left out, each with the time of the first such frame in
milliseconds, and by port `gap_ms`, the longest time between two connections, and `accepted`, whether there was that
further one; `others` are the addresses that connections came from beside these, each with the port.
"""

import contextlib
import itertools
import json
import os
import select
import socket
import struct
import sys
import time

ASK, CONNECT, PATIENCE = 0.02, 0.05, 1.0
# Seconds until a further connection counts as missing; only an address that no host has reaches it.
LIMIT = 120
ARP, IPV6 = 0x0806, 0x86DD
TCP, SYN = 6, 0x02
# Of what arrives while this process does not run; no frame may be missed. SO_RCVBUFFORCE of socket(7).
BUFFER, BUFFER_OPTION = 16 << 20, 33


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def question(own_mac, own, target):
    """A frame that asks for a target (RFC 826; RFC 4861, section 4.3)."""
    if ":" not in target:
        ends = own_mac + socket.inet_aton(own) + bytes(6) + socket.inet_aton(target)
        return b"\xff" * 6 + own_mac + struct.pack("!HHHBBH", ARP, 1, 0x0800, 6, 4, 1) + ends
    source, wanted = (socket.inet_pton(socket.AF_INET6, one) for one in (own, target))
    group = bytes.fromhex("ff0200000000000000000001ff") + wanted[13:]
    body = struct.pack("!BBHI", 135, 0, 0, 0) + wanted + b"\x01\x01" + own_mac
    pseudo = source + group + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), 58, 255)
    return b"\x33\x33" + group[12:] + own_mac + struct.pack("!H", IPV6) + header + source + group + body


def answered(frame):
    """The address that a frame says to have, and its MAC address; None for any other frame."""
    (kind,) = struct.unpack_from("!H", frame, 12)
    if kind == ARP and frame[20:22] in (b"\0\1", b"\0\2"):
        return socket.inet_ntoa(frame[28:32]), frame[22:28].hex(":")
    if kind == IPV6 and frame[20] == 58 and frame[54] == 136:
        return socket.inet_ntop(socket.AF_INET6, frame[62:78]), frame[6:12].hex(":")
    return None


def sender(frame):
    """The source address of a packet that begins a connection, and the MAC address of its frame; None for any other."""
    (kind,) = struct.unpack_from("!H", frame, 12)
    if kind == 0x0800 and frame[23] == TCP and frame[47] & SYN:
        return socket.inet_ntoa(frame[26:30]), frame[6:12].hex(":")
    if kind == IPV6 and frame[20] == TCP and frame[67] & SYN:
        return socket.inet_ntop(socket.AF_INET6, frame[22:38]), frame[6:12].hex(":")
    return None


def begin(address, port):
    """Begin a connection."""
    opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    opened.setblocking(False)
    with contextlib.suppress(OSError):
        opened.connect_ex((address, port))
    return opened


def listen(port):
    """Wait for connections of both families."""
    opened = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    opened.setblocking(False)
    return opened


class Found:
    """What was seen of the addresses."""

    def __init__(self, addresses):
        self.addresses = {
            address: {
                **{kind: [] for kind in ("hosts", "senders", "frames")},
                "ports": {port: {"gap_ms": 0, "accepted": False} for port in ports},
            }
            for address, ports in addresses.items()
        }
        self.others, self.ending, self._last, self._began = set(), None, {}, time.monotonic()

    def connected(self, address, port, began):
        """A connection that began then works now."""
        if port not in self.addresses.get(address, {}).get("ports", ()):
            self.others.add(f"{address} {port}")
            return
        seen, now = self.addresses[address]["ports"][port], time.monotonic()
        seen["gap_ms"] = max(seen["gap_ms"], round(1000 * (now - self._last.get((address, port), now))))
        seen["accepted"] |= self.ending is not None and began > self.ending
        self._last[address, port] = now

    def at(self, kind, address, mac):
        """A frame showed the address at a host."""
        for hosts in (self.addresses[address][kind], self.addresses[address]["frames"]):
            if not hosts or hosts[-1][0] != mac:
                hosts.append([mac, round(1000 * (time.monotonic() - self._began))])

    def missing(self):
        """The addresses that were not answered for yet, and the connections that did not work yet."""
        silent = [address for address, one in self.addresses.items() if not one["hosts"]]
        places = {(address, port) for address, one in self.addresses.items() for port in one["ports"]}
        return silent + [f"{address} {port}" for address, port in sorted(places - self._last.keys())]

    def complete(self):
        """Whether there was a further connection for each address and port."""
        return all(seen["accepted"] for one in self.addresses.values() for seen in one["ports"].values())


def read_frames(raw, own_mac, found, sees):
    """Read what has arrived; `sees` has the functions that find an address in a frame, by what it shows."""
    with contextlib.suppress(BlockingIOError):
        while True:
            frame = raw.recv(2048)
            with contextlib.suppress(struct.error, IndexError):
                for kind, see in sees.items():
                    seen = see(frame)
                    if seen and seen[0] in found.addresses and seen[1] != own_mac:
                        found.at(kind, *seen)


def main(direction, interface, owns, addresses):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.setsockopt(socket.SOL_SOCKET, BUFFER_OPTION, BUFFER)
    raw.bind((interface, 0))
    raw.setblocking(False)
    with open(f"/sys/class/net/{interface}/address", encoding="ascii") as file:
        own_mac = file.read().strip()
    found, pending = Found(addresses), {}
    asked = itertools.cycle(addresses)
    places = [(address, port) for address, ports in addresses.items() for port in ports]
    servers = {listen(port): port for port in {port for _address, port in places}} if direction == "from" else {}
    sees = {"hosts": answered, **({"senders": sender} if servers else {})}
    asking = connecting = begun = time.monotonic()
    ready = False
    while True:
        now = time.monotonic()
        if not ready and (not (missing := found.missing()) or now - begun > LIMIT):
            ready = True
            print(json.dumps(missing or "ready"), flush=True)
        if now >= asking:
            asking = now + ASK
            address = next(asked)
            with contextlib.suppress(OSError):
                raw.send(question(bytes.fromhex(own_mac.replace(":", "")), owns[":" in address], address))
        if now >= connecting and not servers:
            connecting = now + CONNECT
            for opened in [one for one, (*_place, since) in pending.items() if now - since > PATIENCE]:
                del pending[opened]
                opened.close()
            pending.update((begin(*place), (*place, now)) for place in places)
        heard = [raw, *servers] if found.ending else [raw, *servers, sys.stdin]
        readable, writable, _ = select.select(heard, list(pending), [], 0.005)
        for opened in writable:
            place = pending.pop(opened)
            if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                found.connected(*place)
            opened.close()
        for server in servers.keys() & set(readable):
            with contextlib.suppress(OSError):
                opened, peer = server.accept()
                opened.close()
                found.connected(peer[0].removeprefix("::ffff:"), servers[server], time.monotonic())
        if raw in readable:
            read_frames(raw, own_mac, found, sees)
        if found.ending is None and sys.stdin in readable:
            found.ending = time.monotonic()
        if found.ending is not None and (found.complete() or time.monotonic() > found.ending + LIMIT):
            print(json.dumps({"addresses": found.addresses, "others": sorted(found.others)}), flush=True)
            return


main(*json.loads(os.environ["WORDS"]))
