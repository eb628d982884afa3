# SPDX-License-Identifier: Apache-2.0
"""The entry of the program `heddle-host`: a call by Ansible, or a verb of its command line."""

from __future__ import annotations

import sys

# First: what is imported after it has cached byte code.
from ..common import bytecode_cache  # noqa: F401


def main(version: str) -> int:
    """Run as the arguments say; `version` identifies the sources that the program is made of."""
    if sys.argv[1:] == ["call"]:
        from .calls import serve

        serve(version, sys.stdin.buffer, sys.stdout)
        return 0
    from ..agent.cli import main as command_line

    return command_line()
