# SPDX-License-Identifier: Apache-2.0
"""What happens before a database is asked: validate, admit and allocate, plan, render; and how large the results are.

    python -m tests.bench.decision COUNT [--rounds 3]

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json

from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import operations
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot

from . import load
from .clock import Clock


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(load.WITHOUT_GATEWAYS, action="store_true")
    options = parser.parse_args()
    text, gateways = load.manifests(options.count), not options.without_gateways
    clock = Clock()
    for _round in range(options.rounds):
        found = clock.measure("validate", load.resources, text)
        state = clock.measure("admit, allocate", load.admitted, found, gateways=gateways)
        clock.measure("admit again", load.admitted, found, state, gateways=gateways)
        plan = clock.measure("plan", build_plan, state)
        rows = clock.measure("render", render_northbound, plan, load.NODE)
    size = {
        "state database": len(json.dumps(operations(Snapshot(), state))),
        "plan": len(json.dumps(plan)),
        "rows": len(rows),
        "networks": options.count,
    }
    print(json.dumps({"seconds": clock.best(), "size": size}))


if __name__ == "__main__":
    main()
