# SPDX-License-Identifier: Apache-2.0
"""Take OVN's programs, libraries and schemas out of the lab's host image, for tests that run them here.

So the tests use the versions that hosts run, whatever this machine's own distribution has. With arguments, they are a
command that is run with HEDDLE_OVN_ROOT set; without, the directory is printed.

Debian's programs may be links to /etc/alternatives and from there to anywhere. Such links are read as in a system
whose root is the directory, what they lead to is taken out of the image as well, and in the directory they are
relative, so that none of them leads to a program of this machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

from lab import image
from lab.config import Lab
from lab.errors import LabError
from scripts.stages import PROJECT

PARTS = (
    "usr/bin", "usr/sbin", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/share/ovn", "usr/share/openvswitch",
    # Links into /usr, which unsquashfs does not follow in the paths that it is given.
    "bin", "sbin", "lib", "lib64",
)  # fmt: skip
# Counts up when the directory is made in another way.
FORMAT = 2
# As many as Linux follows in one path (path_resolution(7)).
MOST_LINKS = 40


def ensure() -> Path:
    """Return the directory; it is made once per image."""
    found, _built = image.ensure(Lab().cache)
    root = PROJECT / ".cache" / f"ovn-root-{found.name}-{FORMAT}"
    with image.locked(root.parent / "ovn-root.lock"):
        if not root.exists():
            with image.replacing(root) as work:
                extract(found.squashfs, work, PARTS)
                complete(found.squashfs, work)
    return root


def extract(squashfs: Path, root: Path, parts) -> None:
    """Add files and directories of the image to a directory; parts that the image does not have are left out."""
    argv = ["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-force", "-dest", root, squashfs, *parts]
    image.run(argv, "take programs out of the image")


def complete(squashfs: Path, root: Path) -> None:
    """Add what the links of the directory lead to, and make all of them relative."""
    asked: set[Path] = set()
    while missing := {target for _, target in links(root) if not os.path.lexists(target)} - asked:
        extract(squashfs, root, sorted(str(path.relative_to(root)) for path in missing))
        asked |= missing
    for link, target in links(root):
        wanted = os.path.relpath(target, link.parent)
        if os.readlink(link) != wanted:
            link.unlink()
            link.symlink_to(wanted)


def links(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield every link below the directory and where it leads to; links that lead round in a circle are left out."""
    for folder, directories, files in os.walk(root):
        for name in (*directories, *files):
            link = Path(folder, name)
            if link.is_symlink() and (target := destination(root, link)):
                yield link, target


def destination(root: Path, path: Path) -> Path | None:
    """Return where a path below `root` leads to in a system whose root that is; None for a circle of links.

    Where something on the way is missing, the rest of the path is taken as it is written.
    """
    left = list(path.relative_to(root).parts)[::-1]
    at, followed = root, 0
    while left:
        part = left.pop()
        if part == "..":
            at = at.parent if at != root else root
        elif (at / part).is_symlink():
            followed += 1
            if followed > MOST_LINKS:
                return None
            target = PurePath(os.readlink(at / part))
            at = root if target.is_absolute() else at
            left += [name for name in target.parts if name != "/"][::-1]
        else:
            at /= part
    return at


if __name__ == "__main__":
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        sys.exit()
    try:
        directory = ensure()
    except LabError as error:
        sys.exit(f"error: {error}")
    if sys.argv[1:]:
        os.execvpe(sys.argv[1], sys.argv[1:], {**os.environ, "HEDDLE_OVN_ROOT": str(directory)})
    print(directory)
