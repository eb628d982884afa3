# SPDX-License-Identifier: Apache-2.0
"""Programs of the host: they print names as they are."""

from ansible_collections.heddle.ovn.plugins.module_utils.common.processes.subprocesses import run


def test_output_may_have_any_bytes():
    assert run(["printf", "caf\\351 %s", "x"]) == "caf\ufffd x"
