# SPDX-License-Identifier: Apache-2.0
"""Migration from Coil v1: a dump of its etcd becomes manifests, and workloads with their addresses replace pods.

`v1_dump.json` is in the format of `etcdctl get --prefix /coil/ --write-out=json`, with keys and values of Coil v1's
"Etcd Schema"; CONVERTED is what `coil-migrator dump` of Coil v2 prints.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.api.coil.coil_v1 import read_v1_dump
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.coil.v1_manifests import convert
from ansible_collections.heddle.ovn.plugins.module_utils.operations.coil_migration import Refused, manifests_result
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import stored, workload
from tests.unit.controllers.coil.test_coil_pools import (
    BASE,
    addresses,
    member,
    of_nodes,
    on,
    pool,
    ready,
    refused,
    reserved,
)

DUMP = Path(__file__).with_name("v1_dump.json")
V1 = {"tools/build": "10.64.0.5", "tools/cache": "10.64.1.0", "tools/queue": "10.64.0.31", "web/front": "10.70.0.5"}
NODES = ["node1", "node2", "node3"]
CONVERTED = """---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata:
  creationTimestamp: null
  name: default
spec:
  blockSizeBits: 4
  subnets:
  - ipv4: 10.64.0.0/26
---
apiVersion: coil.cybozu.com/v2
index: 1
ipv4: 10.64.0.16/28
kind: AddressBlock
metadata:
  creationTimestamp: null
  labels:
    coil.cybozu.com/node: node2
    coil.cybozu.com/pool: default
    coil.cybozu.com/reserved: "true"
  name: default-1-v1
