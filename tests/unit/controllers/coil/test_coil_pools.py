# SPDX-License-Identifier: Apache-2.0
"""Pools in the state: which workload gets which address, when blocks come and go, what is refused, the status.

Coil's own tests of its pool manager, node IPAM and sweeps are here by what they check.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.coil.membership import blocks
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.coil.pool_space import PoolSpace, first_fit
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import decide, layer2, namespace, nodes, stored, with_gateways, with_nics, workload

SMALL = "{ipv4: 10.2.0.0/29, ipv6: 'fd02::200/125'}, {ipv4: 10.3.0.0/30, ipv6: 'fd02::300/126'}"


def pool(name: str = "pool1", subnets: str = SMALL, bits: int = 1) -> str:
    return (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\n"
        f"metadata: {{name: {name}}}\nspec: {{blockSizeBits: {bits}, subnets: [{subnets}]}}\n"
    )


def member(name: str = "a", chosen: str = "pool1") -> str:
    return namespace(name, primary=False).rstrip() + f"\n  annotations: {{coil.cybozu.com/pool: {chosen}}}\n"


def reserved(index: int, chosen: str = "pool1", node: str = "node1", more: str = "") -> str:
    return (
        f"---\napiVersion: coil.cybozu.com/v2\nkind: AddressBlock\nmetadata:\n  name: {chosen}-{index}-v1\n"
        f"  labels: {{coil.cybozu.com/pool: {chosen}, coil.cybozu.com/node: {node},"
        f" coil.cybozu.com/reserved: 'true'}}\n"
        f"index: {index}\n{more}"
    )


BASE = pool() + member()


def on(*places: int, where: str = "a") -> str:
    """Workloads w0, w1, ... on these nodes."""
    return "".join(workload(where, f"w{number}", f"node{place}") for number, place in enumerate(places))


def of_nodes(snapshot) -> list[tuple[int, str]]:
    return [(block.index, block.node) for block in blocks(snapshot)]


def addresses(snapshot) -> dict[str, list[str]]:
    entry = build_plan(snapshot).get("coil", {"workloads": {}})
    return {name.partition("/")[2]: one["addresses"] for name, one in entry["workloads"].items()}


def refused(text: str, before=None, **more) -> list[str]:
    return [f"{problem.path}: {problem.rule}" for problem in decide(text, before, **more)[1]]


def ready(snapshot, key: str) -> tuple[str, str]:
    found = condition(snapshot.objects[key], "Ready")
    return found["reason"], found["message"]


def test_workloads_get_addresses_of_a_block_of_their_node():
    snapshot = stored(BASE + on(1, 1, 2, 1))
    assert of_nodes(snapshot) == [(0, "node1"), (1, "node2"), (2, "node1")]
    assert addresses(snapshot) == {
        "w0": ["10.2.0.0", "fd02::200"],
        "w1": ["10.2.0.1", "fd02::201"],
        "w2": ["10.2.0.2", "fd02::202"],
        "w3": ["10.2.0.4", "fd02::204"],
    }
    block = snapshot.objects["AddressBlock/pool1-2"]
    assert block.spec == {
        "index": 2, "pool": "pool1", "node": "node1", "ipv4": "10.2.0.4/31", "ipv6": "fd02::204/127",
    }  # fmt: skip
    assert block.labels == {"coil.cybozu.com/pool": "pool1", "coil.cybozu.com/node": "node1"}
    request = snapshot.objects["BlockRequest/req-pool1-node1"]
    assert request.status["addressBlockName"] == "pool1-2"
    assert [(one["type"], one["reason"]) for one in request.status["conditions"]] == [("Complete", "allocated")]


def test_a_second_run_changes_nothing():
    text = BASE + on(1, 2, 3) + reserved(5)
    first = stored(text)
    assert stored(text, first, now="2027-01-01T00:00:00Z") == first


def test_a_freed_address_rests_and_the_last_one_releases_its_block():
    first = stored(BASE + on(1))
    both = stored(BASE + on(1, 1), first)
    # w0 leaves; w2 gets its address only because the block is full otherwise, w3 one of the next block.
    text = BASE + workload("a", "w1", "node1") + workload("a", "w2", "node1")
    third = stored(text, both)
    assert addresses(third)["w2"] == ["10.2.0.0", "fd02::200"]
    emptied = stored(BASE, third)
    assert of_nodes(emptied) == []
    assert not [key for key in emptied.objects if key.startswith(("AddressBlock/", "BlockRequest/"))]
    assert not [name for name in emptied.cursors if name.startswith("address-block/")]


def test_next_fit_within_a_block():
    text = pool(bits=3, subnets="{ipv4: 10.2.0.0/24}") + member()
    first = stored(text + on(1, 1))
    replaced = stored(text + workload("a", "w1", "node1") + workload("a", "x", "node1"), first)
    assert addresses(replaced) == {"w1": ["10.2.0.1"], "x": ["10.2.0.2"]}


def test_blocks_are_taken_first_fit():
    first = stored(BASE + on(1, 2, 3))
    second = stored(BASE + workload("a", "w0", "node1") + workload("a", "w2", "node3"), first)
    assert of_nodes(second) == [(0, "node1"), (2, "node3")]
    third = stored(BASE + workload("a", "w0", "node1") + workload("a", "w2", "node3") + workload("a", "n", "node2"),
                   second)  # fmt: skip
    assert of_nodes(third) == [(0, "node1"), (1, "node2"), (2, "node3")]


def test_a_block_that_another_node_releases_in_the_same_run_is_free():
    tight = pool(subnets="{ipv4: 10.2.0.0/31}") + member()
    first = stored(tight + on(1, 1))
    second = stored(tight + on(2, 2), first)
    assert of_nodes(second) == [(0, "node2")]


def test_a_full_pool_is_a_condition_with_numbers():
    tight = pool(subnets="{ipv4: 10.2.0.0/31}") + member()
    snapshot = stored(tight + on(1, 2))
    assert ready(snapshot, "AddressPool/pool1") == (
        "OutOfBlocks",
        "1 workloads wait for an address: 1 of 1 blocks of 2 addresses are on nodes, 1 workloads have an address",
    )
    reason, message = ready(snapshot, "Workload/a/w1")
    assert reason == "AllocationFailed"
    assert "pool pool1 is out of blocks: all 1 of 2 addresses are taken, and those of node node2 are full" in message
    request = snapshot.objects["BlockRequest/req-pool1-node2"]
    assert [(one["type"], one["reason"]) for one in request.status["conditions"]] == [
        ("Complete", "completed with failure"), ("Failed", "out of blocks"),
    ]  # fmt: skip
    assert "addressBlockName" not in request.status
    # A further subnet enlarges the pool at its end; no index moves.
    grown = stored(pool(subnets="{ipv4: 10.2.0.0/31}, {ipv4: 10.4.0.0/31}") + member() + on(1, 2), snapshot)
    assert addresses(grown) == {"w0": ["10.2.0.0"], "w1": ["10.4.0.0"]}
    assert grown.objects["BlockRequest/req-pool1-node2"].status["addressBlockName"] == "pool1-1"


def test_a_freed_block_is_the_next_one_and_a_seventh_is_refused():
    """Coil's test of its pool manager: six blocks over two subnets, index 4 is freed and given again."""
    text = BASE + on(1, 1, 2, 2, 3, 3)
    six = stored(text.replace("blockSizeBits: 1", "blockSizeBits: 0"))
    assert [index for index, _node in of_nodes(six)] == [0, 1, 2, 3, 4, 5]
    full = stored(BASE + "".join(workload("a", f"w{n}", f"node{n % 3 + 1}") for n in range(12)))
    assert [index for index, _node in of_nodes(full)] == [0, 1, 2, 3, 4, 5]
    assert full.objects["AddressBlock/pool1-4"].spec["ipv4"] == "10.3.0.0/31"
    more = "".join(workload("a", f"w{n}", f"node{n % 3 + 1}") for n in range(13))
    assert ready(stored(BASE + more, full), "Workload/a/w12")[0] == "AllocationFailed"
    holder = full.objects["AddressBlock/pool1-4"].spec["node"][-1]
    gone = {name for name, found in addresses(full).items() if found[0] in ("10.3.0.0", "10.3.0.1")}
    left = "".join(workload("a", f"w{n}", f"node{n % 3 + 1}") for n in range(12) if f"w{n}" not in gone)
    freed = stored(BASE + left, full)
    assert [index for index, _node in of_nodes(freed)] == [0, 1, 2, 3, 5]
    again = stored(BASE + left + workload("a", "x", f"node{int(holder) % 3 + 1}"), freed)
    assert addresses(again)["x"] == ["10.3.0.0", "fd02::300"]


