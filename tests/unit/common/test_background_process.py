# SPDX-License-Identifier: Apache-2.0
"""When a process began."""

from __future__ import annotations

import subprocess
import sys

from ansible_collections.heddle.ovn.plugins.module_utils.common.processes.background_process import began

RENAMED = "open('/proc/self/comm', 'wb').write(b'caf\\xe9'); print(flush=True); input()"


def test_name_of_a_process_may_have_any_bytes():
    with subprocess.Popen([sys.executable, "-c", RENAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert began(process.pid).isdigit()
        process.communicate(b"\n")
    assert began(process.pid) is None
