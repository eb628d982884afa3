# SPDX-License-Identifier: Apache-2.0
"""Runs on an external host by `remote_program.py`: who answers for addresses, and are connections accepted?

Words: an interface, its address of each family, a port, the addresses to watch. Every 20 ms each address is asked
for by ARP or a neighbour solicitation, broadcast or multicast, and every 50 ms a connection to it is begun. After a
line of input it goes on until each address has accepted a further connection, and prints a JSON object: by address
`hosts`, the MAC addresses of answers, in their order with repetitions left out, `gap_ms`, the longest time between two
accepted connections, and `accepted`, whether there was that further one.
"""

import contextlib
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


def begin(address, port):
    """Begin a connection."""
    opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    opened.setblocking(False)
    with contextlib.suppress(OSError):
        opened.connect_ex((address, port))
    return opened


def main(interface, owns, port, addresses):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.bind((interface, 0))
    raw.setblocking(False)
    with open(f"/sys/class/net/{interface}/address", encoding="ascii") as file:
        own_mac = bytes.fromhex(file.read().strip().replace(":", ""))
    found = {address: {"hosts": [], "gap_ms": 0, "accepted": False} for address in addresses}
    accepted, pending, ending = {}, {}, None
    asking = connecting = time.monotonic()
    print('"ready"', flush=True)
    while True:
        now = time.monotonic()
        if now >= asking:
            asking = now + ASK
            for address in addresses:
                with contextlib.suppress(OSError):
                    raw.send(question(own_mac, owns[":" in address], address))
        if now >= connecting:
            connecting = now + CONNECT
            for opened in [one for one, (_address, since) in pending.items() if now - since > PATIENCE]:
                del pending[opened]
                opened.close()
            pending.update((begin(address, port), (address, now)) for address in addresses)
        readable, writable, _ = select.select([raw] if ending else [raw, sys.stdin], list(pending), [], 0.005)
        now = time.monotonic()
        for opened in writable:
            address, since = pending.pop(opened)
            if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                gap = 1000 * (now - accepted.get(address, now))
                found[address]["gap_ms"] = max(found[address]["gap_ms"], round(gap))
                accepted[address] = now
                found[address]["accepted"] |= ending is not None and since > ending
            opened.close()
        if raw in readable:
            with contextlib.suppress(struct.error, IndexError, BlockingIOError):
                said = answered(raw.recv(2048))
                if said and said[0] in found and said[1] != own_mac.hex(":"):
                    hosts = found[said[0]]["hosts"]
                    if hosts[-1:] != [said[1]]:
                        hosts.append(said[1])
        if ending is None and sys.stdin in readable:
            ending = now
        if ending is not None and (all(one["accepted"] for one in found.values()) or now > ending + LIMIT):
            print(json.dumps(found), flush=True)
            return


main(*json.loads(os.environ["WORDS"]))
