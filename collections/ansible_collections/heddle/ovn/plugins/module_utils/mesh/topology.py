# SPDX-License-Identifier: Apache-2.0
"""Routes over the links of peers (Weave's mesh library, routes.go and peer.go).

Only links that both ends report as established count. All searches are breadth first, peers of one level in the order
of their names, so peers with the same records compute the same trees: each broadcast reaches each peer once.
"""

from __future__ import annotations


class Topology:
    """The graph of one set of records: {name: Peer}."""

    def __init__(self, peers):
        self._neighbours = {
            name: [
                other
                for other, established in peer.links.items()
                if established and other in peers and peers[other].links.get(name)
            ]
            for name, peer in peers.items()
        }

    def neighbours(self, name):
        """Names of the peers with an established connection to `name`."""
        return self._neighbours.get(name, [])

    def unicast(self, origin):
        """{destination: next hop} of `origin`, without itself."""
        hops = {}
        level = [origin]
        while level:
            following = []
            for current in sorted(level):
                for other in self.neighbours(current):
                    if other != origin and other not in hops:
                        hops[other] = other if current == origin else hops[current]
                        following.append(other)
            level = following
        return hops

    def broadcast(self, source, at):
        """The peers that `at` forwards a broadcast of `source` to: its children in the tree of `source`."""
        reached = {source}
        level = [source]
        while level:
            following = []
            for current in sorted(level):
                children = [other for other in self.neighbours(current) if other not in reached]
                if current == at:
                    return children
                reached.update(children)
                following += children
            level = following
        return []


def reachable(peers, origin):
    """Names of the peers that any chain of links leads to, established or not, with `origin`."""
    found = {origin}
    waiting = [origin]
    while waiting:
        for other in peers[waiting.pop()].links:
            if other in peers and other not in found:
                found.add(other)
                waiting.append(other)
    return found
