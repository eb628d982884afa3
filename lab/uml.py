# SPDX-License-Identifier: Apache-2.0
"""Driver `uml`: each host is a User Mode Linux kernel, an ordinary process. Needs neither privilege nor KVM.

Underlay and provider are the same switch that virtual machines have. Management is one QEMU without a machine: its
user network stack connects a port of this machine with the ssh of each host.
"""

import contextlib
import os
import shutil
import socket
import time

from lab import clock, console, guest, kernel, kernel_probe, mappings, processes, ssh
from lab.config import HOSTS, MACHINE_MAC, MACHINE_NUMBER, MTU, SEGMENTS
from lab.errors import LabError
from lab.image import run
from lab.machine import QEMU
from lab.switched import Switched


class Driver(Switched):
    """The hosts of one lab as User Mode Linux."""

    name = "uml"
    # What a host has of its own, in its directory.
    kept = ("disk",)

    @property
    def kernel(self):
        return kernel.Kernel(self.lab.cache, self.settings["kernel"])

    def prepare(self, stages):
        """Decide where memory is, and on ports for ssh; those that another program has taken since are replaced."""
        self.kernel.require()
        began = time.monotonic()
        if kernel_probe.require(self.kernel, self.image):
            stages.line("guest", "has every feature; tried once on this machine", time.monotonic() - began)
        if clock.ensure(self.lab.cache) is None:
            stages.line("clock", f"slow on the hosts; install {clock.COMPILER}, then down and up again", 0)
        mappings.raise_limit(stages)
        self.settings["memory"] = guest.memory_directory(sum(not self.running(host) for host in HOSTS))
        if not self.connected():
            self.choose_ports(HOSTS)

    def _file(self, name):
        return self.runtime / f"{name}.pid"

    def connected(self):
        return super().connected() and processes.running(self._file("management")) is not None

    def connect(self):
        """Start the switch between the hosts and the process that carries ssh.

        A host is connected with them when it starts, and for good: with new ones it must be started anew.
        """
        if self.connected():
            return
        for name in ("switch", "management"):
            processes.kill(self._file(name))
        super().connect()
        processes.start(self._file("management"), self._management(), self.lab.logs / "management.log")
        for segment in SEGMENTS:
            for host in HOSTS:
                self._wait_for_socket(host, segment)

    def _management(self):
        """The command line of the process that carries ssh to all hosts, each on a network of its own."""
        subnet = self.network.subnet("management")
        argv = [QEMU, "-machine", "none", "-nodefaults", "-no-user-config", "-display", "none"]
        for number, host in enumerate(HOSTS):
            path = self._socket(host, "management")
            forward = f"tcp:127.0.0.1:{self.settings['ports'][host.name]}-{subnet[MACHINE_NUMBER]}:22"
            user = f"restrict=on,ipv6=off,net={subnet},host={subnet[2]},dns={subnet[3]},hostfwd={forward}"
            ends = f"local.type=unix,local.path={path}.switch,remote.type=unix,remote.path={path}.machine"
            argv += ["-netdev", f"user,id=user{number},{user}", "-netdev", f"dgram,id=host{number},{ends}"]
            argv += ["-netdev", f"hubport,id=a{number},hubid={number},netdev=user{number}"]
            argv += ["-netdev", f"hubport,id=b{number},hubid={number},netdev=host{number}"]
        return argv

    def _socket(self, host, segment):
        return f"{self.runtime}/{host.name}.{segment}"

    def _wait_for_socket(self, host, segment):
        """Wait until the other end of a host's interface is there."""
        program = "management" if segment == "management" else "switch"
        log = self.lab.logs / f"{program}.log"
        deadline = time.monotonic() + ssh.PATIENCE
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end, contextlib.suppress(OSError):
                end.connect(f"{self._socket(host, segment)}.switch")
                return
            if processes.running(self._file(program)) is None or time.monotonic() > deadline:
                lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
                raise LabError(f"the lab's {program} process did not start: {lines[-1]}", f"read {log}")
            time.sleep(0.02)

    def running(self, host):
        return self.connected() and self._alive(host)

    def console(self, host):
        return self.lab.logs / f"{host.name}.log"

    def start(self, host):
        """Start a host on the disk that it had."""
        processes.kill(self.pid_file(host))
        directory = self.lab.directory / host.name
        directory.mkdir(exist_ok=True)
        disk = directory / "disk"
        if not disk.exists():
            copy_sparse(self.image.disk, disk)
        files = {**self.lab.host_files(host, self.network, self.name), **clock.files(self.lab.cache)}
        files[console.FILE] = console.UNIT
        initramfs = directory / "initramfs"
        guest.write_initramfs(self.kernel, "init", {f"host/{name}": text for name, text in files.items()}, initramfs)
        with contextlib.ExitStack() as open_sockets, self.booting(host):
            interfaces = []
            for segment in SEGMENTS:
                mac = MACHINE_MAC if segment == "management" else host.mac(segment)
                end = open_sockets.enter_context(interface_end(self._socket(host, segment)))
                interfaces.append((end.fileno(), mac, MTU[segment]))
            argv = guest.arguments(self.kernel, self.image, host.name, initramfs, str(disk), self.runtime, interfaces)
            processes.start(
                self.pid_file(host), argv, self.console(host), pass_fds=[end[0] for end in interfaces],
                env=guest.environment(self.settings["memory"]),
            )  # fmt: skip
        ssh.wait(self.lab.ssh_config, host.name, alive=lambda: self._alive(host))

    def booting(self, host):
        """Wait, after the body has made a host boot, until it reports on its console that ssh listens."""
        return console.booting(host.name, self.console(host), lambda: self._alive(host))

    def kill(self, host):
        """Cut the power."""
        processes.kill(self.pid_file(host))

    def destroy(self):
        """End every process. The disks go with the lab's directory, the memory with the processes."""
        for host in HOSTS:
            processes.kill(self.pid_file(host))
            shutil.rmtree(self.lab.directory / host.name, ignore_errors=True)
        for name in ("management", "switch"):
            processes.kill(self._file(name))


def interface_end(path):
    """A host's end of an interface, connected with the other one."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}.machine")
    end.bind(f"{path}.machine")
    end.connect(f"{path}.switch")
    return end


def copy_sparse(source, target):
    """Copy a disk; what was never written takes no room, and a copy that was cut off does not stay."""
    temporary = target.with_suffix(".new")
    run(["cp", "--sparse=always", str(source), str(temporary)], f"copy {source.name}")
    temporary.rename(target)
