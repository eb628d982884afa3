# SPDX-License-Identifier: Apache-2.0
"""A host reports on its console that ssh listens.

A connection that comes earlier is tried again only after seconds: the packet is lost, or waits for a neighbour.
"""

import contextlib
import re
import time

from lab import ssh
from lab.errors import LabError

READY = "lab-ready"
# On a host, below its root directory.
FILE = "etc/systemd/system/ssh.service.d/lab-ready.conf"
UNIT = f"[Service]\nExecStartPost=/bin/sh -c 'echo {READY} > /dev/console'\n"


@contextlib.contextmanager
def booting(name, log, alive):
    """Wait, after the body has made a host boot, until it reports in this log that ssh listens."""
    before = log.stat().st_size if log.exists() else 0
    yield
    deadline = time.monotonic() + ssh.PATIENCE
    while not said_ready(log, before):
        if time.monotonic() > deadline or not alive():
            raise LabError(f"{name} does not boot: {last_line(log)}", f"read its console in {log}")
        time.sleep(0.02)


def said_ready(log, offset):
    with open(log, "rb") as stream:
        stream.seek(offset)
        return READY.encode() in stream.read()


def last_line(log):
    lines = re.sub(r"[^\n -~]", "", log.read_text(errors="replace")).strip().splitlines()
    return lines[-1].strip() if lines else "it wrote nothing"
