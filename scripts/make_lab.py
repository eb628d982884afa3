# SPDX-License-Identifier: Apache-2.0
"""The main job: from nothing to a verified fleet with a report."""

from __future__ import annotations

import argparse
import sys

from lab import commands
from lab.config import Lab
from lab.errors import LabError
from scripts.stages import PROJECT, REPORT, Stage, run_all

PLAY = str(PROJECT / "scripts" / "play")
LAB = [sys.executable, "-m", "lab"]
PAGES = ("index.html", "first_light.html", "gateways.html")


def stages(driver: str) -> list[Stage]:
    """Return all stages; each needs the one before."""
    packages = Stage("packages", [*LAB, "packages", "--driver", driver], terminal=True)
    hosts = Stage("hosts", [*LAB, "up", "--driver", driver], needs=(packages.name,))
    # In one command: starting Ansible and reaching the hosts takes as long as a playbook without changes.
    playbooks = Stage(
        "networks: site, verify, audit", [PLAY, *(f"playbooks/{name}.yml" for name in ("site", "verify", "audit"))],
        needs=(hosts.name,),
    )  # fmt: skip
    # Its libraries and kernels are loaded while the playbooks run.
    report = Stage(
        "report", [sys.executable, "-m", "scripts.report", "--wait"],
        needs=(playbooks.name,), early=True, early_after=(hosts.name,),
    )  # fmt: skip
    return [packages, hosts, playbooks, report]


def main() -> int:
    """Run all stages; the exit code is 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", default="auto", choices=["auto", "vm", "nspawn", "uml"])
    parser.add_argument("--hosts", action="store_true", help="only start the hosts")
    options = parser.parse_args()
    if options.hosts:
        failed = run_all("hosts", stages(options.driver)[:2], summary=False)
        return _report_remaining() if failed else failed
    failed = run_all("lab", stages(options.driver), summary=False)
    if failed:
        return _report_remaining()
    print("\n" + _hosts(commands.status(Lab())))
    print(_result((REPORT / "verify.txt").read_text()))
    for page in PAGES:
        print(f"report:  {REPORT / page}")
    print(f"details: {REPORT / 'status.txt'}, {REPORT / 'verify.txt'}")
    print("next:    make status, make verify, make audit, make lab-reboot HOST=node2, make lab-down")
    return 0


def _report_remaining() -> int:
    """Say what stays after a failure or an interruption, and how it is removed; returns the exit code."""
    try:
        status = commands.status(Lab())
    except LabError as error:
        print(f"\nerror: {error}")
        return 1
    print("\n" + _hosts(status))
    if status["hosts"]:
        running = ", ".join(host["name"] for host in status["hosts"] if host["running"]) or "none"
        print(f"stays:   {status['directory']}, hosts that run: {running}")
        print("next:    make lab continues, make lab-down removes it")
    return 1


def _hosts(status: dict) -> str:
    """Return what the hosts are, and why: a driver that was not asked for may not have what the user expects."""
    if not status["hosts"]:
        return "hosts:   none"
    return f"hosts:   {len(status['hosts'])}, driver {status['driver']} ({status['reason']})"


def _result(text: str) -> str:
    """Return the last line of the reachability table."""
    return text.rstrip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
