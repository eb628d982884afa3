# SPDX-License-Identifier: Apache-2.0
"""Distributions and releases of hosts, from /etc/os-release."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.host_release import release_problem

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux {0} (x)"\nNAME="Debian GNU/Linux"\nVERSION_ID="{0}"\nID=debian\n'
REMEDY = "and Heddle needs Debian 13; install that, or take the host out of its groups"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEBIAN.format(13), ""),
        (DEBIAN.format(12), f"node1 has Debian GNU/Linux 12 (x) {REMEDY}"),
        ('PRETTY_NAME="Debian GNU/Linux forky/sid"\nID=debian\n', f"node1 has Debian GNU/Linux forky/sid {REMEDY}"),
        ("# a comment\nID=ubuntu\nVERSION_ID='24.04'\n", f"node1 has ubuntu {REMEDY}"),
        ("", f"node1 has an unknown distribution {REMEDY}"),
    ],
)
def test_a_release_that_is_not_supported(text: str, expected: str):
    assert release_problem("node1", text) == expected
