# SPDX-License-Identifier: Apache-2.0
"""The entry of the program `heddle-host`: a call by Ansible, or a verb of its command line.

A call imports next to nothing before it knows whether the service answers it.
"""

from __future__ import annotations

import sys


def main(version: str) -> int:
    """Run as the arguments say; `version` identifies the sources that the program is made of."""
    if sys.argv[1:] in (["call"], ["call-apart"]):
        return _call(version, apart=sys.argv[1] == "call-apart")
    from ..agent.cli import main as command_line
    from .resident import CallSocket

    return command_line(calls=lambda: CallSocket(version))


def _call(version: str, *, apart: bool) -> int:
    """Answer a call; `apart`: in this process, since what it starts has to outlive the service."""
    from .service_client import asked

    request = sys.stdin.buffer.read()
    reply = None if apart else asked(request, version)
    if reply is None:
        # First: what is imported after it has cached byte code.
        from ..common.processes import bytecode_cache  # noqa: F401
        from .calls import answered

        reply = answered(version, request)
    sys.stdout.buffer.write(reply)
    sys.stdout.buffer.flush()
    return 0
