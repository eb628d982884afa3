# SPDX-License-Identifier: Apache-2.0
"""The directory of a lab's sockets and pid files, and the processes of a lab whose pid files are gone.

Hosts run on when the user logs out, and logind then removes XDG_RUNTIME_DIR (pam_systemd(8)), where earlier versions
had these files. So the directory is one that stays, and the state of the lab names it.
"""

import contextlib
import itertools
import os
import re
import socket
from pathlib import Path

from lab import processes
from lab.config import owned
from lab.errors import LabError
from lab.machine import QEMU

# A socket path may be 107 characters long; the longest name that the lab appends takes 40 of them.
LONGEST = 67
# Where it is when the paths of the lab and of the cache are too long.
BASES = ("/var/tmp", "/tmp")
# What runs as a process of a lab: a kernel of driver uml, QEMU, and modules of this package.
PROGRAMS, MODULES = {"linux", QEMU}, {"lab.switch", "lab.container"}
PROC = Path("/proc")


def name(lab):
    return f"heddle-lab-{os.geteuid()}-{lab.key}"


def places(lab):
    """Where it may be, the best one first."""
    return [lab.directory / "run", *(Path(base) / name(lab) for base in (lab.cache, *BASES))]


def existing(lab):
    """Those that there are; that of an earlier version as well."""
    former = os.environ.get("XDG_RUNTIME_DIR")
    found = [*places(lab), *([Path(former) / name(lab)] if former else [])]
    return [path for path in found if os.path.isdir(path) and owned(path)]


def of(lab, stored=None):
    """A short directory that no other user may enter: `stored`, else, where that is gone, the first usable one."""
    if stored and os.path.isdir(stored):
        return require_own(Path(stored))
    for path in places(lab):
        if len(str(path)) <= LONGEST and usable(path):
            return path
    raise LabError(
        f"no directory for sockets: longer than {LONGEST} characters, or taking none, are "
        f"{', '.join(map(str, places(lab)))}",
        "set LAB_DIR to a short path on a disk of this machine",
    )


def require_own(path):
    if not owned(path):
        raise LabError(f"{path} belongs to another user", "repeat the command as that user, or remove it")
    return path


def usable(path):
    """Make the directory; False where that is refused, or where it takes no sockets, as some shared folders do."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return False
    require_own(path)
    trial = path / f"trial-{os.getpid()}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.bind(str(trial))
    except OSError:
        with contextlib.suppress(OSError):
            path.rmdir()
        return False
    trial.unlink()
    return True


def left(lab):
    """The processes of this lab, whatever its pid files say: by their command lines, which have its directories."""
    ours = re.compile(rf"(?:^|[=,:]){re.escape(str(lab.directory))}/|/{name(lab)}(?:/|$)")
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            known = Path(argv[0]).name in PROGRAMS or not MODULES.isdisjoint(argv)
            if known and entry.stat().st_uid == os.geteuid() and any(map(ours.search, argv)):
                found += [int(entry.name), *holder(argv)]
    return list(dict.fromkeys(found))


def holder(argv):
    """The process that holds the namespaces of a container with this command line."""
    pid = dict(itertools.pairwise(argv)).get("--holder", "")
    with contextlib.suppress(OSError):
        if pid and (PROC / pid / "comm").read_text().strip() == "sleep":
            return [int(pid)]
    return []


def require_pid_files(lab, stored):
    """Refuse to treat hosts as stopped that run: a second set of them would write to the same disks."""
    if stored and not os.path.isdir(stored) and left(lab):
        raise LabError(
            f"{stored}, which has the pid files of this lab, was removed while its hosts run",
            "run: python -m lab down, then: python -m lab up",
        )


def end_left(lab):
    """End what `destroy` of the drivers has not ended, because its pid files are gone."""
    processes.end(left(lab))
