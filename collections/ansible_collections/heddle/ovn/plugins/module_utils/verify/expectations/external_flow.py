# SPDX-License-Identifier: Apache-2.0
"""Kinds of packets into and out of networks, and what is expected of one of them."""

from __future__ import annotations

from dataclasses import dataclass

TO_EXTERNAL, FROM_EXTERNAL = "workload to external host", "external host to workload"
TO_OWN_HOST, TO_OTHER_HOST = "workload to own host", "workload to other host"
FROM_HOST, FROM_VRF = "host to workload", "host in VRF to workload"
TO_SERVICE, FROM_EXTERNAL_TO_SERVICE = "workload to service", "external host to service"
TO_CLUSTER_IP = "workload to cluster IP"
EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE = "external host to entrance", "host to entrance"
WORKLOAD_TO_ENTRANCE, OTHER_HOST_TO_ENTRANCE = "workload to entrance", "other host to entrance"
ENTRANCES = EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE, OTHER_HOST_TO_ENTRANCE, WORKLOAD_TO_ENTRANCE
# Of workloads with an address of a pool, and of clients of an Egress.
POOL_TO_HOST, POOL_FROM_HOST = "pool to host", "host to pool"
POOL_TO_ROUTER, POOL_FROM_ROUTER = "pool to router", "router to pool"
THROUGH_EGRESS = "workload through Egress"
# Reported for each flow that reached an external host: whether another socket there could answer in its place.
UNSOLICITED = "unsolicited source to node's port"
KINDS = (
    TO_EXTERNAL, UNSOLICITED, FROM_EXTERNAL, TO_OWN_HOST, TO_OTHER_HOST, FROM_HOST, FROM_VRF, TO_SERVICE,
    TO_CLUSTER_IP, FROM_EXTERNAL_TO_SERVICE, *ENTRANCES,
    POOL_TO_HOST, POOL_FROM_HOST, POOL_TO_ROUTER, POOL_FROM_ROUTER, THROUGH_EGRESS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExternalFlow:
    """One packet into or out of a network, sent by `runner`, a node or an external host.

    `workload` is the one it is about, "" for none. `through` is the node that a packet without a workload is sent to,
    `interface` is always empty: the packet is routed. `network` is the target's network, "" for hosts. `seen_as` is the
    source address that the target must see, "" when that does not matter; `sources` are several of which it may see
    any. `mtu` is the size of a large packet that must arrive as well, 0 for none. `mac` makes it a frame to that
    address, from `seen_as`. `protocol` and `port` are those of a service. `responders` are the workloads any of which
    may answer for a service. `named`: their answer has their name, as the port leads to that of verify. Elsewhere a TCP
    connection, or that an endpoint refuses it, is the answer. `refused`: only that the connection is refused counts as
    an answer, as for a service without endpoints. `denied`: policies of all endpoints deny it, so that a refusal means
    that one got it. `way` is what the class of a packet to a node port is about, at an address beyond the provider
    network.
    """

    kind: str
    runner: str
    source: str
    target: str
    workload: str
    network: str
    family: int
    address: str
    reach: bool
    reason: str
    seen_as: str = ""
    sources: tuple[str, ...] = ()
    mtu: int = 0
    mac: str = ""
    protocol: str = ""
    port: int = 0
    interface: str = ""
    through: str = ""
    responders: tuple[str, ...] = ()
    named: bool = False
    refused: bool = False
    denied: bool = False
    way: str = ""

    @property
    def right_sources(self) -> tuple[str, ...]:
        """Return the source addresses of which the target must see one, () when that does not matter."""
        return self.sources or ((self.seen_as,) if self.seen_as else ())


def sender_of(flow: ExternalFlow) -> str:
    """Return what the sender of a datagram is named that any of several workloads may answer.

    Not as the source itself: its packets to workloads' own addresses are expected not to arrive.
    """
    return f"{flow.source} by {flow.target} {flow.address}"
