# SPDX-License-Identifier: Apache-2.0
"""The option by which a socket sends datagrams of any size that its interface takes, none in fragments.

It ignores path MTUs that the kernel has learned from ICMP errors.

Python's `socket` lacks these constants of ip(7) and ipv6(7), linux/in.h and linux/in6.h: IP_MTU_DISCOVER,
IPV6_MTU_DISCOVER and IP_PMTUDISC_PROBE.
"""

from __future__ import annotations

import socket

# Arguments of `setsockopt` by the version of IP.
PROBE_PATH_MTU = {4: (socket.IPPROTO_IP, 10, 3), 6: (socket.IPPROTO_IPV6, 23, 3)}
