# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: its command line, its disk, and how it starts."""

import pathlib
import shutil
import subprocess
import tempfile
import time

from lab import processes, ssh
from lab.config import MACHINE_MAC, MACHINE_NUMBER, memory_megabytes
from lab.errors import LabError
from lab.image import pack, run
from lab.qmp import Monitor

QEMU = "qemu-system-x86_64"
# QEMU 7.2's emulation returns wrong flags from cmpxchg16b, which makes guests crash at random: hence -cx16.
CPU = "qemu64,-cx16,+ssse3,+sse4.1,+sse4.2,+popcnt,+aes,+pclmulqdq,+rdrand"
EMULATION = ("-accel", "tcg,thread=multi,tb-size=256", "-cpu", CPU)
KVM = ("-accel", "kvm", "-cpu", "host")
KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet systemd.show_status=0 mitigations=off net.ifnames=0 tsc=reliable no_timer_check "
    "random.trust_cpu=on audit=0 panic=1"
)


def version():
    """The first line of QEMU's version: a saved state is good for the same program only."""
    return subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def accelerator(kvm):
    return KVM if kvm else EMULATION


def segment_netdev(name, runtime, host, segment):
    path = f"{runtime}/{host.name}.{segment}"
    return f"dgram,id={name},local.type=unix,local.path={path}.machine,remote.type=unix,remote.path={path}.switch"


def memory(template=None, shared=False):
    """Guest memory: anonymous, or a file that is written through (template) or copied on write (restored)."""
    if template is None:
        return ("-object", f"memory-backend-ram,id=mem,size={memory_megabytes()}M")
    share = "on" if shared else "off"
    return ("-object", f"memory-backend-file,id=mem,size={memory_megabytes()}M,mem-path={template},share={share}")


def arguments(host, image, disk, initramfs, runtime, port, console, memory_arguments, kvm, network):
    """The command line. A template and what is restored from it must agree in all but paths and addresses."""
    subnet = network.subnet("management")
    user = (
        f"user,id=eth0,restrict=on,ipv6=off,net={subnet},host={subnet[2]},dns={subnet[3]},"
        f"hostfwd=tcp:127.0.0.1:{port}-{subnet[MACHINE_NUMBER]}:22"
    )
    return [
        QEMU, "-name", host.name, "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", "pc,memory-backend=mem", *accelerator(kvm), "-smp", "1",
        "-m", f"{memory_megabytes()}M", *memory_arguments,
        "-kernel", str(image.kernel), "-initrd", str(initramfs), "-append", KERNEL_ARGUMENTS,
        "-drive", f"if=none,id=root,format=raw,readonly=on,file={image.squashfs}",
        "-device", "virtio-blk-pci,drive=root",
        "-drive", f"if=none,id=state,format=qcow2,discard=unmap,file={disk}",
        "-device", "virtio-blk-pci,drive=state",
        "-netdev", user,
        "-device", f"virtio-net-pci,netdev=eth0,romfile=,mac={MACHINE_MAC}",
        "-netdev", segment_netdev("eth1", runtime, host, "underlay"),
        "-device", f"virtio-net-pci,netdev=eth1,romfile=,mac={host.mac('underlay')}",
        "-netdev", segment_netdev("eth2", runtime, host, "provider"),
        "-device", f"virtio-net-pci,netdev=eth2,romfile=,mac={host.mac('provider')}",
        "-qmp", f"unix:{runtime}/{host.name}.qmp,server=on,wait=off",
        "-serial", f"file:{console}",
    ]  # fmt: skip


def make_disk(path, base, base_format):
    """A disk that stores only what differs from its base."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", base_format, str(path)], "make a disk")


def make_initramfs(image, files, target):
    """The image's initramfs followed by this host's own files."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in files.items():
            path = pathlib.Path(scratch) / "host" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o644)
        shutil.copyfile(image.initramfs, target)
        pack(pathlib.Path(scratch), target)


def launch(pid_file, argv, log, monitor):
    """Start QEMU and return a connection to its monitor."""
    processes.start(pid_file, argv, log)
    deadline = time.monotonic() + ssh.PATIENCE
    while time.monotonic() < deadline:
        try:
            return Monitor(monitor, patience=6)
        except LabError:
            if processes.running(pid_file) is None:
                lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
                raise LabError(f"QEMU did not start: {lines[-1]}", f"read {log}") from None
    raise LabError(f"QEMU does not answer on {monitor}", f"read {log}")
