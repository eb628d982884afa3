#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much slower the OVSDB engine is than the bare protocol: ratios of times measured in the same run.

    python tests/bench/ovsdb_engine.py [--networks 100 1000] [--rounds 5]

The load is 38 rows per network. `raw create` sends prepared operations, one transaction per network, one at a time;
`raw select` reads the same columns in one transaction and only decodes them. The engine's times include reading,
encoding and comparing. Programs come from PATH, or from the root directory that HEDDLE_OVN_ROOT names.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT)]

from ansible_collections.heddle.ovn.plugins.module_utils.apply.ovsdb import Parent, Ref, Row, Scope, reconcile  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.apply.ovsdb_diff import birth_row  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.apply.ovsdb_identity import Identity  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.apply.ovsdb_schema import Schema  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.apply.ovsdb_wanted import Desired  # noqa: E402
from tests.live.conftest import Server, make_toolbox, stop  # noqa: E402

DATABASE, OWNER = "OVN_Northbound", "bench"


def network(name: str) -> list[Row]:
    """1 switch, 2 routers, 8 switch ports, 6 router ports, 6 routes, 4 policies, 3 NATs, 2 load balancers, 6 ACLs."""
    switch, router, gateway = f"{name}_switch", f"{name}_router", f"GR_{name}"
    rows = []

    def add(table, key, parent=None, **columns):
        columns["external_ids"] = {"k8s.ovn.org/network": name, "k8s.ovn.org/topology": "layer3"}
        rows.append(Row(table, f"{name}/{key}", columns, name, parent))

    def under(table, key, column):
        return Parent(table, f"{name}/{key}", column)

    on_switch, on_router = under("Logical_Switch", "sw", "ports"), under("Logical_Router", "r", "ports")
    balancers = {Ref("Load_Balancer", f"{name}/lb{i}") for i in range(2)}
    add("Logical_Switch", "sw", name=switch, other_config={"subnet": "10.128.1.0/24"}, load_balancer=balancers)
    add("Logical_Router", "r", name=router, options={"always_learn_from_arp_request": "false"})
    add("Logical_Router", "g", name=gateway, options={"chassis": "node", "lb_force_snat_ip": "router_ip"})
    for i in range(8):
        addresses = [f"0a:58:0a:80:01:{i:02x} 10.128.1.{i}"]
        add(
            "Logical_Switch_Port", f"p{i}", on_switch, name=f"{name}_p{i}", addresses=addresses, port_security=addresses
        )
    for i in range(6):
        networks = {f"100.64.{i}.1/16", f"fd98::{i + 1}/64"}
        add(
            "Logical_Router_Port",
            f"rp{i}",
            on_router,
            name=f"{name}_rp{i}",
            mac=f"0a:58:64:40:00:{i:02x}",
            networks=networks,
        )
        route = under("Logical_Router", "r" if i % 2 else "g", "static_routes")
        add("Logical_Router_Static_Route", f"rt{i}", route, ip_prefix=f"10.{i}.0.0/16", nexthop="100.64.0.1")
        match, acls = f'inport == "{name}_p{i}" && ip4', under("Logical_Switch", "sw", "acls")
        add("ACL", f"a{i}", acls, priority=1000 + i, direction="to-lport", match=match, action="allow-related")
    for i in range(4):
        policy = {
            "priority": 1000 + i,
            "match": f"ip4.src == 10.128.{i}.0/24",
            "action": "reroute",
            "nexthops": {"100.64.0.2"},
        }
        add("Logical_Router_Policy", f"po{i}", under("Logical_Router", "r", "policies"), **policy)
    for i in range(3):
        nat = {"type": "snat", "external_ip": f"172.18.0.{i}", "logical_ip": f"10.128.{i}.0/24"}
        add("NAT", f"n{i}", under("Logical_Router", "g", "nat"), **nat)
    for i in range(2):
        vips = {f"10.96.0.{i}:80": "10.128.1.2:8080,10.128.1.3:8080"}
        add("Load_Balancer", f"lb{i}", name=f"{name}_lb{i}", vips=vips, protocol="tcp")
    return rows


