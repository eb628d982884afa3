# SPDX-License-Identifier: Apache-2.0
"""The fallback overlay without packets: which overlay is chosen, the search for the path's size, frames in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.mesh import sleeve, too_big
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.codec import ProtocolError
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.heartbeat import IDLE_INTERVAL_SECONDS, INTERVAL_SECONDS
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.path_mtu import FLOOR, PathMtu
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.selection import Selection
from tests.live.gateway.packets import checksum

TICK = 0.1
UID = 0x1122334455667788


class Ends:
    """One end's selection: heartbeats of the overlays in `passing` are acknowledged, the peer's arrive over `heard`.

    `announcing` is whether the peer's process runs, `acknowledging` whether its kernel does.
    """

    def __init__(self):
        self.selection = Selection(("fastdp", "sleeve"), 0.0)
        self.passing = self.heard = {"fastdp", "sleeve"}
        self.now, self.interval = 0.0, INTERVAL_SECONDS
        self.announcing, self.acknowledging = True, True
        self._announced = 0.0

    def evaluate(self):
        return self.selection.evaluate(self.now, lambda: self.acknowledging)

    def run(self, seconds):
        """The choices of some time, each with the moment when it was made."""
        changes, end = [], self.now + seconds
        while self.now < end:
            self.now += TICK
            number = self.selection.rounds.due(self.now, self.interval)
            for name, beats in self.selection.beats.items():
                if number is not None:
                    beats.sent(number, self.now)
                    if name in self.passing:
                        self.selection.acknowledged(name, number, self.now)
                if name in self.heard:
                    self.selection.heard(name, number, self.now)
            if self.announcing and self.now >= self._announced + 1:
                self._announced = self.now
                self.selection.announced()
            if self.evaluate():
                changes.append((self.selection.chosen, round(self.now - (end - seconds), 1)))
        return changes


def test_best_overlay_that_works_is_chosen_within_a_second_and_left_again_with_the_next_heartbeat():
    ends = Ends()
    assert [chosen for chosen, _when in ends.run(5)] == ["fastdp"]
    ends.passing = {"sleeve"}
    ((chosen, when),) = ends.run(5)
    assert (chosen, when <= 1) == ("sleeve", True)
    ends.passing = {"fastdp", "sleeve"}
    ((chosen, when),) = ends.run(5)
    assert (chosen, when <= 0.3) == ("fastdp", True)
    # Nothing depends on the fallback.
    ends.passing = {"fastdp"}
    assert ends.run(5) == []


def test_change_of_the_interval_is_no_failure():
    ends = Ends()
    ends.run(2)
    for interval in (IDLE_INTERVAL_SECONDS, INTERVAL_SECONDS, IDLE_INTERVAL_SECONDS):
        ends.interval = interval
        assert ends.run(5) == []
    # An idle connection loses the heartbeats of one overlay: as many of them as of one in use.
    ends.passing = {"sleeve"}
    ((chosen, when),) = ends.run(5)
    assert (chosen, when <= 3 * IDLE_INTERVAL_SECONDS + TICK) == ("sleeve", True)


def test_missing_acknowledgements_alone_change_nothing_and_a_silent_peer_does():
    ends = Ends()
    ends.run(2)
    # The control channel stalls, the paths do not.
    ends.passing = set()
    assert ends.run(20) == []
    ends.heard = set()
    ((chosen, when),) = ends.run(5)
    assert (chosen, 2.9 <= when <= 4.2) == (None, True)
    ends.passing = ends.heard = {"sleeve"}
    assert ends.run(5)[-1][0] == "sleeve"


def test_silent_peer_whose_process_is_slow_is_not_left():
    ends = Ends()
    ends.run(2)
    ends.passing, ends.heard, ends.announcing = set(), set(), False
    assert ends.run(30) == []
    # It runs again, and its heartbeats do not arrive.
    ends.announcing = True
    ((chosen, when),) = ends.run(5)
    assert (chosen, when <= 3.2) == (None, True)
    ends.announcing = False
    assert ends.run(5) == []


def test_silent_peer_whose_kernel_is_silent_too_is_left():
    ends = Ends()
    ends.run(2)
    ends.passing, ends.heard, ends.announcing, ends.acknowledging = set(), set(), False, False
    ((chosen, when),) = ends.run(5)
    assert (chosen, 2.9 <= when <= 3.2) == (None, True)
    # Without a heartbeat it is not used again.
    ends.acknowledging = True
    assert ends.run(5) == []
    ends.heard = {"fastdp"}
    assert [chosen for chosen, _when in ends.run(1)] == ["fastdp"]


def test_pause_of_the_own_process_is_no_silence_of_the_peer():
    ends = Ends()
    ends.run(2)
    ends.now += 60
    assert ends.run(1) == []
    # What has arrived meanwhile is handled before the timers of this process.
    ends.now += 60
    ends.selection.acknowledged("fastdp", 1, ends.now)
    assert not ends.evaluate()


def test_process_that_runs_seldom_does_not_take_that_for_silence():
    ends = Ends()
    ends.run(2)
    for _time in range(5):
        ends.now += 0.9
        assert not ends.evaluate()


class Path:
    """A path with a limit that may change, and a search on it."""

    def __init__(self, ceiling, limit):
        self.limit, self.now, self.probes = limit, 0.0, 0
        self.search = PathMtu(ceiling, 0.0)

    def run(self, seconds):
        end = self.now + seconds
        while self.now < end:
            size = self.search.due(self.now)
            if size is not None:
                self.probes += 1
                if size <= self.limit:
                    self.search.acknowledged(size, self.now)
            self.now += 0.01


@given(st.integers(FLOOR, 9000), st.integers(FLOOR, 9000))
def test_search_finds_any_limit(ceiling, limit):
    path = Path(ceiling, limit)
    path.run(45)
    assert (path.search.size, path.search.finished) == (min(ceiling, limit), True)


def test_search_follows_the_path():
    path = Path(1443, 2000)
    path.run(1)
    assert (path.search.size, path.search.finished, path.probes) == (1443, True, 1)
    path.limit = 900
    path.run(45)
    assert (path.search.size, path.search.finished) == (900, True)
    before = path.probes
    path.run(60)
    assert path.probes - before <= 7
    # Larger ones are tried again after five minutes.
    path.limit = 2000
    path.run(320)
    assert path.search.size == 1443


def test_path_that_nothing_passes_is_probed_for_ever():
    path = Path(FLOOR, 100)
    path.run(10)
    assert path.probes > 8
    assert not path.search.finished


@given(st.binary(max_size=4000), st.integers(FLOOR, 1500), st.randoms())
def test_frame_arrives_whole_in_any_order_of_its_pieces(data, size, chance):
    frame = sleeve.Frame(0x123456, 7, data)
    datagrams = sleeve.Sender(UID).datagrams(frame, size)
    assert max(map(len, datagrams)) <= size
    chance.shuffle(datagrams)
    receiver = sleeve.Receiver(UID)
    assert [receiver.read(one) for one in datagrams] == [None] * (len(datagrams) - 1) + [frame]


def test_pieces_that_never_come_are_forgotten():
    sender, receiver = sleeve.Sender(UID), sleeve.Receiver(UID)
    frame = sleeve.Frame(1, 7, bytes(1000))
    lost = [sender.datagrams(frame, FLOOR) for _time in range(1000)]
    for pieces in lost:
        assert receiver.read(pieces[0]) is None
    assert receiver.read(lost[0][1]) is None
    assert receiver.read(lost[-1][1]) == frame
    assert sender.datagrams(sleeve.Frame(1, 7, bytes(200_000)), FLOOR) == []


@given(st.binary(max_size=80), st.integers(0, 5))
def test_any_datagram_is_read_or_refused(data, kind):
    receiver = sleeve.Receiver(UID)
    for one in (data, bytes([kind]) + UID.to_bytes(8, "big") + data):
        try:
            receiver.read(one)
        except ProtocolError as error:
            assert str(error)


def test_heartbeats_and_probes():
    receiver = sleeve.Receiver(UID)
    assert receiver.read(sleeve.heartbeat(UID, 9)) == sleeve.Heartbeat(9)
    assert receiver.read(sleeve.probe(UID, 1200)) == sleeve.Probe(1200)
    with pytest.raises(ProtocolError, match="another connection"):
        receiver.read(sleeve.heartbeat(UID + 1, 9))
    with pytest.raises(ProtocolError, match="shorter or longer than it says"):
        receiver.read(sleeve.probe(UID, 1200)[:1100])


MACS = bytes.fromhex("0a0000000002 0a0000000001")
V4 = bytes.fromhex("0a090002"), bytes.fromhex("0a090003")
V6 = bytes.fromhex("fd000009" + "00" * 11 + "02"), bytes.fromhex("fd000009" + "00" * 11 + "03")


def v4(*, flags=0x4000, protocol=6, body=bytes(1000)):
    head = b"\x45\0" + (20 + len(body)).to_bytes(2, "big") + b"\0\1" + flags.to_bytes(2, "big")
    return MACS + b"\x08\0" + head + bytes([64, protocol]) + b"\0\0" + V4[0] + V4[1] + body


def v6(*, following=6, body=bytes(1400)):
    return (
        MACS
        + b"\x86\xdd"
        + b"\x60\0\0\0"
        + len(body).to_bytes(2, "big")
        + bytes([following, 64])
        + V6[0]
        + V6[1]
        + body
    )


def test_sender_of_a_packet_that_is_too_big_gets_the_size():
    answer = too_big.answer(v4(), 900)
    packet = answer[14:]
    assert answer[:14] == MACS[6:] + MACS[:6] + b"\x08\0"
    assert (packet[12:16], packet[16:20]) == (V4[1], V4[0])
    assert packet[20:22] == b"\x03\x04"
    assert int.from_bytes(packet[26:28], "big") == 900
    assert packet[28:] == v4()[14:562]
    assert len(packet) == int.from_bytes(packet[2:4], "big") == 576
    assert checksum(packet[:20]) == checksum(packet[20:]) == 0

    packet = too_big.answer(v6(), 1300)[14:]
    assert (packet[8:24], packet[24:40]) == (V6[1], V6[0])
    assert (packet[40], int.from_bytes(packet[44:48], "big")) == (2, 1300)
    assert len(packet) == 40 + int.from_bytes(packet[4:6], "big") == 1280
    assert checksum(packet[8:40] + len(packet[40:]).to_bytes(4, "big") + b"\0\0\0\x3a" + packet[40:]) == 0


@pytest.mark.parametrize(
    ("frame", "mtu"),
    [
        (v4(), 1020),
        (v4(flags=0), 900),
        (v4(protocol=1, body=b"\3" + bytes(1000)), 900),
        (b"\xff" * 6 + v4()[6:], 900),
        (v6(), 1440),
        (v6(), 1279),
        (v6(following=58, body=b"\1" + bytes(1400)), 1300),
        (MACS + b"\x81\0\0\1" + v4()[12:], 900),
        (MACS + b"\x08\0" + bytes(19), 10),
    ],
)
def test_frame_that_gets_no_answer(frame, mtu):
    assert too_big.answer(frame, mtu) is None


@given(st.binary(min_size=14, max_size=100), st.integers(0, 80))
def test_any_frame_is_survived(frame, mtu):
    for kind in (b"\x08\0", b"\x86\xdd"):
        too_big.answer(frame[:12] + kind + frame[14:], mtu)
