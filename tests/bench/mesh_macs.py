# SPDX-License-Identifier: Apache-2.0
"""What MAC addresses of a mesh cost its daemon: memory, learning with the flow, the sweep of flows, and expiry.

    python -m tests.bench.mesh_macs [--sizes 1000 2500 5000 10000]

The daemon's datapath gets a frame of each address from a neighbour, as its bridge hands them over. The figures are for
each address; those of the larger sizes are ratios to the smallest one, 1 where the cost is linear.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from types import SimpleNamespace

from ansible_collections.heddle.ovn.plugins.module_utils.mesh.forwarding import MAC_SECONDS
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.switch import DIALECT, parser
from tests.unit.mesh.test_datapath import FAR, NETWORK, PORT_A, TAG, A, Bridge

_ROUNDS = 3


def addresses(count: int) -> list[str]:
    """That many MAC addresses."""
    return ["0e:" + number.to_bytes(5, "big").hex(":") for number in range(count)]


def known() -> Bridge:
    """A datapath whose workload has sent before, so that frames to it make flows."""
    bridge = Bridge()
    bridge.frame(A, FAR, port=PORT_A)
    return bridge


def measure(count: int) -> dict[str, float]:
    """Return bytes and microseconds for each address."""
    bridge, macs, figures = known(), addresses(count), {}
    began = time.perf_counter()
    made = [next(one for one in bridge.frame(mac, A, tag=TAG) if hasattr(one, "command")) for mac in macs]
    figures["learn us"] = time.perf_counter() - began
    # Flows had packets since the last sweep, so that each is decided anew.
    body = [SimpleNamespace(cookie=one.cookie, match=one.match, packet_count=number + 1)
            for number, one in enumerate(made)]  # fmt: skip
    began = time.perf_counter()
    bridge.datapath.received(parser.OFPFlowStatsReply(DIALECT, body=body, flags=0), 1)
    figures["sweep us"] = time.perf_counter() - began
    assert bridge.datapath.where(NETWORK, macs[-1])
    began = time.perf_counter()
    bridge.datapath.expire(2 * MAC_SECONDS)
    figures["expire us"] = time.perf_counter() - began
    assert bridge.datapath.where(NETWORK, macs[-1]) is None
    return {name: 1e6 * value / count for name, value in figures.items()}


def memory(count: int) -> float:
    """Return the bytes that the daemon holds for each address and its flow."""
    bridge, macs = known(), addresses(count)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for mac in macs:
            bridge.frame(mac, A, tag=TAG)
        return (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--sizes", type=int, nargs="+", default=[1000, 2500, 5000, 10000])
    found = {}
    for size in sorted(options.parse_args().sizes):
        rounds = [measure(size) for _round in range(_ROUNDS)]
        found[size] = {name: min(one[name] for one in rounds) for name in rounds[0]} | {"bytes": memory(size)}
    base = found[min(found)]
    sys.stdout.write(f"{'addresses':>10}" + "".join(f"{name:>14} {'ratio':>6}" for name in base) + "\n")
    for size, figures in found.items():
        cells = "".join(f"{value:>14.2f} {value / base[name]:>6.2f}" for name, value in figures.items())
        sys.stdout.write(f"{size:>10}{cells}\n")


if __name__ == "__main__":
    main()
