# SPDX-License-Identifier: Apache-2.0
"""Directories in which builds work, some with gigabytes: where they are, and that none stays when a build is killed."""

import contextlib
import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

from lab.config import owned

# On a disk, and every user may reach what is in there.
PUBLIC = Path("/var/tmp")
IN_NAMESPACE = ("unshare", "--map-root-user", "--map-auto")


def base(cache, public=False):
    """Where builds for a cache work: TMPDIR, else in the cache, whose disk has to have room anyway.

    Not in /tmp, which is memory on Debian 13. `public`: other user ids must reach it, as those of a user namespace.
    """
    if chosen := os.environ.get("TMPDIR"):
        return Path(chosen)
    return PUBLIC if public and not reachable(cache) else cache


def reachable(path):
    """May every user pass through this directory?"""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


@contextlib.contextmanager
def directory(parent, prefix):
    """Yield an empty directory and remove it; what processes with this prefix left that were killed goes first."""
    for old in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if owned(old):
                with open(old / "lock") as handle:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(old)
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    made.chmod(0o755)
    with open(made / "lock.new", "w") as handle:
        # Another process finds the lock when it is held, until all is removed.
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            (made / "lock.new").rename(made / "lock")
            yield made
        finally:
            remove(made)


def remove(path):
    """Remove a directory, but nothing that is mounted in there.

    What belongs to the user ids of a user namespace, an ordinary user may remove in such a namespace only. The lock
    goes last: where a process of a killed build still writes, a later build removes the rest.
    """
    lock = path / "lock"
    # Not rm(1), whose --one-file-system follows a mount that it is asked to remove.
    argv = ["find", str(path), "-xdev", "-mindepth", "1", *(["!", "-samefile", str(lock)] if lock.exists() else [])]
    for prefix in ((), IN_NAMESPACE if os.geteuid() != 0 else ()):
        if {part.name for part in path.iterdir()} - {"lock"}:
            subprocess.run([*prefix, *argv, "-delete"], capture_output=True, check=False)
    if not {part.name for part in path.iterdir()} - {"lock"}:
        lock.unlink(missing_ok=True)
        path.rmdir()
