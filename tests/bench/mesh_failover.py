# SPDX-License-Identifier: Apache-2.0
"""How long a TCP stream over a mesh is silent when its path fails and heals, and what each overlay carries.

    python -m scripts.ovn_root .venv/bin/python -m tests.bench.mesh_failover [--json FILE]

Two hosts are network namespaces of this machine, with Open vSwitch in user space: the gap is that of the daemon, the
throughput is for comparing the overlays in one run. Beside each gap stands that of the same stream undisturbed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from pathlib import Path

from tests.live.conftest import make_toolbox, wait_for
from tests.live.mesh.conftest import Fleet
from tests.live.mesh.stream import Stream
from tests.live.mesh.test_fallback import MTU, two_hosts
from tests.live.mesh.test_mesh import exchange, hosts, manifests, packet
from tests.pipeline import plan_of

_VXLAN_LOST = "priority=100,udp,tp_dst=6784,actions=drop"


def measure(fleet: Fleet) -> dict:
    """Return the figures: gaps and the time until the overlay changed in seconds, throughput in Mbit/s."""
    first, second = fleet.hosts["node1"], fleet.hosts["node2"]
    wait_for(lambda: first.overlay("node2") == "fastdp", "the fast datapath")
    address = fleet.wire("red/a2").addresses[0]
    stream = Stream(first.station("red/a1", MTU), second.station("red/a2", MTU), address)
    stream.run(lambda: True, "the stream", 1_000_000)
    events = {
        "nothing": (lambda: None, "fastdp"),
        "UDP 6784 lost": (lambda: second.impair(_VXLAN_LOST), "sleeve"),
        "UDP 6784 returns": (second.impair, "fastdp"),
        "packets > 1000 bytes lost": (lambda: second.swallow(1000), "sleeve"),
        "packets > 1000 bytes return": (second.impair, "fastdp"),
    }
    found = {}
    for event, (happens, overlay) in events.items():
        since = time.monotonic()
        happens()
        changed: list[float] = []

        def happened(overlay: str = overlay, since: float = since, changed: list[float] = changed) -> bool:
            if first.overlay("node2") != overlay:
                return False
            changed.append(time.monotonic() - since)
            return True

        stream.run(happened, event, 1)
        until = time.monotonic() + 5
        stream.run(lambda until=until: time.monotonic() > until, event)
        found[event] = {"gap": round(stream.longest_gap(since), 3), "changed after": round(changed[0], 3)}
        if event in ("nothing", "UDP 6784 lost"):
            found[event]["Mbit/s"] = round(throughput(stream), 1)
            found[event]["rtt ms"] = round(first.connection("node2")["rtt"] * 1000, 2)
    stream.close()
    return found


def move(fleet: Fleet) -> float:
    """Seconds from the plan that moves a workload until frames of another host reach it where it is now."""
    fleet.start(plan_of(manifests(), hosts=hosts(4)))
    for other in ("red/a1", "red/a2"):
        exchange(fleet, other, "red/a3")
    fleet.hosts["node3"].wires.pop("red/a3").close()
    fleet.apply(plan_of(manifests().replace("spec: {node: node3}", "spec: {node: node2}"), hosts=hosts(4)))
    began, source, moved = time.monotonic(), fleet.wire("red/a1"), fleet.wire("red/a3")
    frames = packet(fleet, "red/a1", "red/a3").encode(), packet(fleet, "red/a3", "red/a1").encode()

    def arrives() -> bool:
        moved.send(frames[1])
        source.send(frames[0])
        return moved.receive() is not None

    wait_for(arrives, "a frame at the new host")
    return time.monotonic() - began


def throughput(stream: Stream) -> float:
    """Mbit/s of the stream as fast as it goes, for 3 seconds."""
    stream.pause, before, began = 0.0, stream.received, time.monotonic()
    stream.run(lambda: time.monotonic() > began + 3, "throughput", 1)
    figure = (stream.received - before) * 8 / (time.monotonic() - began) / 1e6
    stream.pause = 0.005
    return figure


@contextlib.contextmanager
def _fleet(folder: Path):
    made = Fleet(make_toolbox(), folder, "bench-")
    try:
        yield made
    finally:
        made.end()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
        for name in ("failure", "move"):
            (Path(folder) / name).mkdir()
        with _fleet(Path(folder) / "failure") as fleet:
            fleet.start(two_hosts())
            found = measure(fleet)
        with _fleet(Path(folder) / "move") as fleet:
            moved = move(fleet)
    print(f"{'event':<30}{'longest gap':>13}{'overlay changed':>18}{'Mbit/s':>9}{'rtt':>10}")
    for event, one in found.items():
        speed = f"{one['Mbit/s']:>9}{one['rtt ms']:>7} ms" if "Mbit/s" in one else ""
        print(f"{event:<30}{one['gap']:>11.3f} s{one['changed after']:>16.3f} s{speed}")
    print(f"{'workload moves to another host':<30}{moved:>11.3f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps({**found, "move": round(moved, 3)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
