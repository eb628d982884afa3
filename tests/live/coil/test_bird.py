# SPDX-License-Identifier: Apache-2.0
"""BIRD 2 on hosts and on a router: blocks are learned, packets go between hosts without NAT, foreign parts stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.bird.control import BirdError, Control, NotRunning
from ansible_collections.heddle.ovn.plugins.module_utils.bird.reconcile import Places, reconcile_bird
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.bird_configuration import render_bird
from ansible_collections.heddle.ovn.plugins.module_utils.types.bird_configuration import MARK, Configuration
from tests.live.coil.birds import FOREIGN, HOSTS, NAMES, ROUTER, bird, bring, learned, routed_fleet, wait_until
from tests.live.coil.birds import planned as planned_with
from tests.live.coil.hosts import OUTSIDE, exchange, fleet, host, run
from tests.live.conftest import START_TIMEOUT
from tests.pipeline import plan_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
PEERS = "template bgp hosts { local as 64513; }\n" + "".join(
    f"protocol bgp n{number} from hosts {{ neighbor 192.0.2.{number} as 64512;"
    " ipv4 { import all; export none; }; }\n"
    f"protocol bgp m{number} from hosts {{ neighbor 2001:db8::{number} as 64512;"
    " ipv6 { import all; export none; }; }\n"
    for number in (1, 2)
)
COIL = {
    "routers": [{"address": "192.0.2.20", "as_number": 64513}, {"address": "2001:db8::20", "as_number": 64513}]
}  # fmt: skip


def planned(*places: int) -> dict:
    return planned_with(*places, coil=COIL)


@pytest.fixture
def birds(tools, tmp_path):
    with routed_fleet(tools, tmp_path, ROUTER + PEERS) as places:
        yield places


def test_workloads_of_all_hosts_and_outside_reach_each_other(birds):
    plan = planned(1, 2, 2, 2)
    bring(plan, birds)
    wait_until(lambda: learned(1, 4) == ["10.2.0.2/31 via 192.0.2.2", "10.2.0.4/31 via 192.0.2.2"], START_TIMEOUT)
    wait_until(lambda: learned(1, 6) == ["fd02::2/127 via 2001:db8::2", "fd02::4/127 via 2001:db8::2"], START_TIMEOUT)
    wait_until(lambda: learned(2, 4) == ["10.2.0.0/31 via 192.0.2.1"], START_TIMEOUT)
    wait_until(lambda: learned(2, 6) == ["fd02::/127 via 2001:db8::1"], START_TIMEOUT)
    for version, outside in ((4, "192.0.2.20"), (6, "2001:db8::20")):
        wait_until(
            lambda version=version: run(OUTSIDE, "ip", f"-{version}", "route").count("proto bird") == 3, START_TIMEOUT
        )
        own = [plan["coil"]["workloads"][f"{NAMES}/w{number}"]["addresses"][version == 6] for number in range(4)]
        assert exchange(f"{NAMES}_w0", f"{NAMES}_w3", own[3]) == own[0]
        assert exchange(f"{NAMES}_w3", f"{NAMES}_w0", own[0]) == own[3]
        assert exchange(f"{NAMES}_w1", OUTSIDE, outside) == own[1]
        assert exchange(OUTSIDE, f"{NAMES}_w1", own[1]) == outside
    # The host's main table has nothing of it, and the user's part of BIRD works as before.
    assert "10.2.0" not in run(host(1), "ip", "route", "show", "table", "main")
    assert "blackhole 203.0.113.0/24 proto bird" in run(host(1), "ip", "route")
    assert Path(birds["node1"].main).read_text(encoding="utf-8").startswith(FOREIGN)
    # Own blocks are not learned back: neither from the kernel's tables nor from the router.
    assert not [line for line in learned(1, 4) if line.startswith("10.2.0.0/31")]
    again = [reconcile_bird(render_bird(plan, name), write=True, places=own) for name, own in birds.items()]
    assert not any(outcome.changes for outcome in again)
    assert [note for outcome in again for note in outcome.notes] == []

    with Control(birds["node1"].socket) as control:
        found = {one.name: one for one in control.neighbours("heddle*")}
    router = found["heddle_router1_4"]
    assert (router.kind, router.title, router.address, router.as_number) == ("BGP", "router", "192.0.2.20", 64513)
    assert (router.information, router.learned, router.advertised) == ("Established", 0, 1)
    assert {(one.title, one.learned) for one in found.values()} == {("router", 0), ("node2", 2)}

    # A block that is released is withdrawn, the others stay.
    bring(planned(1, 2), birds)
    wait_until(lambda: learned(1, 4) == ["10.2.0.2/31 via 192.0.2.2"], START_TIMEOUT)

    # Without pools BIRD has what it had.
    bring(plan_of("", hosts={name: HOSTS[name] for name in birds}), birds)
    assert Path(birds["node1"].main).read_text(encoding="utf-8") == FOREIGN
    assert not os.path.exists(birds["node1"].own)
    with Control(birds["node1"].socket) as control:
        assert control.sessions("heddle*") == []
        assert [session.name for session in control.sessions("mine")] == ["mine"]
    assert learned(1, 4) == []


@pytest.fixture
def alone(tools, tmp_path):
    with fleet(1), bird(tools, host(1), tmp_path / "node1", FOREIGN) as places:
        yield places


def test_a_configuration_that_bird_refuses_changes_nothing(alone):
    good = render_bird(planned(), "node1")
    reconcile_bird(good, write=True, places=alone)
    written = Path(alone.own).read_text(encoding="utf-8")
    with pytest.raises(BirdError, match=r"was restored: .*heddle\.conf:1"):
        reconcile_bird(Configuration("protocol nonsense;\n", "x"), write=True, places=alone)
    assert Path(alone.own).read_text(encoding="utf-8") == written
    assert not reconcile_bird(good, write=True, places=alone).changes


def test_a_run_that_was_cut_off_before_bird_read_its_files(alone):
    """The files are as wanted, and BIRD runs what was before."""
    wanted = render_bird(planned(), "node1")
    Path(alone.own).write_text(wanted.text.replace(MARK, f"heddle {wanted.digest}"), encoding="utf-8")
    Path(alone.main).write_text(FOREIGN + alone.include + "\n", encoding="utf-8")
    (change,) = reconcile_bird(wanted, write=False, places=alone).changes
    assert (change.kind, change.action) == ("running configuration", "update")
    assert reconcile_bird(wanted, write=True, places=alone).changed
    assert not reconcile_bird(wanted, write=True, places=alone).changes


def test_check_mode_writes_nothing(alone):
    assert len(reconcile_bird(render_bird(planned(), "node1"), write=False, places=alone).changes) == 2
    assert not os.path.exists(alone.own)
    assert Path(alone.main).read_text(encoding="utf-8") == FOREIGN


def test_sessions_that_are_not_established_are_notes(alone):
    reconcile_bird(render_bird(planned(), "node1"), write=True, places=alone)
    notes = reconcile_bird(render_bird(planned(), "node1"), write=False, places=alone).notes
    # Another host and a router, in two families.
    assert len(notes) == 4
    assert all(note.startswith("BIRD: heddle_") for note in notes)


def test_without_bird(tmp_path):
    places = Places(str(tmp_path), str(tmp_path / "bird.ctl"))
    wanted = render_bird(planned(), "node1")
    assert not reconcile_bird(None, write=True, places=places).changed
    # As on a host before the packages are installed.
    assert reconcile_bird(wanted, write=False, places=places).changed
    with pytest.raises(BirdError, match="is not installed"):
        reconcile_bird(wanted, write=True, places=places)
    with pytest.raises(NotRunning):
        Control(places.socket)
    # Stopped: the files are written, and it reads them when it starts.
    Path(places.main).write_text(FOREIGN, encoding="utf-8")
    assert "BIRD does not answer" in reconcile_bird(wanted, write=True, places=places).notes[0]
    assert Path(places.own).exists()
