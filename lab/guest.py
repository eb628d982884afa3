# SPDX-License-Identifier: Apache-2.0
"""One guest of User Mode Linux: its initramfs, where its memory is, and its command line."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

from lab.config import PROJECT, memory_megabytes
from lab.errors import LabError
from lab.image import pack

FILES = PROJECT / "lab" / "uml_files"
APPLETS = (
    "sh", "mount", "umount", "ip", "mkdir", "cp", "find", "uname", "chroot", "switch_root", "poweroff", "echo",
)  # fmt: skip
MEGABYTE = 1 << 20
# The tunnel, dummy and ifb drivers are built in: without these every network namespace would begin with their devices,
# which are not there on a host that loads modules.
KERNEL_ARGUMENTS = (
    "seccomp=auto", "con=null", "con0=null,fd:1", "con1=null", "quiet", "systemd.show_status=0", "net.ifnames=0",
    "audit=0", "random.trust_cpu=on", "fb_tunnels=none", "dummy.numdummies=0", "ifb.numifbs=0",
)  # fmt: skip


def write_initramfs(kernel, init, files, target):
    """busybox, the first process `init`, the index of the modules and further `files` (text or bytes, by path)."""
    with tempfile.TemporaryDirectory(prefix="heddle-") as scratch:
        tree = pathlib.Path(scratch)
        for name in ("bin", "dev", "proc", "lower", "state", "new", "host"):
            (tree / name).mkdir()
        shutil.copy("/bin/busybox", tree / "bin/busybox")
        for applet in APPLETS:
            (tree / "bin" / applet).symlink_to("busybox")
        shutil.copytree(kernel.modules, tree / "modules")
        shutil.copy(FILES / init, tree / "init")
        (tree / "init").chmod(0o755)
        for name, text in files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            path.chmod(0o644)
        target.unlink(missing_ok=True)
        pack(tree, target)


def memory_directory(guests, candidates=None):
    """A directory for the memory of so many guests: a file each, of which only what they use takes room.

    /dev/shm first, because writing to a disk what is memory is slow; files there may be executed or not, as mounted.
    """
    if candidates is None:
        candidates = ("/dev/shm", os.environ.get("TMPDIR"), "/tmp")
    found, needed = [], guests * memory_megabytes()
    for path in filter(None, candidates):
        if not os.path.isdir(path) or not os.access(path, os.W_OK):
            found.append(f"{path} is not a directory that this user may write to")
            continue
        about = os.statvfs(path)
        free = about.f_bavail * about.f_frsize
        if about.f_flag & os.ST_NOEXEC:
            found.append(f"{path} is mounted noexec")
        elif free < needed * MEGABYTE:
            found.append(f"{path} has {free // MEGABYTE} MB")
        else:
            return path
    raise LabError(
        f"no place for the memory of {guests} hosts, {needed} MB: {'; '.join(found)}",
        "set TMPDIR to a directory with that much room, on a tmpfs if possible",
    )


def arguments(kernel, image, name, initramfs, disk, directory, interfaces=()):
    """The command line. `disk` is a path, with the flag r in front of a colon when it is only read.

    `interfaces` are (file descriptor, MAC address, MTU in bytes) of connected datagram sockets, one frame each. The
    image is opened without a lock (flag c), because QEMU and other guests use it as well.
    """
    flag, _, path = disk.rpartition(":")
    words = [
        # A guest that ends in a kernel panic must not leave a core file.
        "prlimit", "--core=0", str(kernel.binary), *KERNEL_ARGUMENTS, f"mem={memory_megabytes()}M", f"umid={name}",
        f"uml_dir={directory}/", f"initrd={initramfs}", f"ubd0rc={image.squashfs}", f"ubd1{flag}={path}",
    ]  # fmt: skip
    for number, (descriptor, mac, mtu) in enumerate(interfaces):
        words.append(f"vec{number}:transport=fd,fd={descriptor},mac={mac},mtu={mtu},depth=64")
    return words


def environment(memory):
    """The environment of a guest whose memory is in this directory."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "TMPDIR": memory}


def run(argv, memory, limit, seen=None):
    """Run a guest to its end; return what it wrote on its console, and whether it ended by itself within the limit.

    `seen` is called with the guest's process id and each line of its console, as they come.
    """
    with subprocess.Popen(
        argv, env=environment(memory), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        cwd="/",
    ) as process:  # fmt: skip
        late = threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), process.kill()))
        timer.start()
        console = []
        try:
            for line in process.stdout:
                console.append(line.decode(errors="replace"))
                if seen:
                    seen(process.pid, console[-1])
        finally:
            timer.cancel()
            process.kill()
    return "".join(console), not late.is_set()
