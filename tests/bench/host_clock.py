# SPDX-License-Identifier: Apache-2.0
"""What the library saves with which hosts of driver `uml` repeat a reading of the clock (`lab/clock.py`).

    python -m tests.bench.host_clock

A guest of User Mode Linux has Northbound and Southbound of one host with so many networks, as `tests.bench.load` makes
them, and an ovn-northd. Measured is from the first row until ovn-northd has written all, first without the library,
then with it; `ratio` is the first by the second. Seconds by the clock, and processor seconds that the guest accounts to
the Southbound's server.
"""

from __future__ import annotations

import time

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import Announcement, synchronise
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.bench import guest, load
from tests.bench.engine import EVERYTHING
from tests.bench.northd import LONGEST, write_chassis
from tests.bench.servers import NORTHBOUND, SOUTHBOUND, processor_seconds, served, translating

_NETWORKS = (50, 100)


def test_translation():
    """In the guest, where pytest runs it: print the figures."""
    found = {}
    for networks in _NETWORKS:
        plan = build_plan(load.admitted(load.resources(load.manifests(networks)), gateways=True))
        rows = render_northbound(plan, load.NODE)
        with served(NORTHBOUND, SOUTHBOUND) as (northbound, southbound):
            write_chassis(southbound, plan)
            with translating(northbound, southbound):
                written, began = Announcement(), time.monotonic()
                before = processor_seconds(southbound.process.pid)
                with northbound.client() as client, southbound.client(timeout=LONGEST) as reader:
                    reconcile(client, NORTHBOUND, rows, owner=load.OWNER, scope=EVERYTHING, closing=written)
                    synchronise(client, reader, LONGEST, written.number)
                found[f"{networks} networks, seconds"] = time.monotonic() - began
            used = processor_seconds(southbound.process.pid) - before
            found[f"{networks} networks, Southbound's server"] = used
    guest.show(found)


def main() -> None:
    """Print what it takes without the library, with it, and the ratio."""
    guest.parse_no_arguments()
    without, with_clock = (
        guest.measured("tests/bench/host_clock.py", guest.Meter(), clock=clock) for clock in (False, True)
    )
    guest.table(
        {
            name: f"{seconds:8.1f} without {with_clock[name]:8.1f} with it, ratio {seconds / with_clock[name]:.2f}"
            for name, seconds in without.items()
        }
    )


if __name__ == "__main__":
    main()