def test_blocks_of_one_address():
    """Coil's first scenario: blockSizeBits 0, and each address is a block of its own."""
    snapshot = stored(pool(bits=0) + member() + on(1, 2))
    assert addresses(snapshot) == {"w0": ["10.2.0.0", "fd02::200"], "w1": ["10.2.0.1", "fd02::201"]}
    assert build_plan(snapshot)["coil"]["blocks"]["node2"] == ["10.2.0.1/32", "fd02::201/128"]


def test_blocks_of_a_removed_host_are_collected():
    first = stored(BASE + on(1, 2))
    second = stored(BASE + on(1), first, hosts=nodes("node1", "node3"))
    assert of_nodes(second) == [(0, "node1")]
    assert "AddressBlock/pool1-1" not in second.objects
    assert "BlockRequest/req-pool1-node2" not in second.objects


def test_a_workload_on_another_node_has_another_address():
    first = stored(BASE + on(1, 1))
    assert addresses(stored(BASE + on(1, 2), first)) == {
        "w0": ["10.2.0.0", "fd02::200"], "w1": ["10.2.0.2", "fd02::202"],
    }  # fmt: skip


def test_reserved_blocks_keep_their_place_and_give_no_address():
    snapshot = stored(BASE + reserved(0) + on(1))
    assert of_nodes(snapshot) == [(0, "node1"), (1, "node1")]
    assert addresses(snapshot) == {"w0": ["10.2.0.2", "fd02::202"]}
    exported = build_plan(snapshot)["coil"]["blocks"]["node1"]
    assert exported == ["10.2.0.0/31", "fd02::200/127", "10.2.0.2/31", "fd02::202/127"]
    # Its manifest gone, the range is free again.
    again = stored(BASE + on(1, 2, 2, 2), snapshot)
    assert (0, "node2") in of_nodes(again)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (reserved(6), "index: 6 is beyond the 6 blocks of pool1"),
        (reserved(0, "other"), "metadata.labels: AddressPool other does not exist"),
        (reserved(1, more="ipv4: 10.2.0.0/31\n"), "ipv4: 10.2.0.0/31 is not block 1 of the pool: 10.2.0.2/31"),
        (reserved(0), "index: block 0 of pool1 is in use on node node1"),
    ],
)
def test_blocks_that_cannot_be_reserved(text, rule):
    assert refused(BASE + on(1) + text, stored(BASE + on(1))) == [rule]


