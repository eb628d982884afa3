# SPDX-License-Identifier: Apache-2.0
"""The main job: from nothing to a verified fleet with a report."""

from __future__ import annotations

import argparse
import sys

from scripts.stages import PROJECT, Stage, run_all


def main() -> int:
    """Run all stages; the exit code is 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", default="auto", choices=["auto", "vm", "nspawn", "uml"])
    driver = parser.parse_args().driver
    play = str(PROJECT / "scripts" / "play")
    stages = [
        Stage("packages of the lab", [sys.executable, "-m", "lab", "packages"]),
        Stage("hosts", [sys.executable, "-m", "lab", "up", "--driver", driver]),
        Stage("site: validate, install, networks", [play, "playbooks/site.yml"]),
        Stage("verify: packets between all workloads", [play, "playbooks/verify.yml"]),
        Stage("audit: hosts against the plan", [play, "playbooks/audit.yml"]),
        Stage("report", [sys.executable, "-m", "scripts.report"]),
    ]
    failed = run_all(stages, go_on=False)
    if not failed:
        for name in ("status.txt", "verify.txt"):
            print("\n" + (PROJECT / "report" / name).read_text().rstrip())
        print(f"\nreport: {PROJECT / 'report' / 'first_light.html'}")
        print(f"        {PROJECT / 'report' / 'gateways.html'}")
        print("next:   make verify, make audit, make lab-reboot HOST=node2, make lab-down")
    return failed


if __name__ == "__main__":
    sys.exit(main())
