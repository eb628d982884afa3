# SPDX-License-Identifier: Apache-2.0
"""The benches of tests/bench that need no lab run to their end with their smallest load. No figure is asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.chromium import missing_packages

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDS_ROOT = ("tests.bench.ip_rules", "tests.bench.mesh_failover", "tests.bench.route_withdrawal")
# Arguments of `python -m`, and words of the report.
BENCHES = {
    "tests.bench --sizes 2 --rounds 1 --northd-up-to 2": "logical flows per network",
    "tests.bench.comparison --networks 4 --services 2 --policies 2 --rounds 1": "40 Services",
    "tests.bench.controller --networks 2 --changes 1": "resident size",
    "tests.bench.fleet --hosts 4 --operations 2": "read and render it, MB of memory",
    "tests.bench.fleet_page --sizes 2/4 --rounds 1": "interactive",
    "tests.bench.ip_rules --networks 2 40 --packets 100 --rounds 1": "to a masquerade address",
    "tests.bench.mesh_failover": "workload moves to another host",
    "tests.bench.mesh_macs --sizes 100": "learn us",
    "tests.bench.northd_rows --networks 2": "load balancers",
    "tests.bench.policies --namespaces 2 --rounds 1": "one label changed",
    "tests.bench.route_withdrawal --rounds 1 --hold-time 3": "without BFD",
    "tests.bench.services --networks 2 --rounds 1": "one workload not ready",
}


@pytest.mark.long
@pytest.mark.parametrize(("command", "words"), BENCHES.items(), ids=[command.split()[0] for command in BENCHES])
def test_bench_prints_its_figures(command: str, words: str, tmp_path: Path) -> None:
    if command.startswith(NEEDS_ROOT) and os.geteuid():
        pytest.skip("network namespaces need root")
    if "fleet_page" in command and (missing := missing_packages()):
        pytest.skip(missing)
    output = ["--output", str(tmp_path / "bench.json")] if command.startswith("tests.bench ") else []
    done = subprocess.run(
        [sys.executable, "-m", *command.split(), *output], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert words in done.stdout
