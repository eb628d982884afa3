# SPDX-License-Identifier: Apache-2.0
"""Two ends of datagrams whose DSCP is looked at, run on hosts by `remote_program.py`.

`watch` prints a line for each datagram to a port that an interface receives, until its input ends: its payload, the
address that it came from, and its DSCP. `send` sends datagrams with a DSCP and a payload, one after another.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

IPV4, IPV6, VLAN = 0x0800, 0x86DD, 0x8100
ALL_PROTOCOLS = 0x0003
COUNT, INTERVAL = 20, 0.2


def described(frame, port):
    """Return payload, source address and DSCP of a datagram to the port, None for all else."""
    (kind,), body = struct.unpack_from("!H", frame, 12), frame[14:]
    if kind == VLAN:
        (kind,), body = struct.unpack_from("!H", frame, 16), frame[18:]
    if kind == IPV4:
        start, protocol, traffic_class = (body[0] & 15) * 4, body[9], body[1]
        source = socket.inet_ntoa(body[12:16])
    elif kind == IPV6:
        start, protocol, traffic_class = 40, body[6], (body[0] & 15) << 4 | body[1] >> 4
        source = socket.inet_ntop(socket.AF_INET6, body[8:24])
    else:
        return None
    if protocol != socket.IPPROTO_UDP:
        return None
    target_port, length = struct.unpack_from("!HH", body, start + 2)
    if target_port != port:
        return None
    return [body[start + 8 : start + length].decode(), source, traffic_class >> 2]


def watch(interface, port):
    """Print what is received until the input ends."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    opened.bind((interface, 0))
    print('"ready"', flush=True)
    while True:
        readable, _, _ = select.select([opened, sys.stdin], [], [])
        if opened in readable:
            with contextlib.suppress(struct.error, IndexError, UnicodeDecodeError):
                line = described(opened.recv(65535), port)
                if line:
                    print(json.dumps(line), flush=True)
        elif sys.stdin in readable:
            return


def send(target, port, payload, dscp):
    """Send datagrams for some seconds: the first ones may wait for neighbours, or be lost."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as opened:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
        else:
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        for _number in range(COUNT):
            opened.sendto(payload.encode(), (target, port))
            time.sleep(INTERVAL)


if __name__ == "__main__":
    verb, *words = json.loads(os.environ["WORDS"])
    {"watch": watch, "send": send}[verb](*words)
