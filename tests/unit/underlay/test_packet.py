# SPDX-License-Identifier: Apache-2.0
"""The form of probes: that of tunnelled packets, of the size that is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.types.encapsulation import GENEVE, VXLAN
from ansible_collections.heddle.ovn.plugins.module_utils.underlay.packet import (
    ACK,
    ACKNOWLEDGEMENT,
    CONTROL,
    PROBE,
    Probe,
    datagram,
    read_datagram,
    read_frame,
)

BOTH = pytest.mark.parametrize("overlay", [GENEVE, VXLAN])
ENDS = {4: ("198.18.1.11", "198.18.1.12"), 6: ("fd00::11", "fd00::12")}


def probe(version: int, size: int, kind: int = PROBE) -> Probe:
    return Probe(b"t" * 16, kind, "geneve", size, 7, *ENDS[version])


@BOTH
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("size", [CONTROL, 1500, 9100])
def test_a_probe_is_read_as_it_was_sent(overlay, version, size):
    one = probe(version, size)
    payload = datagram(one, overlay, size)
    assert len(payload) + 8 + (20 if version == 4 else 40) == size
    assert read_datagram(payload, overlay) == one
    assert read_frame(payload[16 if overlay is GENEVE else 8 :], overlay) == one
    assert read_datagram(payload[:-1], overlay) is None


@BOTH
def test_an_acknowledgement_is_shorter_than_any_probe(overlay):
    one = probe(6, 9100, ACK)
    payload = datagram(one, overlay, ACKNOWLEDGEMENT)
    assert read_datagram(payload, overlay) == one
    assert len(payload) + 48 == ACKNOWLEDGEMENT < CONTROL


def test_headers():
    """RFC 8926, section 3.4, and RFC 7348, section 5: Ethernet inside, the identifier 0."""
    assert datagram(probe(4, 400), GENEVE, 400)[:16].hex() == "02406558000000000102800100000000"
    assert datagram(probe(4, 400), VXLAN, 400)[:8].hex() == "0800000000000000"


@BOTH
@given(content=st.binary(max_size=300))
def test_anything_else_is_ignored(overlay, content):
    assert read_datagram(content, overlay) is None
    assert read_frame(content, overlay) is None
