# SPDX-License-Identifier: Apache-2.0
"""Take OVN's programs, libraries and schemas out of the lab's host image, for tests that run them here.

So the tests use the versions that hosts run, whatever this machine's own distribution has. With arguments, they are a
command that is run with HEDDLE_OVN_ROOT set; without, the directory is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lab import image
from lab.config import Lab
from scripts.stages import PROJECT

PARTS = ("usr/bin", "usr/sbin", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/share/ovn", "usr/share/openvswitch")


def ensure() -> Path:
    """Return the directory; it is made once per image."""
    found, _built = image.ensure(Lab().cache)
    root = PROJECT / ".cache" / f"ovn-root-{found.name}"
    if not root.exists():
        root.parent.mkdir(exist_ok=True)
        work = root.with_suffix(".new")
        subprocess.run(
            ["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-force", "-dest", work, found.squashfs, *PARTS],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        work.rename(root)
    return root


if __name__ == "__main__":
    directory = ensure()
    if sys.argv[1:]:
        os.execvpe(sys.argv[1], sys.argv[1:], {**os.environ, "HEDDLE_OVN_ROOT": str(directory)})
    print(directory)