def test_a_pool_stays_until_its_last_block_is_released():
    first = stored(BASE + on(1))
    deleting = stored(member() + on(1), first)
    assert deleting.objects["AddressPool/pool1"].is_deleting
    assert ready(deleting, "AddressPool/pool1")[0] == "Deleting"
    assert addresses(deleting) == addresses(first)
    # It gives addresses of the blocks that are there, and no further block.
    full = stored(member() + on(1, 1, 1), deleting)
    assert set(addresses(full)) == {"w0", "w1"}
    assert "is being deleted" in ready(full, "Workload/a/w2")[1]
    gone = stored(member(), full)
    assert "AddressPool/pool1" not in gone.objects
    assert not [name for name in gone.allocations if name.startswith(("address-block/", "pool-address/"))]


def test_an_unused_pool_goes_at_once_and_others_stay():
    text = pool() + pool("other", "{ipv4: 10.9.0.0/24}")
    assert [key for key in stored(pool(), stored(text)).objects if key.startswith("AddressPool")] == [
        "AddressPool/pool1"
    ]


def test_a_pool_that_does_not_exist():
    snapshot = stored(member() + on(1))
    assert ready(snapshot, "Workload/a/w0") == (
        "AddressPoolNotFound", "namespace a has its addresses of pool pool1, which does not exist",
    )  # fmt: skip
    assert addresses(stored(BASE + on(1), snapshot))["w0"]


