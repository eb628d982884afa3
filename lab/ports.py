# SPDX-License-Identifier: Apache-2.0
"""Ports of this machine behind which ssh of the hosts is."""

import random
import socket
from pathlib import Path

# Of which the kernel takes ports for programs that ask for any.
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST, LAST = 20000, 65535


def free():
    """A port that no program listens on, and none that the kernel gives to another one before ours listens there."""
    lowest, highest = map(int, RANGE.read_text().split())
    ports = [port for port in range(FIRST, LAST + 1) if not lowest <= port <= highest] or range(FIRST, LAST + 1)
    while taken(port := random.choice(ports)):
        pass
    return port


def taken(port):
    """Does a program on this machine listen on this port?"""
    with socket.socket() as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            end.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def choose(ports, names):
    """Choose a port for each of these hosts that do not listen; one that another program has taken is replaced.

    `ports` maps the names of all hosts to their ports and is changed in place.
    """
    for name in names:
        while name not in ports or taken(ports[name]) or list(ports.values()).count(ports[name]) > 1:
            ports[name] = free()
