# SPDX-License-Identifier: Apache-2.0
"""All figures, as a table and as a JSON file, with the goals beside them.

    python -m tests.bench [--sizes 10 100 1000 4000] [--rounds 3] [--northd-up-to 1000] [--output report/bench.json]
        [--without-gateways]

Programs come from PATH, or from the root directory that HEDDLE_OVN_ROOT names. Each part runs in a process of its own.
The nodes have external connectivity; with `--without-gateways` networks have no gateway routers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.live.conftest import make_toolbox

from . import ROOT, load
from .report import table

OVSDBAPP_UP_TO = 100


def part(name: str, *arguments) -> dict:
    """Run one part of the bench and return its figures."""
    print(f"  {name} {' '.join(Path(str(argument)).name for argument in arguments)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, "-m", f"tests.bench.{name}", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(folder: Path, count: int, options: argparse.Namespace) -> dict:
    """Return all figures of one size."""
    plan, rounds = folder / f"plan-{count}.json", ("--rounds", options.rounds)
    without = (load.WITHOUT_GATEWAYS,) if options.without_gateways else ()
    load.write_plan(plan, count, gateways=not without)
    figures = {
        "decision": part("decision", count, *rounds, *without),
        "engine": part("engine", plan, *rounds),
        "memory": part("memory", plan),
        "waiting": part("waiting", plan),
        "playbook": part("playbook", count, *rounds, *without),
    }
    if count <= OVSDBAPP_UP_TO:
        figures["ovsdbapp"] = part("ovsdbapp_client", plan)
    if count <= options.northd_up_to:
        figures["northd"] = part("northd", plan)
        figures["northd, one thread"] = part("northd", plan, "--n-threads=1")
        figures["northd, C library's malloc"] = part("northd", plan, "--allocator=")
    return figures


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000, 4000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--northd-up-to", type=int, default=1000, help="northd takes minutes for thousands of networks")
    parser.add_argument(load.WITHOUT_GATEWAYS, action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "report" / "bench.json")
    options = parser.parse_args()
    tools = make_toolbox()
    found = {
        "versions": [tools.version("ovsdb-server"), tools.version("ovn-northd"), f"Python {sys.version.split()[0]}"],
        "processors": os.cpu_count(),
        "load before": os.getloadavg()[0],
        "sizes": {},
    }
    with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
        for count in sorted(options.sizes):
            print(f"{count} networks", file=sys.stderr, flush=True)
            found["sizes"][count] = measure(Path(folder), count, options)
    found["load after"] = os.getloadavg()[0]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(table(found))
    print(f"\nAll figures: {options.output}")


if __name__ == "__main__":
    main()
