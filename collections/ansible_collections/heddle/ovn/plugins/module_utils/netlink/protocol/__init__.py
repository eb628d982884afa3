# SPDX-License-Identifier: Apache-2.0
"""Messages of netlink as bytes and as pyroute2 returns them, and sockets for them. It decides nothing."""