"""


def manifests(*replaced: str) -> str:
    state, problems = read_v1_dump("coil.json", DUMP.read_text())
    assert not problems
    found = convert(state, NODES, replaced, namespaces=True)
    assert not found.problems
    return yaml.safe_dump_all(found.documents, explicit_start=True)


def own_addresses(snapshot) -> dict[str, str]:
    found = build_plan(snapshot)["coil"]["workloads"]
    return {name: one["addresses"][0] for name, one in found.items()}


def entries(**changed: object) -> str:
    """The dump with other values of some keys; None removes one."""
    document = json.loads(DUMP.read_text())
    pairs = {base64.b64decode(one["key"]).decode(): base64.b64decode(one["value"]).decode() for one in document["kvs"]}
    for key, value in changed.items():
        pairs[f"/coil/{key}"] = json.dumps(value)
    encoded = ((base64.b64encode(text.encode()).decode() for text in pair) for pair in pairs.items())
    return json.dumps({"kvs": [{"key": key, "value": value} for key, value in encoded]})


def test_all_blocks_are_reserved_at_first():
    snapshot = stored(manifests())
    # Both subnets of `default` count; that of a removed pool, and the unused one of an unknown host, are left out.
    assert [(block, node) for block, node in of_nodes(snapshot)] == [
        (0, "node1"), (1, "node2"), (4, "node1"), (1, "node2"),
    ]  # fmt: skip
    assert "AddressBlock/default-4-v1" in snapshot.objects
    plan = build_plan(snapshot)["coil"]
    assert plan["blocks"]["node1"] == plan["reserved"]["node1"] == ["10.64.0.0/28", "10.64.1.0/28"]
    # A new workload has an address of none of them.
    more = stored(manifests() + workload("tools", "new", "node1"), snapshot)
    assert own_addresses(more) == {"tools/new": "10.64.0.32"}


def test_no_address_changes_while_hosts_are_replaced():
    first = stored(manifests() + workload("tools", "new", "node1"))
    second = stored(manifests("node1") + workload("tools", "new", "node1"), first)
    on_node1 = {name: V1[name] for name in ("tools/build", "tools/cache")}
    assert own_addresses(second) == {**on_node1, "tools/new": "10.64.0.32"}
    assert build_plan(second)["coil"]["reserved"] == {"node2": ["10.64.0.16/28", "10.70.0.4/30"]}
    third = stored(manifests("node1", "node2") + workload("tools", "new", "node1"), second)
    assert own_addresses(third) == {**V1, "tools/new": "10.64.0.32"}
    assert "reserved" not in build_plan(third)["coil"]
    # What is left is ordinary: without their names the workloads keep their addresses.
    plain = manifests("node1", "node2").replace("spec:\n  addresses:", "spec:\n  # addresses:")
    unnamed = "\n".join(line for line in plain.splitlines() if not line.startswith(("  # addresses", "  - 10.")))
    assert own_addresses(stored(unnamed + "\n" + workload("tools", "new", "node1"), third)) == own_addresses(third)


def test_a_replaced_host_cannot_go_back():
    second = stored(manifests("node1"))
    assert refused(manifests(), second) == [
        f"index: block {index} of default is in use on node node1" for index in (0, 4)
    ]


def test_the_output_of_coils_own_converter_is_taken_as_it_is():
    snapshot = stored(CONVERTED + member("a", "default") + workload("a", "w", "node2"))
    assert of_nodes(snapshot) == [(0, "node2"), (1, "node2")]
    assert own_addresses(snapshot) == {"a/w": "10.64.0.0"}


def named(name: str, address: str, node: str = "node1") -> str:
    text = workload("a", name, node)
    return text.replace(f"node: {node}", f"node: {node}, addresses: [{address}]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (named("x", "10.9.0.1"), "address 10.9.0.1 is in no subnet of pool pool1"),
        (named("x", "10.2.0.4, fd02::205"), "asks for 10.2.0.4 and fd02::205, but 10.2.0.4 and fd02::204 belong"),
        (named("x", "10.2.0.4") + named("y", "10.2.0.5", "node2"), "block 2 of pool pool1, which node node1 has"),
        (named("x", "10.2.0.4") + named("y", "10.2.0.4"), "address 10.2.0.4 is that of workload a/x"),
        (reserved(2) + named("x", "10.2.0.4"), "in block 2 of pool pool1, which is reserved"),
    ],
)
def test_named_addresses_that_a_workload_cannot_have(text, message):
    problems = refused(BASE + text)
    assert any(message in problem for problem in problems) or any(
        message in ready(stored(BASE + text), f"Workload/a/{name}")[1] for name in "xy"
    )


def test_a_named_address_comes_before_others():
    snapshot = stored(BASE + on(1) + named("x", "10.2.0.0"))
    assert addresses(snapshot) == {"w0": ["10.2.0.1", "fd02::201"], "x": ["10.2.0.0", "fd02::200"]}
    # A block that its node releases in the same run may be had by another one.
    tight = pool(subnets="{ipv4: 10.2.0.0/31}") + member()
    first = stored(tight + on(1))
    assert of_nodes(stored(tight + named("x", "10.2.0.1", "node2"), first)) == [(0, "node2")]


def one_ip(namespace: str, pod: str) -> dict:
    return {"namespace": namespace, "pod": pod, "container_id": "c", "created_at": "2019-08-25T00:00:00+09:00"}


MISTAKES = {
    "no-json": ("nonsense", "coil.json: is no output of etcdctl in JSON; write it with etcdctl get --prefix /coil/"),
    "size": (entries(**{"pool/web": {"subnets": ["10.70.0.0/28"], "block_size": "2"}}),
             'coil.json: /coil/pool/web: block_size: "2" is no number from 0 to 31; dump it again'),
    "subnet": (entries(**{"pool/web": {"subnets": ["fd00::/64"], "block_size": 2}}),
               'coil.json: /coil/pool/web: subnets[0]: "fd00::/64" is no IPv4 CIDR; dump it again'),
    "block": (entries(**{"block/web/10.70.0.0": {"nodes": {"node2": ["10.70.0.4/29"]}}}),
              "coil.json: block/web: 10.70.0.0/29 of node2 cannot exist in pool web; correct it with coilctl"),
    "outside": (entries(**{"ip/10.64.0.32/1": one_ip("tools", "lost")}),
                "coil.json: pod tools/lost: 10.64.0.33 is in no block of a node; free it with coilctl"),
    "twice": (entries(**{"ip/10.64.0.0/9": one_ip("tools", "build")}),
              "coil.json: pod tools/build: has 10.64.0.5 and 10.64.0.9; free the one that it does not use"),
    "host": (entries(**{"ip/10.64.0.48/0": one_ip("tools", "far")}),
             "coil.json: pod tools/far: node gone is not in the inventory; add it to the group heddle_nodes"),
    "pools": (entries(**{"ip/10.70.0.4/2": one_ip("tools", "two")}),
              "coil.json: pod tools/two: 10.70.0.6 is of pool web, others of the namespace are of default; make the"),
    "name": (entries(**{"ip/10.70.0.4/2": one_ip("web", "a.b")}),
             'coil.json: /coil/ip/10.70.0.4/2: namespace and pod: "a.b" is no DNS label; remove this pod'),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(name, tmp_path):
    text, line = MISTAKES[name]
    (tmp_path / "coil.json").write_text(text)
    with pytest.raises(Refused) as refusal:
        manifests_result(arguments(tmp_path), write=True)
    assert len(refusal.value.problems) == 1
    assert refusal.value.problems[0].startswith(line)
    assert not (tmp_path / "out.yml").exists()


def arguments(directory: Path, *replaced: str) -> dict:
    paths = {"src": str(directory / "coil.json"), "dest": str(directory / "out.yml")}
    return {**paths, "nodes": NODES, "replaced": list(replaced), "namespaces": True, "prefix": "/coil/"}


def test_the_module_writes_once_and_nothing_in_check_mode(tmp_path):
    (tmp_path / "coil.json").write_text(DUMP.read_text())
    found = manifests_result(arguments(tmp_path), write=False)
    assert found["changed"] and not (tmp_path / "out.yml").exists()
    assert manifests_result(arguments(tmp_path), write=True) == found
    assert (tmp_path / "out.yml").read_text() == found["diff"]["after"]
    assert not manifests_result(arguments(tmp_path), write=True)["changed"]
    after = manifests_result(arguments(tmp_path, "node1"), write=True)
    assert after["changed"]
    assert after["replaced"] == {"node1": ["tools/build", "tools/cache"]}
    assert after["waiting"] == {"node2": ["tools/queue", "web/front"]}
    assert after["skipped"] == ["10.80.0.0/30 of pool removed on node1", "10.64.0.48/28 of pool default on gone"][::-1]
    with pytest.raises(Refused, match="replaced: node9 is no host of the inventory"):
        manifests_result(arguments(tmp_path, "node9"), write=True)
