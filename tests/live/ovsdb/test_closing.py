# SPDX-License-Identifier: Apache-2.0
"""Operations that close a change: part of its last transaction, once, and of none when nothing changes."""

from __future__ import annotations

import signal

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Parent, Row
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import Announcement, synchronise
from tests.live.conftest import START_TIMEOUT

from .network import EVERYTHING, OWNER, Counting, converge, reconcile, rows

NETWORKS = [f"N{number}" for number in range(12)]
SHARED_CHILD = Row("Meter_Band", "band", {"action": "drop", "rate": 25}, parent=Parent("Meter", "arp-limiter", "bands"))
SHARED = [Row("Meter", "arp-limiter", {"name": "arp-limiter", "unit": "pktps"}), SHARED_CHILD]


class Announcing(Counting):
    """A client that counts transactions which announce something, and another client that writes before them."""

    def __init__(self, client, interfere=None) -> None:
        super().__init__(client)
        self.announcing, self._interfere = [], interfere

    def pipeline(self, database, transactions):
        """Note which of the transactions count `nb_cfg` up."""

        def noted():
            for operations in transactions:
                announces = operations[-1] == Announcement().operations[-1]
                if announces and self._interfere:
                    self._interfere()
                    self._interfere = None
                self.announcing.append(announces)
                yield operations

        return self._client.pipeline(database, noted())


def announced(server, desired, interfere=None) -> tuple[int | None, list[bool]]:
    """Apply rows; return the announced number, and for each transaction whether it announced."""
    announcement = Announcement()
    with server.client() as client:
        noting = Announcing(client, interfere)
        reconcile(noting, server.database, desired, owner=OWNER, scope=EVERYTHING, closing=announcement)
    return announcement.number, noting.announcing


def number(server) -> int:
    """Return `nb_cfg`."""
    return server.rows("NB_Global", "nb_cfg")[0]["nb_cfg"]


def test_last_of_many_transactions(northbound):
    counted, announcing = announced(northbound, rows(*NETWORKS))
    assert announcing == [False, False, False, True]
    assert counted == number(northbound) == 1


def test_nothing_to_write(northbound):
    converge(northbound, rows("A"))
    assert announced(northbound, rows("A")) == (None, [])
    assert number(northbound) == 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(rows("A"), rows("A") + SHARED, [True], id="only what networks share"),
        pytest.param(rows("A", "B") + SHARED, rows("A"), [False, True], id="a network and then what networks share"),
        pytest.param(rows("A"), rows("A", mtu="1300"), [True], id="only a network"),
    ],
)
def test_last_stage(northbound, before, after, expected):
    converge(northbound, before)
    counted, announcing = announced(northbound, after)
    assert announcing == expected
    assert counted == number(northbound) == 1
    assert not converge(northbound, after).changed


def test_conflict_in_the_last_transaction(northbound):
    """What is rolled back announces nothing; the transaction that is planned again does."""
    converge(northbound, rows("A", mtu="1400"))

    def interfere():
        converge(northbound, rows("A", mtu="1300"))

    counted, announcing = announced(northbound, rows("A", mtu="1500"), interfere)
    assert announcing == [True, True]
    assert counted == number(northbound) == 1


def test_northd_translates_both_together(northbound, southbound, northd):
    northd.send_signal(signal.SIGSTOP)
    counted, _announcing = announced(northbound, rows(*NETWORKS))
    northd.send_signal(signal.SIGCONT)
    with northbound.client() as client, southbound.client() as reader:
        assert synchronise(client, reader, START_TIMEOUT, counted) == counted == number(northbound)
    bound = {row["logical_port"] for row in southbound.rows("Port_Binding", "logical_port")}
    assert {f"{name}_lrp" for name in NETWORKS} <= bound
