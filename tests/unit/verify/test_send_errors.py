# SPDX-License-Identifier: Apache-2.0
"""Datagrams that a kernel could not send, from the text of its counters."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing import send_errors

SNMP = (
    "Ip: Forwarding DefaultTTL\nIp: 1 64\nUdp: InDatagrams SndbufErrors MemErrors\nUdp: 5 {} 1\n"
    "UdpLite: SndbufErrors\nUdpLite: 9\n"
)


@pytest.mark.parametrize(("of_ipv4", "of_ipv6", "found"), [(0, "0", 0), (3, "4", 7), (3, None, 3)])
def test_counters_of_both_families(monkeypatch, tmp_path, of_ipv4, of_ipv6, found):
    monkeypatch.setattr(send_errors, "_IPV4", str(tmp_path / "snmp"))
    monkeypatch.setattr(send_errors, "_IPV6", str(tmp_path / "snmp6"))
    (tmp_path / "snmp").write_text(SNMP.format(0))
    counted = send_errors.SendErrors([None, "missing"])
    assert counted.since() == 0
    (tmp_path / "snmp").write_text(SNMP.format(of_ipv4))
    if of_ipv6 is not None:
        (tmp_path / "snmp6").write_text(f"Udp6OutDatagrams    \t12\nUdp6SndbufErrors    \t{of_ipv6}\n")
    assert counted.since() == found
