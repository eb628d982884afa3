# SPDX-License-Identifier: Apache-2.0
"""Builds an initramfs: the `newc` cpio format (Linux, Documentation/driver-api/early-userspace)."""

from __future__ import annotations

import gzip
import stat

_TRAILER = "TRAILER!!!"


def initramfs(files: dict[str, tuple[int, bytes]]) -> bytes:
    """Return a compressed archive of `files`: path -> (mode with file type, content). Deterministic.

    Parent directories are created; a symbolic link's content is its target.
    """
    complete: dict[str, tuple[int, bytes]] = {}
    for path in sorted(files):
        parts = path.split("/")
        for depth in range(1, len(parts)):
            complete.setdefault("/".join(parts[:depth]), (stat.S_IFDIR | 0o755, b""))
        complete[path] = files[path]
    entries = [_entry(number, path, *entry) for number, (path, entry) in enumerate(complete.items(), 1)]
    return gzip.compress(b"".join([*entries, _entry(0, _TRAILER, 0, b"")]), compresslevel=1, mtime=0)


def _entry(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    # number, mode, user, group, links, time, size, device and its node's device, length of the name, checksum
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % value for value in fields)
    return _padded(header + name) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
