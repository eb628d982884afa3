# SPDX-License-Identifier: Apache-2.0
"""Two ends of what leaves to the provider network, run on hosts by `remote_program.py`.

`watch` prints a line for each IP packet and each ARP packet that an interface receives, whatever its destination,
until its input ends. `send` sends segments that belong to no connection, which connection tracking finds invalid and
does not translate, and a datagram after them, which it translates; it repeats both until its input ends.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys

IPV4, ARP, IPV6, VLAN = 0x0800, 0x0806, 0x86DD, 0x8100
ALL_PROTOCOLS = 0x0003
# Seconds until what was sent is sent again.
AGAIN = 2
# linux/if_packet.h: SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC
PROMISCUOUS = (263, 1, 1)
# Flags of segments: SYN and ACK, FIN and ACK, RST, RST and ACK, and none.
FLAGS = (0x12, 0x11, 0x04, 0x14, 0x00)


def described(frame):
    """Return EtherType, source and destination address, destination port of UDP and TCP (else 0), text of UDP."""
    (kind,), body = struct.unpack_from("!H", frame, 12), frame[14:]
    if kind == VLAN:
        (kind,), body = struct.unpack_from("!H", frame, 16), frame[18:]
    if kind == ARP:
        return ["arp", socket.inet_ntoa(body[14:18]), socket.inet_ntoa(body[24:28]), 0, ""]
    if kind == IPV4:
        start, protocol = (body[0] & 15) * 4, body[9]
        source, target = socket.inet_ntoa(body[12:16]), socket.inet_ntoa(body[16:20])
    elif kind == IPV6:
        start, protocol = 40, body[6]
        source, target = (socket.inet_ntop(socket.AF_INET6, body[at : at + 16]) for at in (8, 24))
    else:
        return None
    ports = protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP)
    text = ""
    if protocol == socket.IPPROTO_UDP:
        (length,) = struct.unpack_from("!H", body, start + 4)
        text = body[start + 8 : start + length].decode(errors="replace")
    return ["ip", source, target, struct.unpack_from("!H", body, start + 2)[0] if ports else 0, text]


def watch(interface):
    """Print what is received until the input ends."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    opened.bind((interface, 0))
    level, add, promiscuous = PROMISCUOUS
    opened.setsockopt(level, add, struct.pack("iHH8s", socket.if_nametoindex(interface), promiscuous, 0, b""))
    print('"ready"', flush=True)
    while True:
        readable, _, _ = select.select([opened, sys.stdin], [], [])
        if opened in readable:
            with contextlib.suppress(struct.error, IndexError):
                line = described(opened.recv(65535))
                if line:
                    print(json.dumps(line), flush=True)
        elif sys.stdin in readable:
            return


def send(target, port, text):
    """Print the address that is sent from, and send the segments and the datagram with a text, again and again."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect((target, port))
        own = datagrams.getsockname()[0]
        print(json.dumps(own), flush=True)
        with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP) as segments:
            readable = []
            while not readable:
                with contextlib.suppress(OSError):
                    for number, flags in enumerate(FLAGS):
                        segments.sendto(segment(family, own, target, 30000 + number, port, flags), (target, 0))
                    datagrams.send(text.encode())
                readable = select.select([sys.stdin], [], [], AGAIN)[0]


def segment(family, source, target, own_port, port, flags):
    """Return a TCP segment with a valid checksum: conntrack drops others before it looks at their state."""
    text = struct.pack("!HHIIBBHHH", own_port, port, 1000, 2000, 5 << 4, flags, 512, 0, 0)
    addresses = socket.inet_pton(family, source) + socket.inet_pton(family, target)
    total = addresses + struct.pack("!IHBB", len(text), 0, 0, socket.IPPROTO_TCP) + text
    result = sum(struct.unpack(f"!{len(total) // 2}H", total))
    while result >> 16:
        result = (result & 0xFFFF) + (result >> 16)
    return text[:16] + struct.pack("!H", ~result & 0xFFFF) + text[18:]


if __name__ == "__main__":
    verb, *words = json.loads(os.environ["WORDS"])
    {"watch": watch, "send": send}[verb](*words)
