# SPDX-License-Identifier: Apache-2.0
"""How hosts advertise blocks, as the inventory chooses: reflectors, racks, OSPF, BFD, a user's template."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.bird.control import BirdError, Control
from ansible_collections.heddle.ovn.plugins.module_utils.bird.reconcile import reconcile_bird
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.bird_configuration import render_bird
from ansible_collections.heddle.ovn.plugins.module_utils.types.bird_configuration import Configuration
from tests.live.coil.birds import (
    FOREIGN,
    NAMES,
    ROUTER,
    bring,
    learned,
    missing_program,
    planned,
    program_of,
    routed_fleet,
    wait_until,
)
from tests.live.coil.hosts import OUTSIDE, apply, exchange, host, run
from tests.live.conftest import START_TIMEOUT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
# Each host is in a rack of its own; the router passes on what one of them says to the other.
RACK_ROUTER = ROUTER + "".join(
    f"protocol bgp {name}{number} {{ local as 64513; neighbor {address}{number} as {64600 + number};"
    f" ipv{version} {{ import all; export all; }}; }}\n"
    for number in (1, 2)
    for version, name, address in ((4, "n", "192.0.2."), (6, "m", "2001:db8::"))
)
RACKS = {
    "racks": [{"as_number": 64601, "nodes": ["node1"]}, {"as_number": 64602, "nodes": ["node2"]}],
    "routers": [{"address": "192.0.2.20", "as_number": 64513}, {"address": "2001:db8::20", "as_number": 64513}],
}
OSPF_ROUTER = ROUTER + "".join(
    f"protocol ospf v{ospf} ospf{version} {{ ipv{version} {{ import all; export none; }};"
    ' area 0.0.0.0 { interface "eth1" { hello 1; dead 10; wait 2; }; }; }\n'
    for ospf, version in ((2, 4), (3, 6))
)
OWN_BFD = "protocol bfd theirs { }\n"
# Takes the place of all of Heddle's protocols between hosts.
TEMPLATE = """protocol bgp mine4 {{
  local {own} as 64512; neighbor {other} as 64512; direct;
  ipv4 {{ table heddle_export4; import where net ~ heddle_pools4; export where proto = "heddle_blocks4"; }};
}}
"""


def names(places, node: str) -> list[str]:
    """The neighbours by BGP that a host has."""
    with Control(places[node].socket) as control:
        return sorted(session.name for session in control.sessions("heddle*") if session.kind == "BGP")


def blocks(number: int, version: int) -> list[str]:
    """The blocks that a host has learned, from whomever."""
    return [line.split()[0] for line in learned(number, version)]


def all_answer(plan: dict, *, last: int) -> None:
    """The first workload and the last one reach each other by both families, with their own addresses."""
    for place in (0, 1):
        first, second = (plan["coil"]["workloads"][f"{NAMES}/w{number}"]["addresses"][place] for number in (0, last))
        assert exchange(f"{NAMES}_w0", f"{NAMES}_w{last}", second) == first
        assert exchange(f"{NAMES}_w{last}", f"{NAMES}_w0", first) == second


def unchanged(plan: dict, places) -> None:
    """A second run writes nothing."""
    assert not any(reconcile_bird(render_bird(plan, name), write=True, places=own).changes
                   for name, own in places.items())  # fmt: skip


def test_hosts_learn_all_blocks_from_a_route_reflector(tools, tmp_path):
    with routed_fleet(tools, tmp_path, ROUTER, 3) as places:
        plan = planned(1, 2, 3, coil={"route_reflectors": ["node1"]}, count=3)
        bring(plan, places)
        # Next hops are the hosts with the blocks, not the reflector.
        wait_until(lambda: learned(3, 4) == ["10.2.0.0/31 via 192.0.2.1", "10.2.0.2/31 via 192.0.2.2"], START_TIMEOUT)
        wait_until(
            lambda: learned(2, 6) == ["fd02::/127 via 2001:db8::1", "fd02::4/127 via 2001:db8::3"], START_TIMEOUT
        )
        wait_until(lambda: len(learned(1, 4)) == 2 == len(learned(1, 6)), START_TIMEOUT)
        wait_until(lambda: len(learned(2, 4)) == 2 == len(learned(3, 6)), START_TIMEOUT)
        all_answer(plan, last=2)
        assert len(names(places, "node1")) == 4
        assert len(names(places, "node2")) == len(names(places, "node3")) == 2
        unchanged(plan, places)


def test_racks_learn_each_others_blocks_from_a_router(tools, tmp_path):
    with routed_fleet(tools, tmp_path, RACK_ROUTER) as places:
        plan = planned(1, 2, coil=RACKS)
        bring(plan, places)
        assert names(places, "node1") == ["heddle_router1_4", "heddle_router2_6"]
        for number, block in ((1, "2"), (2, "")):
            wait_until(
                lambda n=number, b=block: [one.split()[0] for one in learned(n, 4)] == [f"10.2.0.{b or 0}/31"],
                START_TIMEOUT,
            )
            wait_until(
                lambda n=number, b=block: [one.split()[0] for one in learned(n, 6)] == [f"fd02::{b}/127"], START_TIMEOUT
            )
        all_answer(plan, last=1)
        unchanged(plan, places)


def test_ospf_instead_of_bgp(tools, tmp_path):
    with routed_fleet(tools, tmp_path, OSPF_ROUTER) as places:
        plan = planned(1, 2, coil={"protocol": "ospf", "ospf": {"interfaces": ["eth*"]}})
        # So that the test does not wait for the router's election.
        for name, own in places.items():
            fast = render_bird(plan, name)
            text = fast.text.replace('interface "eth*" { ', 'interface "eth*" { hello 1; dead 10; wait 2; ')
            assert text != fast.text
            apply_text(plan, name, own, text)
        wait_until(lambda: learned(1, 4) == ["10.2.0.2/31 via 192.0.2.2"], START_TIMEOUT)
        wait_until(lambda: blocks(2, 6) == ["fd02::/127"], START_TIMEOUT)
        wait_until(lambda: learned(2, 4) == ["10.2.0.0/31 via 192.0.2.1"], START_TIMEOUT)
        wait_until(lambda: len(learned(1, 6)) == 1, START_TIMEOUT)
        all_answer(plan, last=1)
        wait_until(lambda: run(OUTSIDE, "ip", "-4", "route").count("10.2.0.") == 2, START_TIMEOUT)
        own = plan["coil"]["workloads"][f"{NAMES}/w1"]["addresses"][0]
        assert exchange(OUTSIDE, f"{NAMES}_w1", own) == "192.0.2.20"
        # Nothing but blocks of pools is taken from neighbours: not the link's own subnet.
        assert not [line for line in learned(1, 4) if not line.startswith("10.2.")]


def test_bfd_withdraws_the_routes_of_a_host_that_went_silent(tools, tmp_path):
    """Long before the hold time: the test fails within half of it without BFD."""
    with routed_fleet(tools, tmp_path, ROUTER) as places:
        plan = planned(1, 2, coil={"bfd": {"interval": 200, "multiplier": 5}, "hold_time": 240})
        bring(plan, places)
        wait_until(lambda: len(learned(1, 4)) == 1 == len(learned(1, 6)), START_TIMEOUT)
        wait_until(lambda: bfd_sessions(places["node1"]) == ["Up", "Up"], START_TIMEOUT)
        # The other end of the host's cable, which node1 does not see.
        run(OUTSIDE, "ip", "link", "set", "port2", "down")
        wait_until(lambda: learned(1, 4) == learned(1, 6) == [], START_TIMEOUT)
        notes = reconcile_bird(render_bird(plan, "node1"), write=False, places=places["node1"]).notes
        assert len(notes) == 2
        run(OUTSIDE, "ip", "link", "set", "port2", "up")
        wait_until(lambda: len(learned(1, 4)) == 1 == len(learned(1, 6)), 2 * START_TIMEOUT)


def test_bfd_beside_the_users_own(tools, tmp_path):
    """BIRD gives all sessions to the first one, and their packets to the last one, so theirs is used."""
    with routed_fleet(tools, tmp_path, ROUTER, text=FOREIGN + OWN_BFD) as places:
        bring(planned(1, 2, coil={"bfd": True}), places)
        wait_until(lambda: bfd_sessions(places["node1"]) == ["Up", "Up"], START_TIMEOUT)


def test_a_template_takes_the_place_of_heddles_protocols(tools, tmp_path):
    with routed_fleet(tools, tmp_path, ROUTER) as places:
        plan = planned(1, 2, coil={"protocol": "none"})
        for number, own in enumerate(places.values(), start=1):
            text = TEMPLATE.format(own=f"192.0.2.{number}", other=f"192.0.2.{3 - number}")
            Path(own.proposed).write_text(text, encoding="utf-8")
        bring(plan, places)
        assert names(places, "node1") == []
        wait_until(lambda: learned(1, 4) == ["10.2.0.2/31 via 192.0.2.2"], START_TIMEOUT)
        unchanged(plan, places)
        one, wanted = places["node1"], render_bird(plan, "node1")
        # BIRD reads it when it has changed. One with a mistake is refused: what runs stays, on the disk too.
        accepted = Path(one.templated).read_text(encoding="utf-8")
        Path(one.proposed).write_text("protocol nonsense;\n", encoding="utf-8")
        for program, what in ((missing_program, "was restored"), (program_of(tools), "the former one stays")):
            with pytest.raises(BirdError, match=rf"{what}: .*heddle_template\.conf:1:10 syntax error"):
                reconcile_bird(wanted, write=True, places=one, run=program)
            assert Path(one.templated).read_text(encoding="utf-8") == accepted
            assert not list(Path(one.directory).glob("*.check"))
        assert learned(1, 4) == ["10.2.0.2/31 via 192.0.2.2"]
        tools.run("bird", "-p", "-c", one.main)
        os.unlink(one.proposed)
        os.unlink(one.templated)
        assert reconcile_bird(wanted, write=False, places=one).changes
        reconcile_bird(wanted, write=True, places=one, run=program_of(tools))
        wait_until(lambda: learned(1, 4) == [], START_TIMEOUT)
        # Without pools nothing of it stays.
        assert len(reconcile_bird(None, write=True, places=places["node2"]).changes) == 4
        assert not list(Path(places["node2"].directory).glob("heddle*"))


def bfd_sessions(places) -> list[str]:
    """The state of each BFD session of a host."""
    with Control(places.socket) as control:
        return [words[2] for words in map(str.split, control.command("show bfd sessions")) if len(words) > 5
                and words[1] == "eth1"]  # fmt: skip


def apply_text(plan: dict, name: str, own, text: str) -> None:
    """Bring a host to the plan with another text of its configuration."""
    apply(plan, name, host(int(name[-1])))
    reconcile_bird(Configuration(text, "x"), write=True, places=own)
