# SPDX-License-Identifier: Apache-2.0
"""The health prober's cgroup: whether it exists, and when it is created, removed or recreated.

nftables resolves the path of a cgroup to a number when a rule is loaded (nft(8), `socket cgroupv2`), and refuses a rule
for a path that does not exist. A service that systemd starts again has a cgroup with another number, so its rule has to
be loaded again; ovn-kubernetes does the same after a restart of kubelet (`udn_isolation.go`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
# inotify(7): IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR
_MASK = 0x100 | 0x200 | 0x40 | 0x80 | 0x01000000
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def cgroup_number(path: str, root: Path = CGROUPS) -> int | None:
    """Return what identifies the cgroup (version 2) at a path below the root, None when there is none."""
    try:
        return os.stat(root / path).st_ino
    except OSError:
        return None


class ProberCgroup:
    """Watches one cgroup by inotify; `sources` are for `select`.

    Where inotify is not available (fs.inotify.max_user_instances), only `changed` finds a change.
    """

    def __init__(self, root: Path = CGROUPS) -> None:
        self._root, self._path = root, ""
        self._number: int | None = None
        self._library = ctypes.CDLL(None, use_errno=True)
        descriptor = self._library.inotify_init1(_FLAGS)
        self.sources: list[int] = [] if descriptor < 0 else [descriptor]

    def follow(self, path: str) -> None:
        """Watch the cgroup at a path below the root; "" watches none."""
        if path != self._path:
            self._path, self._number = path, cgroup_number(path, self._root) if path else None
        self._watch()

    def changed(self) -> bool:
        """Read what inotify has reported; return whether the cgroup is another one than at the last call."""
        for descriptor in self.sources:
            with contextlib.suppress(BlockingIOError):
                while os.read(descriptor, 1 << 16):
                    pass
        if not self._path:
            return False
        self._watch()
        before, self._number = self._number, cgroup_number(self._path, self._root)
        return before != self._number

    def close(self) -> None:
        """Watch no longer."""
        for descriptor in self.sources:
            os.close(descriptor)
        self.sources = []

    def _watch(self) -> None:
        """Watch the parents that exist, from the root: what is made later is reported by the one above it.

        A directory that is watched already stays so, and the watch of one that is removed goes with it.
        """
        folder = self._root
        for part in Path(self._path).parts:
            for descriptor in self.sources:
                if self._library.inotify_add_watch(descriptor, os.fsencode(folder), _MASK) < 0:
                    return
            folder /= part
