# SPDX-License-Identifier: Apache-2.0
"""The benches of tests/bench that measure a lab run to their end with their smallest load. No figure is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from lab.config import MACHINES
from tests.lab.conftest import ROOT, Lab

OWN_KERNEL = "tests.bench.data_plane"
ONE_CLOCK = "tests.bench.endpoint_run"
# Arguments of `python -m`, and words of the report.
BENCHES = {
    "tests.bench.announcements --networks 2 --idle 2": "ARP request",
    "tests.bench.broadcasts --networks 2 --seconds 2": "IPv6",
    "tests.bench.data_plane --rounds 1 --megabytes 1": "to the external host",
    "tests.bench.dynamic_networks --networks 2": "no change",
    "tests.bench.endpoint_run --changes 2": "until packets follow",
    "tests.bench.idle --seconds 2": "ovs-vswitchd",
    "tests.bench.restart_gap": "kill -9 ovs-vswitchd",
    "tests.bench.workloads --networks 2": "one workload replaced",
    "tests.bench.workloads --networks 2 --used 1 --everywhere": "2 networks on all nodes",
}


@pytest.mark.long
@pytest.mark.parametrize(("command", "words"), BENCHES.items(), ids=list(BENCHES))
def test_bench_prints_its_figures_and_leaves_the_lab_in_its_desired_state(lab: Lab, command: str, words: str) -> None:
    driver = json.loads((lab.directory / "lab.json").read_text())["driver"]
    if command.startswith(OWN_KERNEL) and driver not in MACHINES:
        pytest.skip("containers have the kernel of this machine; DRIVER=uml and DRIVER=vm have their own")
    if command.startswith(ONE_CLOCK) and driver in MACHINES:
        pytest.skip("hosts with a kernel of their own have clocks of their own; DRIVER=nspawn has not")
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "LAB_DIR": str(lab.directory)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert words in done.stdout
    lab.play("audit.yml")
