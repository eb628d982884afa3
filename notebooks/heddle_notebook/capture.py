# SPDX-License-Identifier: Apache-2.0
"""A capture file as a frame: one row for each packet."""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path

import pandas

# draft-ietf-opsawg-pcap, 4 and 5: the magic number has the byte order and the unit of the fraction.
_MAGIC = {0xA1B2C3D4: 1e6, 0xA1B23C4D: 1e9}
_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6"}
_TYPES = {0x0806: "arp", 0x0800: "ip", 0x86DD: "ip6"}
_COLUMNS = ["time", "length", "source_mac", "target_mac", "type", "source", "target", "protocol", "sport", "dport"]


class Capture:
    """Packets in a pcap file, `file`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.packets = pandas.DataFrame(read_pcap(file.read_bytes()), columns=_COLUMNS)

    def __len__(self) -> int:
        return len(self.packets)

    def _repr_html_(self) -> str:
        return f"<p>{len(self)} packets, {self.file}</p>" + self.packets.head(50).to_html(index=False)


def read_pcap(content: bytes) -> list[dict]:
    """Return the packets of a pcap file of Ethernet frames; a last one that is cut off is left out."""
    if len(content) < 24:
        return []
    order = next((one for one in "<>" if struct.unpack(f"{one}I", content[:4])[0] in _MAGIC), "")
    if not order:
        raise ValueError("this is no pcap file")
    unit = _MAGIC[struct.unpack(f"{order}I", content[:4])[0]]
    packets, place = [], 24
    while place + 16 <= len(content):
        seconds, fraction, kept, length = struct.unpack(f"{order}4I", content[place : place + 16])
        frame = content[place + 16 : place + 16 + kept]
        if len(frame) < kept:
            break
        time = pandas.Timestamp(seconds + fraction / unit, unit="s", tz="UTC")
        packets.append({"time": time, "length": length, **_frame(frame)})
        place += 16 + kept
    return packets


def _frame(frame: bytes) -> dict:
    if len(frame) < 14:
        return {}
    found = {"target_mac": frame[:6].hex(":"), "source_mac": frame[6:12].hex(":")}
    kind, payload = struct.unpack("!H", frame[12:14])[0], frame[14:]
    if kind == 0x8100 and len(payload) >= 4:
        kind, payload = struct.unpack("!H", payload[2:4])[0], payload[4:]
    found["type"] = _TYPES.get(kind, f"0x{kind:04x}")
    if kind == 0x0806 and len(payload) >= 28:
        return found | {"source": _address(payload[14:18]), "target": _address(payload[24:28])}
    if kind == 0x0800 and len(payload) >= 20:
        head = (payload[0] & 15) * 4
        return found | _packet(payload[9], payload[12:16], payload[16:20], payload[head:])
    if kind == 0x86DD and len(payload) >= 40:
        return found | _packet(payload[6], payload[8:24], payload[24:40], payload[40:])
    return found


def _packet(protocol: int, source: bytes, target: bytes, rest: bytes) -> dict:
    found = {
        "source": _address(source), "target": _address(target), "protocol": _PROTOCOLS.get(protocol, str(protocol)),
    }  # fmt: skip
    if protocol in (6, 17) and len(rest) >= 4:
        found |= dict(zip(("sport", "dport"), struct.unpack("!HH", rest[:4]), strict=True))
    return found


def _address(octets: bytes) -> str:
    return str(ipaddress.ip_address(octets))
