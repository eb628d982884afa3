# SPDX-License-Identifier: Apache-2.0
"""Driver `nspawn`: each host is a container with systemd inside, sharing this machine's kernel. Needs root.

One process, the holder, holds a network and a mount namespace. The bridges, the hosts' roots and all that
systemd-nspawn leaves in /run live in there, so the machine itself sees processes and cgroups only.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from lab import console, impair, processes, ssh
from lab import image as images
from lab.config import HOSTS, INTERFACES, MTU, PROJECT, SEGMENTS
from lab.errors import LabError

CGROUPS = Path("/sys/fs/cgroup")
# Userspace datapaths and virtual machines make their interfaces with it.
TUN = Path("/dev/net/tun")
# The management address of the lab's own end, in the namespace only.
GATEWAY = 254
# Open vSwitch gives its daemon this priority, which counts among the processes of its own session only where the kernel
# groups by sessions (sched(7), "The autogroup feature"). Then a busy machine leaves it so little of a processor that
# its sockets overflow, and hosts lose packets. Each time that the daemon wakes up, the userspace datapath allocates and
# frees packets for each port (`ovs-appctl coverage/show`, util_xalloc), for which the C library's allocator asks the
# kernel anew. With jemalloc an idle host's took two thirds of the processor time, compared by hand.
SWITCH_FILE = "etc/systemd/system/ovs-vswitchd.service.d/lab.conf"
SWITCH = """[Service]
Environment=LD_PRELOAD=libjemalloc.so.2
ExecStartPost=-/bin/sh -c 'echo -10 > /proc/$MAINPID/autogroup'
"""


class Driver:
    """The hosts of one lab as containers."""

    name = "nspawn"
    # What a host has of its own, in its directory.
    kept = ("upper",)

    def __init__(self, lab, network, image, runtime, state):
        self.lab, self.network, self.image, self.runtime = lab, network, image, runtime
        self.holder_file = runtime / "holder.pid"
        self.cgroup = CGROUPS / f"heddle-lab-{lab.key}"

    @property
    def holder(self):
        return processes.running(self.holder_file)

    def _inside(self, *argv, network=True, mounts=False, **options):
        """Run a command in the lab's namespaces."""
        flags = [flag for flag, wanted in (("--net", network), ("--mount", mounts)) if wanted]
        return subprocess.run(
            ["nsenter", f"--target={self.holder}", *flags, *argv], capture_output=True, text=True, **options
        )

    def prepare(self, stages):
        """Unpack the image once; all containers use it."""
        if os.geteuid() != 0:
            raise LabError("driver nspawn needs root", "use DRIVER=uml, which does not, or vm where KVM works")
        if not TUN.is_char_device():
            raise LabError(f"driver nspawn needs {TUN}", "run: modprobe tun, or use DRIVER=uml")
        if not self.image.root.is_dir():
            with stages.stage("unpack") as text:
                root, _ = images.ensure_root(self.image)
                text.append(root.parent.name)

    def endpoints(self):
        """Through the lab's network namespace: the machine has no route to the hosts, and needs none."""
        relay = f"ProxyCommand nsenter --net=/proc/{self.holder}/ns/net busybox nc %h 22"
        subnet = self.network.subnet("management")
        return {host.name: [f"HostName {subnet[host.number]}", relay] for host in HOSTS}

    def connected(self):
        return self.holder is not None

    def connect(self):
        """Start the holder and build the segments."""
        if self.connected():
            return
        argv = ["unshare", "--net", "--mount", "--propagation=private", "sleep", "infinity"]
        pid = processes.start(self.holder_file, argv, self.lab.logs / "holder.log")
        deadline = time.monotonic() + ssh.PATIENCE
        while Path(f"/proc/{pid}/comm").read_text().strip() != "sleep":
            if time.monotonic() > deadline:
                raise LabError("the lab's namespaces were not made", f"read {self.lab.logs / 'holder.log'}")
            time.sleep(0.01)
        subnet = self.network.subnet("management")
        lines = ["link set lo up"]
        for segment in SEGMENTS:
            lines += [
                f"link add {segment} type bridge mcast_snooping 0",
                f"link set {segment} mtu {MTU[segment]} addrgenmode none up",
            ]
        lines.append(f"address add {subnet[GATEWAY]}/{subnet.prefixlen} dev management")
        self._must(self._inside("ip", "-batch", "-", input="\n".join(lines) + "\n"), "build the segments")
        self._must(self._inside("mount", "-t", "tmpfs", "lab", "/run", mounts=True), "mount a private /run")
        # systemd-nspawn would wait for udev, which does not manage interfaces in here, unless /sys is read-only.
        self._must(self._inside("mount", "-o", "remount,bind,ro", "/sys", mounts=True), "make /sys read-only")
        # systemd in the containers needs the unified hierarchy; where the machine uses another one, only they see it.
        kind = self._inside("stat", "--file-system", "--format=%T", str(CGROUPS), mounts=True).stdout.strip()
        if kind != "cgroup2fs":
            mounted = self._inside("mount", "-t", "cgroup2", "cgroup2", str(CGROUPS), mounts=True)
            self._must(mounted, "mount the unified cgroup hierarchy")

    @staticmethod
    def _must(done, purpose):
        if done.returncode:
            raise LabError(
                f"cannot {purpose}: {done.stderr.strip()}",
                "use DRIVER=uml, which needs no privilege, or vm where KVM works",
            )

    def pid_file(self, host):
        return self.runtime / f"{host.name}.pid"

    def running(self, host):
        return self.connected() and processes.running(self.pid_file(host)) is not None

    def start(self, host):
        """Start a host on the files that it had."""
        processes.kill(self.pid_file(host))  # one of a holder that has died
        state = self.lab.directory / host.name
        files = {**self.lab.host_files(host, self.network, self.name), SWITCH_FILE: SWITCH}
        files[console.FILE] = console.UNIT
        for name, text in files.items():
            path = state / "upper" / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                path.chmod(0o644)
        argv = ["nsenter", f"--target={self.holder}", "--net", "--mount"]
        argv += ["unshare", "--net", "--mount", "--propagation=private"]
        argv += [sys.executable, "-m", "lab.container", host.name, "--lower", str(self.image.root)]
        argv += ["--state", str(state), "--merged", f"/run/lab/{host.name}", "--cgroup", str(self.cgroup / host.name)]
        argv += ["--holder", str(self.holder), "--machine", f"{host.name}-{self.lab.key}"]
        with self.booting(host):
            processes.start(self.pid_file(host), argv, self.console(host), env=processes.environment(PROJECT))
        ssh.wait(self.lab.ssh_config, host.name, alive=lambda: self.running(host))

    def console(self, host):
        return self.lab.logs / f"{host.name}.log"

    def booting(self, host):
        """Wait, after the body has made a host boot, until it reports on its console that ssh listens.

        A host that an earlier version has started does not report it.
        """
        if not (self.lab.directory / host.name / "upper" / console.FILE).exists():
            return contextlib.nullcontext()
        return console.booting(host.name, self.console(host), lambda: self.running(host))

    def kill(self, host):
        """Cut the power."""
        processes.kill(self.pid_file(host))

    def partition(self, host, cut):
        for segment in host.segments[1:]:
            outer = f"{host.name}-{INTERFACES[segment]}"
            done = self._inside("ip", "link", "set", outer, "down" if cut else "up")
            self._must(done, f"set {outer}")

    def group(self, host):
        """The cgroup of a host, below the machine's root."""
        return str((self.cgroup / host.name).relative_to(CGROUPS))

    def impair(self, loss, blackhole):
        """Lose frames on the bridges, by the nftables of the image: this machine may have none."""
        text = impair.rules(loss, blackhole)
        self._must(self._inside("chroot", str(self.image.root), "nft", "-f", "-", input=text), "lose frames")

    def destroy(self):
        """End every process; the namespaces and all that is in them go with the last one."""
        for host in HOSTS:
            processes.kill(self.pid_file(host))
        if self.connected():
            deadline = time.monotonic() + processes.PATIENCE
            while self._remove_cgroups() and time.monotonic() < deadline:
                time.sleep(0.05)
        processes.kill(self.holder_file)
        for host in HOSTS:
            shutil.rmtree(self.lab.directory / host.name, ignore_errors=True)

    def _remove_cgroups(self):
        """True while groups are left: a group can be removed only when its last process has gone."""
        self._inside("find", str(self.cgroup), "-depth", "-type", "d", "-delete", mounts=True)
        return self._inside("test", "-d", str(self.cgroup), mounts=True).returncode == 0
