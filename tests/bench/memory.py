# SPDX-License-Identifier: Apache-2.0
"""Memory of a host's agent: plan read, rows rendered, applied, and applied again, in a fresh process.

    python -m tests.bench.memory PLAN

Prints one line of JSON; the sizes are the largest resident ones, in megabytes.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path

from . import load
from .engine import apply
from .servers import NORTHBOUND, resident_megabytes, served


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path, help=load.PLAN_HELP)
    rows = load.rows_of(parser.parse_args().plan)
    peaks = {"rendered": _peak()}
    with served(NORTHBOUND) as (server,):
        for label in ("created", "no change"):
            apply(server, rows)
            peaks[label] = _peak()
        peaks["ovsdb-server"] = resident_megabytes(server.process.pid)
    print(json.dumps(peaks))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
