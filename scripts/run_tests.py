# SPDX-License-Identifier: Apache-2.0
"""Tests by group: those of `make test` without an argument, those of `make test-long` with --long, or the groups named.

The groups are in scripts/suite.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from scripts.stages import Stage, chain, run_all
from scripts.suite import GROUPS, LAB, lab_environment

# For two processors: groups also wait, for OVN, for hosts that boot and for timers, so two of them leave a part idle.
PARALLEL = 3


def stages_of(names: list[str]) -> list[Stage]:
    """Return the stages of groups, in order, and the removal of their labs."""
    wanted = [name for name, group in GROUPS.items() if name in names or {*group.with_group} & {*names}]
    found: dict[str, list[Stage]] = {}
    for name in wanted:
        group = GROUPS[name]
        stages = group.stages()
        before = tuple(stage.name for other in group.after for stage in found.get(other, ()))
        # The first stage waits for the groups before; the others wait for it.
        stages[0] = replace(stages[0], after=stages[0].after + before)
        found[name] = chain(stages, first_needed=group.hosts_first)
    ordered = [stage for stages in found.values() for stage in stages]
    for lab_name in dict.fromkeys(lab_name for name in wanted for lab_name in GROUPS[name].labs):
        environment = lab_environment(lab_name)
        users = [stage.name for stage in ordered if stage.environment.get("LAB_DIR") == environment["LAB_DIR"]]
        removal = Stage(f"remove the {lab_name} lab", [*LAB, "down"], environment, after=tuple(users), always=True)
        # Before what comes later: hosts without work use the processors as well, those of User Mode Linux a quarter of
        # one.
        ordered.insert(1 + max(number for number, stage in enumerate(ordered) if stage.name in users), removal)
    return ordered


def refused(groups: list[str]) -> str:
    """Return why this user cannot run these groups, and which of them without root; empty when nothing prevents it."""
    needing = [name for name in groups if GROUPS[name].root]
    if os.geteuid() == 0 or not needing:
        return ""
    others = [name for name in groups if name not in needing]
    remedy = f", or run what needs none: .venv/bin/python -m scripts.run_tests {' '.join(others)}" if others else ""
    return f"error: containers need root, which the groups {', '.join(needing)} start; run this as root{remedy}"


def main() -> int:
    """Run the groups; the exit code is 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, group in GROUPS.items() if not group.with_group]
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"any of {', '.join(names)}")
    parser.add_argument("--long", action="store_true", help="what takes too long for every change")
    options = parser.parse_args()
    groups = options.groups or [name for name in names if GROUPS[name].long == options.long]
    unknown = [group for group in groups if group not in names]
    if unknown:
        parser.error(f"unknown group {', '.join(unknown)}; there are {', '.join(names)}")
    if message := refused(groups):
        print(message, file=sys.stderr)
        return 1
    # Hundreds of processes import the same modules; without byte code each compiles them, and the assertions of tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return run_all("test-long" if options.long else "test", stages_of(groups), parallel=PARALLEL)


if __name__ == "__main__":
    sys.exit(main())
