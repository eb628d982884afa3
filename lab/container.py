# SPDX-License-Identifier: Apache-2.0
"""Watches over one container: gives it a root, interfaces and a console, and starts it again when it reboots.

Runs as a process of its own in a copy of the lab's mount namespace and in a network namespace in which interfaces wait
for the container to take them. What it makes (mounts, interfaces) disappears with those namespaces.
"""

import argparse
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

from lab.config import INTERFACES, MTU, host_named

# systemd-nspawn's exit status when the system inside asks for a reboot.
REBOOT = 133


def ip(*words, check=True, namespace=None):
    prefix = ["nsenter", f"--net=/proc/{namespace}/ns/net"] if namespace else []
    subprocess.run([*prefix, "ip", *words], check=check, stderr=None if check else subprocess.DEVNULL)


def enter_cgroup(path):
    """A subtree of its own: systemd-nspawn makes groups below the one that it is in, with fixed names."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text(str(os.getpid()))


def mount_sys(place):
    """Show this network namespace in /sys, read-only, with the control groups that were there.

    From version 257 on systemd-nspawn looks interfaces up in /sys, which shows the namespace that it was mounted in.
    """
    place.mkdir(parents=True, exist_ok=True)
    for words in (
        ("-t", "sysfs", "-o", "ro", "sysfs", str(place)),
        ("--bind", "/sys/fs/cgroup", f"{place}/fs/cgroup"),
        ("--rbind", str(place), "/sys"),
    ):
        subprocess.run(["mount", *words], check=True)


def mount_root(lower, upper, work, merged):
    """The image below, what the host has changed above."""
    for path in (upper, work, merged):
        path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["umount", "--lazy", str(merged)], stderr=subprocess.DEVNULL, check=False)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(merged)], check=True)


def plug(host, holder):
    """Make the host's interfaces, with their other ends on the lab's bridges."""
    for segment in host.segments:
        interface, outer = INTERFACES[segment], f"{host.name}-{INTERFACES[segment]}"
        # An interface of the previous boot may not be removed yet.
        ip("link", "delete", outer, check=False, namespace=holder)
        ip(
            "link", "add", interface, "mtu", str(MTU[segment]), "type", "veth",
            "peer", "name", outer, "mtu", str(MTU[segment]), "netns", str(holder),
        )  # fmt: skip
        ip("link", "set", outer, "master", segment, "up", namespace=holder)
        # Packets without checksums, as interfaces of one kernel pass them on, are broken for userspace datapaths.
        subprocess.run(["ethtool", "--offload", interface, "tx", "off"], check=True, stdout=subprocess.DEVNULL)


def make_tun(path):
    """A node of the host's own for /dev/net/tun, as udev makes it: the machine's may be root's alone."""
    path.unlink(missing_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(10, 200))
    path.chmod(0o666)


def boot(host, merged, name, tun):
    """Run the container once and return how it ended. Its console is a terminal of our own."""
    ours, theirs = os.openpty()
    argv = [
        "systemd-nspawn", "--settings=no", "--boot", "--keep-unit", "--register=no",
        f"--directory={merged}", f"--machine={name}", f"--hostname={host.name}",
        "--capability=all", f"--bind={tun}:/dev/net/tun", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
        *(f"--network-interface={INTERFACES[segment]}" for segment in host.segments),
    ]  # fmt: skip
    environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_LOCK": "0"}
    container = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    threading.Thread(target=copy, args=(ours,), daemon=True).start()
    return container.wait()


def copy(terminal):
    """Copy the console to standard output, the host's log."""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        os.write(1, data)
    os.close(terminal)


def main():
    parser = argparse.ArgumentParser(prog="lab.container", description="Run one host of the lab as a container")
    parser.add_argument("host", type=host_named)
    parser.add_argument("--lower", type=Path, required=True, help="the image")
    parser.add_argument("--state", type=Path, required=True, help="where the host's own files are kept")
    parser.add_argument("--merged", type=Path, required=True, help="where both are put together")
    parser.add_argument("--cgroup", type=Path, required=True)
    parser.add_argument("--holder", type=int, required=True, help="the process that holds the lab's namespaces")
    parser.add_argument("--machine", required=True, help="a name that no other container of the machine has")
    arguments = parser.parse_args()
    enter_cgroup(arguments.cgroup)
    mount_sys(arguments.merged.parent / f"{arguments.merged.name}-sys")
    mount_root(arguments.lower, arguments.state / "upper", arguments.state / "work", arguments.merged)
    tun = arguments.merged.parent / f"{arguments.merged.name}-tun"
    make_tun(tun)
    status = REBOOT
    while status == REBOOT:
        plug(arguments.host, arguments.holder)
        status = boot(arguments.host, arguments.merged, arguments.machine, tun)
    return status


if __name__ == "__main__":
    sys.exit(main())
