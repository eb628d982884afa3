# SPDX-License-Identifier: Apache-2.0
"""The commands of the README on minimal systems: Debian 12 and Debian 13.

Each gets a clone of what is committed, and only `make` and `git`. The commands install everything else that they need
over the network; nothing of this machine is visible in there but its kernel. Needs root.

With --quick it is Debian 13 alone, with a part of the tests, and with the image and pip's and apt's packages from this
machine's cache.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from lab import image, packages
from lab.config import Lab
from lab.errors import LabError
from lab.stages import Stages
from scripts.fresh_system import PRESUMED, RELEASES, System, fresh
from scripts.stages import PROJECT, Stage, run_all

LAB = [".venv/bin/python", "-m", "lab"]
PYTEST = [".venv/bin/pytest", "-q"]
LIVE = [".venv/bin/python", "-m", "scripts.ovn_root", *PYTEST]
# One test of each program of the host image, and all that need files or programs of this machine. What depends on the
# version of Python at most is in the full form.
QUICK_UNIT = ("tests/unit/lab", "tests/unit/netlink", "tests/unit/scripts/test_ovn_root.py")
QUICK_LIVE = (
    "tests/live/test_programs.py",
    "tests/live/ovsdb/test_client.py",
    "tests/live/ovsdb/test_northd.py",
    "tests/live/openflow/test_reconcile_flows.py",
    "tests/live/gateway/test_local_mode.py",
    "tests/live/topology/test_secondary.py",
    "tests/live/nftables/test_reconcile_firewall.py",
    "tests/live/qemu/test_move.py",
)
# Programs that a minimal system does not have; where one is found, the system is not what this test is about.
FOREIGN = ("python3", "pip", "ansible-playbook", "ip", "ovs-vswitchd", "qemu-system-x86_64", "mmdebstrap", "sudo")


def nothing_there(system: System) -> Stage:
    """The check that the system has nothing that the commands could use by accident."""
    script = 'for name; do if command -v "$name"; then exit 1; fi; done; ! ls /etc/alternatives/ovs* 2>&1; env'
    return Stage("nothing is installed", system.command("bash", "-c", script, "bash", *FOREIGN))


def quick(system: System) -> list[Stage]:
    """The parts of both commands, each as little as shows that it works."""
    return [
        Stage("make setup", system.command("make", "setup")),
        Stage("packages of the lab", system.command(*LAB, "packages")),
        Stage("host image", system.command(*LAB, "image")),
        Stage("unit tests (a part)", system.command(*PYTEST, "-n", "2", *QUICK_UNIT)),
        Stage("live tests (a part)", system.command(*LIVE, "-n", "2", *QUICK_LIVE)),
        Stage("make lab DRIVER=nspawn", system.command("make", "lab", "DRIVER=nspawn")),
        Stage("make lab-down", system.command("make", "lab-down")),
    ]


def full(system: System) -> list[Stage]:
    """The first command, and what of the second one is not done on the lab of the first."""
    return [
        Stage("make lab DRIVER=nspawn", system.command("make", "lab", "DRIVER=nspawn")),
        Stage("make lab DRIVER=nspawn again", system.command("make", "lab", "DRIVER=nspawn")),
        Stage("make lab-down", system.command("make", "lab-down")),
        *(Stage(f"make {verb}", system.command("make", verb)) for verb in ("lint", "sanity", "test-unit", "test-live")),
    ]


def caches() -> dict[Path, str]:
    """Directories of this machine that the quick form uses, and where they are in the system."""
    cache = Lab().cache
    shared = {cache: "/root/.cache/heddle", cache / "fresh" / "pip": "/root/.cache/pip"}
    for directory in shared:
        directory.mkdir(parents=True, exist_ok=True)
    return shared


def check(release: str, is_quick: bool) -> int:
    """Make one system and run its stages; 1 when one failed."""
    shared = caches() if is_quick else {}
    print(f"=== {RELEASES[release]}, minimal, with {' and '.join(PRESUMED)}", flush=True)
    for source, target in shared.items():
        print(f"from this machine: {source} as {target}")
    with fresh(release, PROJECT, shared) as system:
        stages = [nothing_there(system), *(quick if is_quick else full)(system)]
        needy = [replace(stage, needs=(before.name,)) for before, stage in pairwise(stages)]
        return run_all(f"fresh-{release}", [stages[0], *needy])


def main() -> int:
    """Check every release asked for; the exit code is 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Debian 13, the caches of this machine, fewer tests")
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"any of {', '.join(RELEASES)}; default: all")
    options = parser.parse_args()
    releases = options.releases or (["trixie"] if options.quick else list(RELEASES))
    unknown = [release for release in releases if release not in RELEASES]
    if unknown:
        parser.error(f"unknown release {', '.join(unknown)}; there are {', '.join(RELEASES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if os.geteuid() != 0:
            raise LabError("a fresh system needs root, to mount and to boot containers in it", "run this as root")
        packages.ensure(("nspawn",), Stages(sys.stdout))
        if image.run(["git", "-C", str(PROJECT), "status", "--porcelain"], "ask git").stdout:
            print("what is not committed is not part of the clone that is tested")
        return max([check(release, options.quick) for release in releases])
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing is left", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
