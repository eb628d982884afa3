# SPDX-License-Identifier: Apache-2.0
"""Decides which packages an uninstallation removes, from the record and from what apt would do; removes them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..common.change import Change, Outcome
from ..common.processes import subprocesses
from .record import Before, installed_packages

_APT = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--option=DPkg::Lock::Timeout=120", "--quiet=2"]
_ACTIONS = ("Remv", "Purg")


def remove_packages(before: Before, *, write: bool, run: subprocesses.Run = subprocesses.run) -> Outcome:
    """Remove the packages that roles have installed, with the dependencies that nothing else needs.

    A package that was there before stays, and so does one that a later installed package of the user's depends on; the
    outcome's notes say which. Raises ProgramError when apt-get fails; then the next run tries again.
    """
    present = set(installed_packages(run))
    named = [name for name in before.requested if name in present]
    if not before:
        return Outcome()
    manual = set(run(["apt-mark", "showmanual"]).split())
    marks = _restore_marks(before, manual & present, write=write, run=run)
    if not named:
        return marks
    # The packages of roles may count as asked for by a user, because Ansible asked for them.
    others = manual - set(before.requested)
    needed = {name: sorted(_simulated(["purge", name], run) & others) for name in named}
    needed |= {name: [f"the running kernel {os.uname().release}"] for name in named if _runs_kernel(name, run)}
    removable = [name for name in named if not needed[name]]
    notes = [
        f"the package {name} stays, although Heddle installed it: {', '.join(users)} needs it; remove that and run "
        "this playbook again, or remove the package by hand"
        for name, users in needed.items()
        if users
    ]
    going = chosen(
        removable,
        alone=_simulated(["purge", *removable], run) if removable else set(),
        with_orphans=_simulated(["--auto-remove", "purge", *removable], run) if removable else set(),
        orphans_before=_simulated(["autoremove"], run),
        before=before,
    )
    if write and going:
        run([*_APT, "--yes", "purge", *going])
    changes = (Change("host", "delete", "package", name, "", {"installed": True}, {}) for name in going)
    return marks + Outcome(tuple(changes), notes=tuple(notes))


def _restore_marks(before: Before, manual: set[str], *, write: bool, run: subprocesses.Run) -> Outcome:
    """Mark dependencies as such again that Ansible has asked for by their names (apt-mark(8))."""
    names = sorted(name for name in manual if before.was_dependency(name))
    if write and names:
        run(["apt-mark", "auto", *names])
    was, then = {"mark": "manual"}, {"mark": "auto"}
    return Outcome(tuple(Change("host", "update", "package", name, "", was, then) for name in names))


def chosen(
    removable: Iterable[str], *, alone: set[str], with_orphans: set[str], orphans_before: set[str], before: Before
) -> list[str]:
    """Return the packages to remove: those of roles, what depends on them, and their dependencies.

    `alone` is what apt removes with them, `with_orphans` the same with all packages that nothing needs then, and
    `orphans_before` those that nothing needs already: they are another installation's and stay.
    """
    orphans = {name for name in with_orphans - orphans_before if not before.had_package(name)}
    return sorted({*removable, *alone, *orphans})


def _simulated(verb: list[str], run: subprocesses.Run) -> set[str]:
    lines = run([*_APT, "--simulate", *verb]).splitlines()
    return {words[1].partition(":")[0] for line in lines if len(words := line.split()) > 1 and words[0] in _ACTIONS}


def _runs_kernel(name: str, run: subprocesses.Run) -> bool:
    """Return whether removing a package removes the kernel that the host runs."""
    kernel = f"linux-image-{os.uname().release}"
    return name.startswith("linux-image") and kernel in _simulated(["--auto-remove", "purge", name], run)
