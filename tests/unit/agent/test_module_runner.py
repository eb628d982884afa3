# SPDX-License-Identifier: Apache-2.0
"""Error messages of modules."""

import errno

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import reported, result
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.kernel import NetlinkFailure


class Failed(Exception):
    pass


class Module:
    check_mode = True

    def fail_json(self, msg):
        raise Failed(msg)


@pytest.mark.parametrize("refusal", [NetlinkFailure(errno.EPERM, "no"), PermissionError("no")])
def test_kernel_error_is_one_message(refusal):
    with pytest.raises(Failed, match="the kernel rejected an operation that Heddle needs"), reported(Module()):
        raise refusal


def test_program_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError), reported(Module()):
        raise ZeroDivisionError


@pytest.mark.parametrize(("notes", "expected"), [((), {}), (("one", "two"), {"warnings": ["one", "two"]})])
def test_notes_are_warnings_of_the_run(notes, expected):
    found = result(Outcome(notes=notes))
    assert {key: value for key, value in found.items() if key == "warnings"} == expected
    assert found["changed"] is False
