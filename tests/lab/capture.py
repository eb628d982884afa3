# SPDX-License-Identifier: Apache-2.0
"""Packets that pass a host of the lab, as tcpdump prints them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from tests import supervised


@contextlib.contextmanager
def captured(lab, host: str, expression: str) -> Iterator[list[str]]:
    """Capture on all devices while the block runs; the list has a line for each packet afterwards."""
    lines: list[str] = []
    with supervised.running(
        ["ssh", "-F", str(lab.directory / "ssh_config"), host, "tcpdump", "-lnn", "-i", "any", f"'{expression}'"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as capture:  # fmt: skip
        assert any("listening" in line for line in iter(capture.stderr.readline, ""))
        try:
            yield lines
        finally:
            lab.ssh(host, "pkill -INT tcpdump")
            lines += [line for line in capture.communicate()[0].splitlines() if line]