def test_the_default_pool_needs_the_setting():
    text = pool("default") + namespace("a", primary=False) + on(1)
    assert addresses(stored(text)) == {}
    chosen = stored(text, settings={"default_network": "coil"})
    assert addresses(chosen)["w0"] == ["10.2.0.0", "fd02::200"]
    assert build_plan(chosen)["workloads"] == {}
    labelled = text.replace(namespace("a", primary=False), namespace("a") + layer2("a", "net", "10.0.0.0/24"))
    snapshot = stored(labelled, settings={"default_network": "coil"})
    assert len(build_plan(snapshot)["workloads"]["a/w0"]["interfaces"]) == 2


def test_a_plan_without_pools_is_as_before():
    assert "coil" not in build_plan(stored(namespace("a", primary=False) + on(1)))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (pool() + pool("other", "{ipv4: 10.0.0.0/8}"),
         "spec.subnets[0].ipv4: 10.0.0.0/8 overlaps with 10.2.0.0/29 of AddressPool pool1"),
        (pool(subnets="{ipv4: 10.2.0.0/24}, {ipv4: 10.2.0.0/29}"),
         "spec.subnets[0].ipv4: 10.2.0.0/24 overlaps with 10.2.0.0/29 of the same pool"),
        (pool(subnets="{ipv4: 10.244.3.0/24}"),
         "spec.subnets[0].ipv4: 10.244.3.0/24 overlaps with 10.244.0.0/16, the setting cluster_subnets"),
        (pool(subnets="{ipv4: 198.18.0.0/15}"),
         "spec.subnets[0].ipv4: 198.18.0.0/15 overlaps with 198.18.1.11, an address of node node1"),
        (pool() + namespace("red") + layer2("red", "net", "10.0.0.0/8"),
         "spec.subnets[0].ipv4: 10.2.0.0/29 overlaps with 10.0.0.0/8, a subnet of UserDefinedNetwork/red/net"),
        (pool() + "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: provider}\n"
         "spec: {subnets: [10.2.0.0/30]}\n",
         "spec.subnets[0].ipv4: 10.2.0.0/29 overlaps with 10.2.0.0/30, a subnet of LoadBalancerPool provider"),
        (pool() + "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
         "spec: {egressIPs: [10.2.0.1], namespaceSelector: {}}\n",
         "spec.subnets[0].ipv4: 10.2.0.0/29 overlaps with 10.2.0.1, an address of EgressIP out"),
        (BASE + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: a}\n"
         "spec: {ports: [{port: 80}], externalIPs: [10.2.0.1]}\n",
         'spec.externalIPs[0]: Invalid value: "10.2.0.1": is in 10.2.0.0/29 of AddressPool pool1'),
        (pool() + namespace("a").rstrip() + "\n  annotations: {coil.cybozu.com/pool: pool1}\n",
         "metadata.annotations: coil.cybozu.com/pool is for namespaces without the label "
         "k8s.ovn.org/primary-user-defined-network"),
        (BASE + workload("a", "w", "node1", "san"),
         "metadata.annotations: selects networks, and namespace a has the pool pool1: a workload with an address of a "
         "pool has no other interface yet"),
    ],
)  # fmt: skip
def test_what_is_refused(text, rule):
    assert rule in refused(text)


