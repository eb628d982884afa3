# SPDX-License-Identifier: Apache-2.0
"""Driver `vm`: each host is a QEMU machine with a kernel of its own. Needs no privilege."""

import shutil

from lab import kvm, machine, processes, ssh, template
from lab.config import HOSTS
from lab.errors import LabError
from lab.qmp import Monitor
from lab.switched import Switched


class Driver(Switched):
    """The hosts of one lab as virtual machines."""

    name = "vm"
    # What a host has of its own, in its directory.
    kept = ("disk.qcow2", "complete")

    def prepare(self, stages):
        """Decide how guests run and on ports for ssh, and make the template that guests start from."""
        if "kvm" not in self.settings:
            with stages.stage("kvm") as text:
                self.settings["kvm"] = kvm.works(self.image.cache, self.image)
                text.append("usable" if self.settings["kvm"] else "not usable: software emulation")
        if not self.settings["kvm"] and "template" not in self.settings:
            with stages.stage("template") as text:
                made, built = template.ensure(self.image.cache, self.image, self.network)
                self.settings["template"] = made.name
                text.append(f"{'made' if built else 'cached'} {made.name}")
        self.choose_ports([host for host in HOSTS if not self._alive(host)])

    def _template(self):
        """The template of this lab. Disks of hosts that have run are based on its disk."""
        made = template.Template(self.image.cache, self.settings["template"])
        if not made.directory.is_dir():
            raise LabError("the template of this lab is gone", "run: python -m lab down, then: python -m lab up")
        return made

    def _complete(self, host):
        """Marks a host that has its own name: one that was interrupted before that starts anew."""
        return self.lab.directory / host.name / "complete"

    def running(self, host):
        return self._complete(host).exists() and self._alive(host)

    def start(self, host):
        """Start a host: one that has never run is restored from the template, others boot from their own disk."""
        processes.kill(self.pid_file(host))
        directory, marker = self.lab.directory / host.name, self._complete(host)
        directory.mkdir(exist_ok=True)
        disk = directory / "disk.qcow2"
        files = self.lab.host_files(host, self.network, self.name)
        made = None if self.settings["kvm"] else self._template()
        restore = made is not None and not marker.exists()
        if restore:
            made.require_same(self.image, self.network)
        if not marker.exists():
            disk.unlink(missing_ok=True)
            machine.make_disk(disk, made.disk if made else self.image.disk, "qcow2" if made else "raw")
        machine.make_initramfs(self.image, files, directory / "initramfs")
        argv = machine.arguments(
            host, self.image, disk, directory / "initramfs", self.runtime, self.settings["ports"][host.name],
            self.lab.logs / f"{host.name}.log", machine.memory(made.memory if restore else None),
            self.settings["kvm"], self.network,
        )  # fmt: skip
        if restore:
            argv += ["-incoming", "defer"]
        log = self.lab.logs / f"{host.name}.qemu.log"
        with machine.launch(self.pid_file(host), argv, log, self.runtime / f"{host.name}.qmp") as monitor:
            if restore:
                monitor.restore(made.devices)
        command, data = ("sh", template.personalise(files, host.services)) if restore else ("true", None)
        ssh.wait(self.lab.ssh_config, host.name, command, data, lambda: self._alive(host))
        marker.touch()

    def kill(self, host):
        """Cut the power: the guest notices nothing, but its disk image is consistent."""
        if self._alive(host):
            try:
                with Monitor(self.runtime / f"{host.name}.qmp", patience=2) as monitor:
                    monitor.quit()
                processes.wait_end(self.pid_file(host), patience=5)
            except (LabError, OSError):
                pass  # it does not listen: kill() below needs no answer
        processes.kill(self.pid_file(host))

    def destroy(self):
        """End every process. The disks go with the lab's directory."""
        for host in HOSTS:
            processes.kill(self.pid_file(host))
            shutil.rmtree(self.lab.directory / host.name, ignore_errors=True)
        processes.kill(self.runtime / "switch.pid")
