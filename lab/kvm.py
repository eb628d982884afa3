# SPDX-License-Identifier: Apache-2.0
"""Does KVM run a guest here? /dev/kvm may exist and still not do that, so a tiny guest is tried once."""

import contextlib
import json
import os
import platform
import subprocess
import tempfile
import threading
from pathlib import Path

from lab import machine
from lab.image import locked

# Seconds in which the guest has to say that it runs; a busy machine takes longer than the second of an idle one.
LIMIT = 60


def remembered(cache, image):
    """(key, answer): the answer is None when it was not tried yet."""
    key = " ".join([platform.release(), machine.version(), image.name])
    return key, stored(cache).get(key)


def stored(cache):
    """What is known, by key."""
    try:
        return json.loads((cache / "kvm.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def accessible():
    return os.access("/dev/kvm", os.R_OK | os.W_OK)


def works(cache, image):
    """Try it, unless it is known. That the guest took too long is not stored: the machine may have been busy."""
    if not accessible():
        return False
    with locked(cache / "kvm.lock"):
        key, answer = remembered(cache, image)
        if answer is None:
            answer = attempt(image)
            if answer is not None:
                temporary = cache / "kvm.new"
                temporary.write_text(json.dumps({**stored(cache), key: answer}) + "\n")
                temporary.rename(cache / "kvm.json")
    return bool(answer)


def attempt(image):
    """Boot the image's kernel with a first process that prints a marker; None when that did not end in time."""
    with tempfile.TemporaryDirectory(prefix="heddle-") as scratch:
        console = Path(scratch) / "console"
        argv = [
            machine.QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc",
            *machine.KVM, "-m", "256M", "-kernel", str(image.kernel), "-initrd", str(image.initramfs),
            "-append", "console=ttyS0 quiet panic=-1 rdinit=/kvm-probe", "-qmp", "stdio", "-serial", f"file:{console}",
        ]  # fmt: skip
        ended = run_to_end(argv)
        return printed(console) or (False if ended else None)


def run_to_end(argv):
    """Run a guest with its monitor on standard input and output; False when it took longer than the limit.

    Its end is also that QEMU stops it: where KVM cannot execute an instruction (nested virtualization), the guest
    stands still for good, and QEMU stays.
    """
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as guest:
        late = threading.Event()
        timer = threading.Timer(LIMIT, lambda: (late.set(), guest.kill()))
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                guest.stdin.write(b'{"execute": "qmp_capabilities"}\n')
            for line in guest.stdout:
                if json.loads(line).get("event") == "STOP":
                    break
        finally:
            timer.cancel()
            guest.kill()
    return not late.is_set()


def printed(console):
    """Has the guest printed the marker?"""
    return console.exists() and b"kvm-works" in console.read_bytes()
