# SPDX-License-Identifier: Apache-2.0
"""How long other hosts keep the route to a block of a host that lost its power, without BFD and with it.

    python -m tests.bench.route_withdrawal [--rounds 5] [--hold-time 9]

Network namespaces stand for the hosts, each with its own BIRD; the cable is cut at the other end, so that its silence
is the only sign. Without BFD the hold time decides (90 s unless the setting is another one). Needs root and BIRD 2.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pyroute2 import IPRoute

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.types.routed_workloads import LEARNED_TABLE
from tests.live.coil.birds import ROUTER, bring, planned, routed_fleet
from tests.live.coil.hosts import OUTSIDE, host, run
from tests.live.conftest import make_toolbox

_TIMEOUT = 300.0
_PAUSE = 0.002


def withdrawal(tools, coil: dict) -> float:
    """Return the seconds from the cut until node1 has no route to a block of node2."""
    with tempfile.TemporaryDirectory() as folder, routed_fleet(tools, Path(folder), ROUTER) as places:
        bring(planned(1, 2, coil=coil), places)
        with kernel.in_netns(host(1)):
            routes = IPRoute()
        try:
            _wait(lambda: len(_learned(routes)) == 2)
            # Sessions of BFD begin slowly and are negotiated down (RFC 5880, section 6.8.3).
            time.sleep(5)
            start = time.monotonic()
            run(OUTSIDE, "ip", "link", "set", "port2", "down")
            _wait(lambda: not _learned(routes))
            return time.monotonic() - start
        finally:
            routes.close()


def _learned(routes: IPRoute) -> list:
    return [one for version in (2, 10) for one in routes.get_routes(family=version, table=LEARNED_TABLE)]


def _wait(holds) -> None:
    end = time.monotonic() + _TIMEOUT
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened within {_TIMEOUT:g} s")
        time.sleep(_PAUSE)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hold-time", type=int, default=9)
    options = parser.parse_args()
    tools, hold = make_toolbox(), {"hold_time": options.hold_time}
    cases = {
        f"hold time {options.hold_time} s, without BFD": (hold, ""),
        "BFD, 100 ms, 3 intervals (default)": ({**hold, "bfd": True}, "< 1 s"),
        "BFD, 50 ms, 3 intervals": ({**hold, "bfd": {"interval": 50}}, "< 1 s"),
    }
    print(f"{'power cut to withdrawn routes':40}  {'median':>9}  {'longest':>9}  goal")
    for title, (coil, goal) in cases.items():
        found = [withdrawal(tools, coil) for _round in range(options.rounds)]
        print(f"{title:40}  {statistics.median(found):7.3f} s  {max(found):7.3f} s  {goal}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
