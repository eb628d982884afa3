# SPDX-License-Identifier: Apache-2.0
"""The clock of driver `uml`: a library that all programs of a host load, built once per digest of its source."""

import hashlib
import shutil

from lab import guest
from lab.image import locked, run

SOURCE = guest.FILES / "clock.c"
COMPILER = "gcc"
OPTIONS = ("-O2", "-shared", "-fPIC", "-nostdlib", "-ftls-model=initial-exec", "-Wall", "-Werror")
# On a host, below its root directory.
LIBRARY, PRELOAD = "usr/local/lib/lab-clock.so", "etc/ld.so.preload"


def ensure(cache):
    """Return the library's path, None on a machine without a compiler: hosts run without it, only slower."""
    summary = hashlib.sha256(SOURCE.read_bytes() + "\0".join(OPTIONS).encode())
    path = cache / f"clock-{summary.hexdigest()[:16]}.so"
    if path.exists():
        return path
    if shutil.which(COMPILER) is None:
        return None
    with locked(cache / "clock.lock"):
        new = path.with_suffix(".new")
        run([COMPILER, *OPTIONS, "-o", str(new), str(SOURCE)], "compile the clock of hosts of driver uml")
        new.rename(path)
    return path


def files(cache):
    """Return the files of a host that make it use the library, by path: bytes or text."""
    path = ensure(cache)
    return {LIBRARY: path.read_bytes(), PRELOAD: f"/{LIBRARY}\n"} if path else {}
