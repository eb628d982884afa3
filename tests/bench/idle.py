# SPDX-License-Identifier: Apache-2.0
"""What an idle lab costs: the share of a processor that each service of each node takes while nothing is sent.

Runs on a lab that is up and converged, and changes nothing. Shares are those of the services' control groups
(cgroup v2, `cpu.stat`) in percent of one processor, the largest first, and of the whole node.

    python -m tests.bench.idle --seconds 60
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from tests.bench.workloads import READ_USAGE
from tests.lab.conftest import NODES, ROOT, Lab

_ALL = "the whole node"
# Percent of a processor below which a service is not shown.
_LEAST = 0.05


def usage(lab: Lab, node: str) -> dict[str, float]:
    """Return the processor seconds of a node's services so far, and when they were read, as the node's clock has it."""
    clock, *lines = lab.ssh(node, f"cut -d' ' -f1 /proc/uptime && {READ_USAGE}").splitlines()
    found = {"": float(clock)}
    for line in lines:
        path, _colon, value = line.partition(":")
        name = _ALL if path == "cpu.stat" else Path(path).parent.name.removesuffix(".service")
        found[name] = int(value.split()[1]) / 1e6
    return found


def shares(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the percent of a processor of each service between two readings."""
    seconds = after[""] - before[""]
    return {name: 100 * (after[name] - before[name]) / seconds for name in after if name and name in before}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    lab = Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab"))
    with ThreadPoolExecutor() as pool:
        before = list(pool.map(lambda node: usage(lab, node), NODES))
        time.sleep(options.seconds)
        after = list(pool.map(lambda node: usage(lab, node), NODES))
    found = [shares(*readings) for readings in zip(before, after, strict=True)]
    most = {name: max(one.get(name, 0.0) for one in found) for one in found for name in one}
    shown = sorted((name for name in most if most[name] >= _LEAST), key=lambda name: (-most[name], name))
    rows = [[name, *(f"{one.get(name, 0.0):.1f}" for one in found)] for name in shown]
    title = f"percent of a processor over {options.seconds:.0f} s; load {os.getloadavg()[0]:.1f}"
    print("\n".join(table(title, ["service", *NODES], rows)))


if __name__ == "__main__":
    main()
