# SPDX-License-Identifier: Apache-2.0
"""What the kernel reports when other software flushes Heddle's tables (`systemctl restart nftables`)."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.service.removals import Removals
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture(name="inside")
def _inside():
    name = f"flush{os.getpid()}"
    kernel.create_namespace(name, "")
    try:
        with kernel.in_netns(name):
            yield
    finally:
        with contextlib.suppress(OSError):
            kernel.remove_namespace(name)


@pytest.mark.parametrize(("table", "expected"), [("heddle", True), ("heddle-userspace", True), ("other", False)])
@pytest.mark.parametrize("how", ["flush ruleset", "flush table inet {}", "delete table inet {}"])
def test_heddle_s_tables_are_reported(tools, inside, how, table, expected):
    def nft(text: str) -> None:
        subprocess.run(tools.command("nft", "-f", "-"), input=text, check=True, capture_output=True, text=True)

    nft(f"table inet {table} {{\n chain c {{\n type filter hook output priority 0\n counter\n }}\n}}\n")
    removals = Removals()
    try:
        nft(how.format(table) + "\n")
        # The transaction is over when nft ends, and so are its messages.
        heard = removals.changed()
        while expected and not heard and select.select(removals.sources, [], [], 10)[0]:
            heard = removals.changed()
        assert heard is expected
    finally:
        removals.close()
