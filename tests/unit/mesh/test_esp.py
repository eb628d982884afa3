# SPDX-License-Identifier: Apache-2.0
"""What the daemon asks ip(8) for, and reads from it; the kernel's part is in tests/lab/test_mesh_encryption.py."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.mesh import remove_encryption
from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon import esp

OWN, OTHER, KEY = "198.51.100.1", "198.51.100.2", "5a" * 36
# As iproute2 6.1 prints them: one entry of Heddle's and one of another program's.
STATES = """src 198.51.100.2 dst 198.51.100.1
\tproto esp spi 0x00000101 reqid 6784 mode transport
\treplay-window 0 flag esn
src 198.51.100.9 dst 198.51.100.1
\tproto esp spi 0x00000102 reqid 1 mode tunnel
"""
POLICIES = """src 0.0.0.0/0 dst 198.51.100.1/32 proto udp dport 6784 
\tdir in priority 0 ptype main 
\ttmpl src 0.0.0.0 dst 0.0.0.0
\t\tproto esp reqid 6784 mode transport
src 0.0.0.0/0 dst 192.0.2.0/24 
\tdir out priority 0 ptype main 
\ttmpl src 0.0.0.0 dst 0.0.0.0
\t\tproto esp reqid 67845 mode tunnel
"""


@pytest.fixture
def lines(monkeypatch):
    """What ip(8) is asked to do."""
    asked = []

    def run(argv, text=""):
        if argv[1] == "-batch":
            asked.extend(line.removeprefix("xfrm ") for line in text.splitlines())
            return ""
        return {"state": STATES, "policy": POLICIES}[argv[2]]

    monkeypatch.setattr(esp, "run", run)
    return asked


def test_only_own_entries_are_removed_and_policies_last(lines):
    outcome = remove_encryption(write=True)
    assert lines == [
        "state delete src 198.51.100.2 dst 198.51.100.1 proto esp spi 0x101",
        "policy delete src 0.0.0.0/0 dst 198.51.100.1/32 proto udp dport 6784 dir in",
    ]
    assert len(outcome.changes) == 2


def test_check_mode_reports_what_would_be_removed(lines):
    assert len(remove_encryption(write=False).changes) == 2
    assert lines == []


def test_policies_come_before_keys_and_former_associations_stay_for_a_moment(lines):
    made = esp.Esp(OWN, 0)
    assert [line.split(" tmpl ")[0] for line in lines] == [
        f"policy update src 0.0.0.0/0 dst {OWN}/32 proto udp dport 6784 dir in",
        f"policy update src {OWN}/32 dst 0.0.0.0/0 proto udp dport 6784 dir out",
    ]
    lines.clear()
    made.receive_from(OTHER, 0x200, KEY, 0)
    made.receive_from(OTHER, 0x201, KEY, 1)
    made.tick(esp.GRACE_SECONDS)
    assert [line for line in lines if "delete" in line] == [f"state delete src {OTHER} dst {OWN} proto esp spi 0x101"]
    made.tick(esp.GRACE_SECONDS + 1)
    assert lines[-1] == f"state delete src {OTHER} dst {OWN} proto esp spi 0x200"


def test_what_is_sent_has_one_association_at_a_time_and_none_without_a_connection(lines):
    made = esp.Esp(OWN, 0)
    made.send_to(OTHER, 0x300, KEY, 0)
    lines.clear()
    made.send_to(OTHER, 0x301, KEY, 1)
    assert [" ".join(line.split()[:9]) for line in lines] == [
        f"state add src {OWN} dst {OTHER} proto esp spi",
        f"state delete src {OWN} dst {OTHER} proto esp spi",
    ]
    assert "0x300" in lines[1]
    made.forget(OTHER, 2)
    assert lines[-1] == f"state delete src {OWN} dst {OTHER} proto esp spi 0x301"


def test_ipv6_has_policies_and_an_attempt_of_its_family(lines):
    assert esp.lacking("2001:db8::1") == ""
    assert [line.split()[:5] for line in lines] == [
        ["state", what, "src", "2001:db8::2", "dst"] for what in ("add", "delete")
    ]
    lines.clear()
    esp.Esp("2001:db8::1", 0)
    assert "src ::/0 dst 2001:db8::1/128" in lines[0]


def test_a_key_is_in_no_error(monkeypatch):
    def run(_argv, text=""):
        raise ProgramError("ip", f'Error: argument "{text.split("0x")[-1].split()[0]}" is wrong')

    monkeypatch.setattr(esp, "run", run)
    assert "no ESP with AES-GCM for IPv4 in the kernel" in esp.lacking("192.0.2.1")
    assert "no ESP with AES-GCM for IPv6 in the kernel" in esp.lacking("2001:db8::1")
    with pytest.raises(ProgramError) as failure:
        esp._batch([f"state add 0x{KEY} 128"])
    assert KEY not in str(failure.value)


def test_a_kernel_without_xfrm_has_no_entries(monkeypatch):
    def run(_argv, text=""):
        raise ProgramError("ip", "Operation not supported")

    monkeypatch.setattr(esp, "run", run)
    assert remove_encryption(write=True).changes == ()
