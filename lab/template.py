# SPDX-License-Identifier: Apache-2.0
"""A booted machine on disk. Under software emulation, restoring it takes a tenth of the time of a boot.

The template is one machine that has booted, loaded its modules and warmed its page cache. Its memory is a file; the
state of its devices is another one; its disk is the base of the disks of the hosts restored from it. After that each
host gets its own name, addresses, machine id, clock and random numbers over ssh.
"""

import hashlib
import secrets
import shlex
import tempfile
import time
from pathlib import Path

from lab import machine, ports, processes, ssh
from lab.config import MACHINE_MAC, MACHINE_NUMBER, SEGMENTS, Host
from lab.errors import LabError
from lab.image import locked, replacing

HOST = Host("template", 254, SEGMENTS)
# What a rollout will need soon: in the memory image it costs once what it would cost every host. Modules that make
# interfaces of their own (ipip, ip6_tunnel) stay out: a host must look the same before and after a reboot.
WARM_UP = """
systemctl is-system-running --wait
modprobe -a openvswitch vport_geneve geneve vport_vxlan vxlan vrf fou tun veth
modprobe -a nf_tables nft_chain_nat nft_ct nft_masq nf_conncount
python3 -c 'import apt, ctypes, json, netaddr, nftables, ovs.db.idl, ovsdbapp, pyroute2, tempfile, yaml, zipfile'
cat /usr/bin/ovn-* /usr/bin/ovs-* /usr/sbin/ovs* /usr/lib/*/libopenvswitch* /usr/lib/*/libovn* > /dev/null 2>&1
sync
"""
PERSONALISE_TAIL = """
hostname -F /etc/hostname
printf %s {entropy} > /dev/urandom
python3 -c 'import fcntl; fcntl.ioctl(open("/dev/urandom", "wb"), 0x5207)'
/usr/local/sbin/segments
{start}
sync
"""


def digest(image, network):
    """The digest of everything that a machine must have in common with the template that it is restored from."""
    summary = hashlib.sha256()
    argv = machine.arguments(
        HOST, image, "disk", "initramfs", "runtime", 0, "console", machine.memory("memory"), False, network
    )
    for part in (image.name, machine.version(), argv, WARM_UP, segments(network)):
        summary.update(repr(part).encode() + b"\0")
    return summary.hexdigest()[:16]


class Template:
    """Paths of one template."""

    def __init__(self, cache, name):
        self.name = name
        self.directory = cache / f"template-{name}"
        self.memory = self.directory / "memory"
        self.devices = self.directory / "devices"
        self.disk = self.directory / "disk.qcow2"

    def require_same(self, image, network):
        """Refuse to restore a machine that would differ from this one."""
        if self.name != digest(image, network):
            raise LabError(
                "the template of this lab was made with another LAB_MEMORY_MB, or by another QEMU",
                "set LAB_MEMORY_MB as it was for the first: python -m lab up; or: python -m lab down, then up",
            )


def segments(network):
    """The template has a management address only; its other interfaces are down until it has become a host."""
    subnet = network.subnet("management")
    return f"eth0 {MACHINE_MAC} 1500 {subnet[MACHINE_NUMBER]}/{subnet.prefixlen}\n"


def ensure(cache, image, network):
    """The template for this image, QEMU and network, and whether it had to be made."""
    template = Template(cache, digest(image, network))
    with locked(cache / "template.lock"):
        if template.directory.is_dir():
            return template, False
        with replacing(template.directory) as work, tempfile.TemporaryDirectory(prefix="heddle-") as runtime:
            build(work, Path(runtime), image, network)
    return template, True


def build(work, runtime, image, network):
    """Boot one machine, warm it up, and save it."""
    port = ports.free()
    pid_file, log = runtime / "pid", runtime / "qemu.log"
    machine.make_disk(work / "disk.qcow2", image.disk, "raw")
    files = {
        "etc/hostname": "template\n",
        "etc/machine-id": secrets.token_hex(16) + "\n",
        "etc/segments": segments(network),
    }
    machine.make_initramfs(image, files, runtime / "initramfs")
    config = runtime / "ssh_config"
    ssh.write_config(config, image.ssh_key, runtime, {HOST.name: ["HostName 127.0.0.1", f"Port {port}"]})
    argv = machine.arguments(
        HOST, image, work / "disk.qcow2", runtime / "initramfs", runtime, port, runtime / "console",
        machine.memory(work / "memory", shared=True), False, network,
    )  # fmt: skip
    try:
        # No pid file refers to this machine: it must not outlive this process.
        argv = ["setpriv", "--pdeathsig", "KILL", *argv]
        with machine.launch(pid_file, argv, log, runtime / f"{HOST.name}.qmp") as monitor:
            ssh.wait(config, HOST.name)
            ssh.wait(config, HOST.name, WARM_UP)
            ssh.hang_up(config, HOST.name)
            time.sleep(1)
            monitor.save(work / "devices")
            monitor.quit()
        processes.wait_end(pid_file)
    finally:
        processes.kill(pid_file)


def personalise(files, services):
    """The script that turns a restored template into one host."""
    lines = ["set -e", f"date -u -s @{time.time():.3f} > /dev/null"]
    for name, text in files.items():
        lines += [f"mkdir -p /{Path(name).parent}", f"printf %s {shlex.quote(text)} > /{name}"]
    start = f"systemctl start --no-block {' '.join(services)}" if services else ""
    return "\n".join(lines) + PERSONALISE_TAIL.format(entropy=secrets.token_hex(32), start=start)
