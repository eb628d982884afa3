# SPDX-License-Identifier: Apache-2.0
"""Data class of the routing daemon's configuration."""

from __future__ import annotations

from dataclasses import dataclass

# What hosts advertise blocks with.
BGP, OSPF, NONE = PROTOCOLS = ("bgp", "ospf", "none")
# Stands in the text for the description by which a configuration is recognised while BIRD runs it.
MARK = "@MARK@"


@dataclass(frozen=True)
class Configuration:
    """Heddle's part of BIRD's configuration, with MARK as the description of a protocol, and a digest of it.

    `bfd` is a protocol that is left out when the user's part has one: BIRD gives all sessions to the first one, and
    the packets to the last one.
    """

    text: str
    digest: str
    bfd: str = ""
