# SPDX-License-Identifier: Apache-2.0
"""The part of QEMU's machine protocol (QMP) that saves and restores a machine's state."""

import json
import shlex
import socket
import time

from lab.errors import LabError


class Monitor:
    """A connection to one QEMU process; use it as a context manager."""

    def __init__(self, path, patience=30):
        deadline = time.monotonic() + patience
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(str(path))
                break
            except OSError as error:
                self.socket.close()
                if time.monotonic() > deadline:
                    raise LabError(f"QEMU does not answer on {path}: {error}", "read the host's log") from None
                time.sleep(0.02)
        self.socket.settimeout(60)
        self.stream = self.socket.makefile("rw")
        self.stream.readline()
        self.execute("qmp_capabilities")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def execute(self, command, **arguments):
        """Run one command and return its answer."""
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        for line in self.stream:
            answer = json.loads(line)
            if "error" in answer:
                raise LabError(f"QEMU refuses {command}: {answer['error']['desc']}", "read the host's log")
            if "return" in answer:
                return answer["return"]
        raise LabError(f"QEMU ended during {command}", "read the host's log")

    def _finish_migration(self, patience=600):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            status = self.execute("query-migrate").get("status")
            if status == "completed":
                return
            if status in ("failed", "cancelled"):
                break
            time.sleep(0.02)
        raise LabError("QEMU cannot transfer the state of a machine", "read the host's log")

    def _leave_out_memory(self):
        """The memory is a file of its own; only the state of the devices is transferred."""
        capability = {"capability": "x-ignore-shared", "state": True}
        self.execute("migrate-set-capabilities", capabilities=[capability])

    def save(self, path):
        """Stop the machine and write the state of its devices."""
        self.execute("stop")
        self._leave_out_memory()
        self.execute("migrate", uri=f"exec:cat > {shlex.quote(str(path))}")
        self._finish_migration()

    def restore(self, path):
        """Load the state of the devices and let the machine run."""
        self._leave_out_memory()
        self.execute("migrate-incoming", uri=f"exec:cat {shlex.quote(str(path))}")
        self._finish_migration()
        self.execute("cont")

    def quit(self):
        """End QEMU, with everything that the guest has written on disk."""
        self.execute("quit")
