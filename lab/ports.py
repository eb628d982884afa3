# SPDX-License-Identifier: Apache-2.0
"""Ports of this machine behind which ssh of the hosts is."""

import socket


def free():
    """A port that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
