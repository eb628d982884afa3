# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the virtual machines of a host, as systemd units and files.

It decides nothing; `reconcile.py` does. Each VM is an instance of one unit, which the role
`hypervisor` installs, and a directory with its arguments and its sockets, which only root and QEMU may enter.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from ..common.errors import HypervisorError
from .credentials import forget_key
from .qmp import Qmp, QmpAbsent, QmpError, wait_for
from .runtime_files import read_file, write_file

RUNTIME = Path("/run/heddle-vm")
USER = "heddle-vm"
UNIT = Path("/etc/systemd/system/heddle-vm@.service")
# On a busy host that emulates the processor; a machine that has ended is noticed at once.
_START_TIMEOUT = 600.0


def ready() -> bool:
    """Return whether the role `hypervisor` was applied to this host."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return UNIT.exists()


def user_id() -> int:
    """Return the id of the user that QEMU runs as."""
    return pwd.getpwnam(USER).pw_uid


def socket_of(name: str, which: str = "qmp") -> str:
    """Return the path of a VM's socket: `qmp` controls QEMU, `guest` leads into the guest."""
    return str(RUNTIME / name / which)


def read_vms() -> dict[str, dict]:
    """Return the VMs that Heddle made on this host.

    Name -> `owner` ("" where its creation was cut off), `arguments`, `incoming` (whether it was started as the target
    of a migration), `moving` (whether it migrates to another host) and `active`.
    """
    found = {}
    for directory in sorted(RUNTIME.iterdir()) if RUNTIME.is_dir() else []:
        owner = _text(directory / "owner")
        if owner is not None:
            found[directory.name] = {
                "owner": owner,
                "arguments": _text(directory / "arguments") or "",
                "incoming": (directory / "incoming").exists(),
                "moving": (directory / "moving").exists(),
                "active": _is_active(directory.name),
            }
    return found


def _is_active(name: str) -> bool:
    return _systemctl("is-active", "--quiet", name, check=False) == 0


def start(name: str, owner: str, arguments: str, *, incoming: bool) -> None:
    """Start a VM, or with `incoming` one that waits for a migration; return when QEMU answers."""
    directory = RUNTIME / name
    RUNTIME.mkdir(mode=0o755, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    account = pwd.getpwnam(USER)
    os.chown(directory, account.pw_uid, account.pw_gid)
    # The owner's mark comes first: after an interruption the VM is known as Heddle's.
    for file, text in (("owner", owner), ("arguments", f"HEDDLE_ARGUMENTS={arguments}")):
        write_file(directory / file, f"{text}\n")
    if incoming:
        write_file(directory / "incoming", "HEDDLE_INCOMING=-incoming defer\n")
    else:
        forget_incoming(name)
    forget_moving(name)
    if _systemctl("start", name, check=False):
        raise HypervisorError(f"{name} did not start; see: journalctl -u heddle-vm@{name}")
    try:
        wait_for(socket_of(name), lambda _machine: True, _START_TIMEOUT, lambda: not _is_active(name))
    except HypervisorError as error:
        raise HypervisorError(f"{name} does not answer; see: journalctl -u heddle-vm@{name}: {error}") from error


def stop(name: str) -> None:
    """End a VM and remove what it left."""
    _systemctl("stop", name)
    _systemctl("reset-failed", name, check=False)
    shutil.rmtree(RUNTIME / name, ignore_errors=True)


def forget_incoming(name: str) -> None:
    """Make a VM that has arrived start normally from now on, and delete its key."""
    (RUNTIME / name / "incoming").unlink(missing_ok=True)
    forget_key(RUNTIME / name)


def note_moving(name: str) -> None:
    """Keep systemd from restarting the VM when its QEMU ends."""
    write_file(RUNTIME / name / "moving", "")


def forget_moving(name: str) -> None:
    """Let systemd restart the VM again when its QEMU ends."""
    (RUNTIME / name / "moving").unlink(missing_ok=True)


def status(name: str) -> str:
    """Return QEMU's state of a VM: `running`, `inmigrate`, `postmigrate`, ...

    `absent` without QEMU, and `silent` for a QEMU that does not answer, whose state is unknown.
    """
    try:
        with Qmp(socket_of(name)) as vm:
            return vm.execute("query-status")["status"]
    except QmpAbsent:
        return "absent"
    except QmpError:
        return "silent"


def _text(path: Path) -> str | None:
    try:
        return read_file(path).strip().removeprefix("HEDDLE_ARGUMENTS=")
    except OSError:
        return None


def _systemctl(verb: str, *words: str, check: bool = True) -> int:
    *options, name = words
    done = subprocess.run(
        ["systemctl", verb, *options, f"heddle-vm@{name}.service"], capture_output=True, text=True, check=False,
        errors="replace",
    )  # fmt: skip
    if check and done.returncode:
        raise HypervisorError(f"systemctl {verb} heddle-vm@{name}: {done.stderr.strip()}")
    return done.returncode
