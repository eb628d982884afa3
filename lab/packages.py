# SPDX-License-Identifier: Apache-2.0
"""Debian packages that the lab's own machine needs."""

import os
import shutil
import subprocess

from lab.errors import LabError

# netbase has the names of services that nft understands, which the live tests write.
COMMON = (
    "busybox-static", "ca-certificates", "cpio", "debian-archive-keyring", "e2fsprogs", "ethtool", "iproute2",
    "mmdebstrap", "netbase", "openssh-client", "squashfs-tools", "util-linux",
)  # fmt: skip
PER_DRIVER = {
    "vm": ("qemu-system-x86", "qemu-utils"),
    "nspawn": ("systemd-container",),
    "uml": ("qemu-system-x86",),
}
# What builds the kernel of driver uml; a machine that has one in its cache needs no compiler.
KERNEL = ("bc", "binutils", "bison", "flex", "gcc", "libc6-dev", "make", "xz-utils")


def needed(drivers, root, build_kernel=False):
    """Packages for the image and these drivers, with or without what builds the kernel of driver uml."""
    names = {*COMMON, *(name for each in drivers for name in PER_DRIVER[each]), *(KERNEL if build_kernel else ())}
    if not root:
        names.add("uidmap")
    return sorted(names)


def missing(names):
    """Those that are not installed."""
    query = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *names]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LabError("this machine is not Debian: there is no dpkg-query", "use Debian 12 or 13") from None
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def install(names):
    """Install packages with apt, as root or through sudo."""
    prefix = []
    if os.geteuid() != 0:
        remedy = f"run as root: apt-get install --no-install-recommends {' '.join(names)}"
        if shutil.which("sudo") is None:
            raise LabError(f"packages are missing and this user may not install them: {', '.join(names)}", remedy)
        prefix = ["sudo"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    keep = ["--preserve-env=DEBIAN_FRONTEND"] if prefix else []
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *names]):
        argv = [*prefix, *keep, "apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=120", *words]
        done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode and words != ["update"]:
            raise LabError(
                f"apt cannot install {', '.join(names)}: {' | '.join(done.stdout.strip().splitlines()[-3:])}",
                "check that apt reaches its mirror (apt-get update) and that the disk has room, then run it again",
            )


def ensure(drivers, stages, build_kernel=False):
    """Install what is missing; True when something was."""
    lacking = missing(needed(drivers, os.geteuid() == 0, build_kernel))
    if lacking:
        with stages.stage("packages") as text:
            install(lacking)
            text.append(f"installed {' '.join(lacking)}")
    return bool(lacking)