def desired_rows(count: int) -> list[Row]:
    """The rows of that many networks."""
    return [row for number in range(count) for row in network(f"net{number}")]


def timed(function):
    """Seconds that a call takes, with nothing left over from the one before."""
    gc.collect()
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def raw_operations(client, rows):
    """Operations per network, and the selects that read the same columns: what the engine has to work out."""
    schema = Schema(client.get_schema(DATABASE))
    desired = Desired(schema, Identity(OWNER), rows)
    desired.identify()
    for table in desired.columns:
        desired.encode_table(table)
    desired.check()
    networks = {}
    for wanted in desired.rows.values():
        operation = {"op": "insert", "table": wanted.row.table, "uuid": wanted.uuid, "row": birth_row(wanted)}
        networks.setdefault(wanted.unit, []).append(operation)
    selects = [
        {"op": "select", "table": table, "where": [], "columns": ["_uuid", *sorted(columns)]}
        for table, columns in desired.columns.items()
    ]
    return list(networks.values()), selects


def run_raw(client, networks):
    """Create everything with the bare protocol, in the way that the engine is compared with."""
    gc.disable()
    try:
        for operations in networks:
            client.transact(DATABASE, operations)
    finally:
        gc.enable()


def run_select(client, selects):
    """Read everything with the bare protocol."""
    gc.disable()
    try:
        return client.transact(DATABASE, selects)
    finally:
        gc.enable()


def run_engine(server, rows, **scope):
    """One run of the engine with its own connection."""
    with server.client() as client:
        return reconcile(client, DATABASE, rows, owner=OWNER, scope=Scope(**scope))


def one_round(tools, count: int) -> dict[str, float]:
    """Seconds of each kind of run, on two fresh servers."""
    rows = desired_rows(count)
    changed = [replace(row, columns={**row.columns, "priority": 7}) if row.key == "net0/a0" else row for row in rows]
    everywhere = [
        replace(row, columns={**row.columns, "priority": 7}) if row.key.endswith("/a0") else row for row in rows
    ]
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
        servers = [Server(tools, Path(folder) / name, DATABASE, tools.schema(DATABASE)) for name in _folders(folder)]
        try:
            with servers[0].client() as client:
                networks, selects = raw_operations(client, rows)
                seconds["raw create"], _ = timed(lambda: run_raw(client, networks))
                seconds["raw select"], _ = timed(lambda: run_select(client, selects))
            server = servers[1]
            seconds["create"], outcome = timed(lambda: run_engine(server, rows))
            assert len(outcome.changes) == len(rows)
            seconds["no-op"], outcome = timed(lambda: run_engine(server, rows))
            assert not outcome.changed
            only = frozenset({"net0"})
            own = [row for row in changed if row.network == "net0"]
            seconds["one network, scoped"], outcome = timed(lambda: run_engine(server, own, networks=only))
            assert len(outcome.changes) == 1
            seconds["one network, all read"], outcome = timed(lambda: run_engine(server, rows))
            assert len(outcome.changes) == 1
            seconds["one column everywhere"], outcome = timed(lambda: run_engine(server, everywhere))
            assert len(outcome.changes) == count
        finally:
            for server in servers:
                stop(server.process)
    return seconds


def _folders(folder: str) -> tuple[str, str]:
    for name in ("raw", "engine"):
        (Path(folder) / name).mkdir()
    return "raw", "engine"


def main() -> None:
    """Print a table per number of networks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tools = make_toolbox()
    print(tools.version("ovsdb-server"))
    for count in options.networks:
        rounds = [one_round(tools, count) for _round in range(options.rounds)]
        medians = {name: statistics.median(times[name] for times in rounds) for name in rounds[0]}
        print(f"\n{count} networks, {len(desired_rows(count))} rows, median of {options.rounds}")
        for name, seconds in medians.items():
            floor = "raw create" if name == "create" else "raw select"
            ratios = [times[name] / times[floor] for times in rounds]
            note = "" if name.startswith("raw") else f"{statistics.median(ratios):6.2f} x {floor}"
            print(f"  {name:24}{seconds:9.4f} s {note}")


if __name__ == "__main__":
    main()