@pytest.mark.parametrize(
    ("subnets", "overlap"),
    [
        # Beside the addresses of the hosts, in their subnets.
        ("{ipv4: 203.0.113.128/25}", "203.0.113.128/25 overlaps with 203.0.113.0/24, the subnet of eth3 on node"),
        ("{ipv6: '2001:db8:3::f00/120'}", "2001:db8:3::f00/120 overlaps with 2001:db8:3::/64, the subnet of eth3"),
        ("{ipv4: 192.0.2.128/25}", "192.0.2.128/25 overlaps with 192.0.2.0/24, the subnet of breth1 on node"),
    ],
)
@pytest.mark.parametrize("ovn", [True, False])
def test_subnets_of_the_hosts_nics_are_refused(subnets, overlap, ovn):
    hosts = with_nics(with_gateways("shared"))
    text, more = pool(subnets=subnets), {"settings": {"ovn": ovn}}
    # Hosts have the same subnets, and each is named once.
    (line,) = refused(text, hosts=hosts, **more)
    assert overlap in line
    # What is applied stays when a host gets such a NIC; what is appended to it does not.
    first = stored(text, **more)
    assert refused(text, first, hosts=hosts, **more) == []
    appended = pool(subnets=f"{subnets}, {{ipv4: 203.0.113.64/29}}")
    (line,) = refused(appended, first, hosts=hosts, **more)
    assert line.startswith("spec.subnets[1].ipv4: 203.0.113.64/29 overlaps")


def test_the_plan_of_hosts_without_ovn_does_not_depend_on_their_nics():
    text, without = BASE + on(1), {"ovn": False}
    hosts = nodes("node1", "node2")
    assert build_plan(stored(text, hosts=with_nics(hosts), settings=without)) == build_plan(
        stored(text, hosts=hosts, settings=without)
    )


SUBNETS = ("{ipv4: 10.2.0.0/29}", "{ipv4: 10.3.0.0/30}")
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([1, 2, 3]), max_size=8),
        st.booleans(),
        st.sets(st.sampled_from([0, 5]), max_size=2),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.sampled_from([0, 1, 2]))
def test_any_sequence_compared_with_a_plain_model(steps, bits):
    """The model: a list of places, each with its workload; block n is the slice of 2**bits places from n * 2**bits."""
    snapshot, grown = None, False
    for placed, grow, wanted in steps:
        grown = grown or grow
        spec = {"blockSizeBits": bits, "subnets": [{"ipv4": "10.2.0.0/29"}, *([{"ipv4": "10.3.0.0/30"}] * grown)]}
        space, size = PoolSpace.of(spec), 1 << bits
        text = pool(subnets=", ".join(SUBNETS[: 1 + grown]), bits=bits) + member()
        text += "".join(workload("a", name, f"node{node}") for name, node in sorted(placed.items()))
        held = {index for index in wanted if index < space.block_count}
        text_reserved = text + "".join(reserved(index, node="node3") for index in sorted(held))
        after, problems = decide(text_reserved, snapshot)
        if problems:
            # A workload that ran would have to stop, or a block in use cannot be reserved: nothing changes.
            continue
        numbers = {name: int(one) for name, one in after.allocations["pool-address/pool1"].items()}
        owned = {int(index): owner.rpartition("/")[0]
                 for owner, index in after.allocations["address-block/pool1"].items()}  # fmt: skip
        assert len(set(numbers.values())) == len(numbers)
        for name, number in numbers.items():
            assert owned[number // size] == f"node{placed[name.partition('/')[2]]}"
            assert number // size not in held
        used = {number // size for number in numbers.values()}
        assert owned.keys() == used | held
        for name in placed:
            key = f"a/{name}"
            if snapshot and key in snapshot.allocations["pool-address/pool1"]:
                kept = int(snapshot.allocations["pool-address/pool1"][key])
                same = dict(blocks_by_index(snapshot)).get(kept // size) == f"node{placed[name]}"
                assert not same or numbers[key] == kept
            if key not in numbers:
                # A workload that waits found neither a free block nor a free place on its node.
                assert len(owned) == space.block_count
                mine = [index for index in used if owned[index] == f"node{placed[name]}"]
                assert all(sum(one // size == index for one in numbers.values()) == size for index in mine)
        snapshot = after


def blocks_by_index(snapshot):
    return [(block.index, block.node) for block in blocks(snapshot)]


def test_ten_thousand_blocks_are_given_in_linear_work():
    """Each workload needs a block of its own; the work is counted by what is looked at, not by the clock."""
    looked = 0

    class Counting(set):
        def __contains__(self, item):
            nonlocal looked
            looked += 1
            return super().__contains__(item)

    taken = Counting(range(0, 20000, 2))
    free = first_fit(40000, taken)
    assert [next(free) for _number in range(10000)] == list(range(1, 20000, 2))
    assert looked <= 20000
