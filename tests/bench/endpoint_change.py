# SPDX-License-Identifier: Apache-2.0
"""From the change of an endpoint to packets: a workload of a Service becomes not ready and ready again.

    python -m scripts.ovn_root .venv/bin/python -m tests.bench.endpoint_change [--changes 100] [--networks 10]
        [--without-record]

A host with ovn-northd, ovn-controller and Open vSwitch in user space, and other tenants with 20 Services each. The
clock starts when the host begins to apply a plan with the change (or when `ovn-nbctl` is started, which writes the same
row by hand; both take turns) and stops when new connections are seen to follow: those of a round have ports of their
own, and their packets are captured at the endpoints. In a round that shows "ready" one of them arrives at the endpoint;
in one that shows "not ready" all arrive at the other one.

The host has the record of the comparison before, as after any run without a failure. With `--without-record` it has
none, as after a reboot: it compares everything after it has written the change.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

from ansible_collections.heddle.ovn.plugins.module_utils.agent import follow_ups, northd_recompute, topology
from ansible_collections.heddle.ovn.plugins.module_utils.agent.comparison_record import ComparisonRecord
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.connection import Connection
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.remotes import parse_remotes
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import Announcement
from tests.live.conftest import Server, make_toolbox, stop, wait_for
from tests.live.gateway.conftest import Host, interface_of
from tests.live.gateway.packets import UDP, Packet
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

from . import services
from .clock import processor_time
from .scenario import SETTINGS, document
from .servers import ALLOCATOR, NORTHBOUND, SOUTHBOUND, preloaded, translating

TENANT, NETWORK = "red", "red_net"
# New connections of a round. That all of them choose one of two endpoints by chance: 1 to 2 ** 15.
CONNECTIONS = 16
TITLES = {
    "Heddle": "by Heddle", "by hand": "by ovn-nbctl", "written": "  of it Heddle, until it is written",
    "written, processor": "  its processor time until then", "apply": "all of Heddle's run",
    "processor": "  its processor time, with ovsdb-server's",
}  # fmt: skip
_TIMEOUT, _ROUND, _PAUSE = 120.0, 0.1, 0.001
_FIRST_PORT, _LAST_PORT = 1024, 65535


def manifests(networks: int, *, ready: bool) -> str:
    """Return the YAML: a client `a`, the endpoint `b` that is ready or not, the other one `c`, and other tenants."""
    text = namespace(TENANT) + layer2(TENANT, "net", "10.50.0.0/24", "fd50::/64") + workload(TENANT, "a", "node1")
    for name, is_ready in (("b", ready), ("c", True)):
        spec = {"node": "node1", "ready": is_ready}
        text += document("Workload", "heddle.dev/v1", name, TENANT, spec, {"app": "web"})
    ports = [{"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 5353}]
    text += document("Service", "v1", "web", TENANT, {"selector": {"app": "web"}, "ports": ports})
    return text + services.manifests(networks)


class Endpoints:
    """New connections of the client to the Service, and how many arrived at which endpoint."""

    def __init__(self, machine: Host, request: Packet) -> None:
        self._request, self._rounds = request, itertools.count(1)
        self._ports = itertools.cycle(range(_FIRST_PORT, _LAST_PORT))
        self._captures = {name: machine.folder / f"{interface_of(TENANT, name)}.pcap" for name in "bc"}
        # One connection to ovs-vswitchd: starting ovs-appctl takes longer than what is measured.
        control = parse_remotes(f"unix:{machine.folder / 'vswitchd.ctl'}")[0]
        self._control = Connection(control, _TIMEOUT)

    def arrived(self) -> dict[str, int]:
        """Open connections; return by endpoint how many arrived within a moment."""
        mark = f"round {next(self._rounds):08}".encode()
        before = {name: path.stat().st_size for name, path in self._captures.items()}
        frames = [self._frame(mark, next(self._ports)).hex() for _one in range(CONNECTIONS)]
        self._control.call("netdev-dummy/receive", [interface_of(TENANT), *frames], "ovs-vswitchd")
        end, found = time.monotonic() + _ROUND, {}
        while sum(found.values()) < CONNECTIONS and time.monotonic() < end:
            time.sleep(_PAUSE)
            found = {name: _since(path, before[name]).count(mark) for name, path in self._captures.items()}
        return found

    def shows(self, *, ready: bool) -> bool:
        """Whether new connections go as they should with `b` ready or not."""
        found = self.arrived()
        return found["b"] > 0 if ready else found == {"b": 0, "c": CONNECTIONS}

    def _frame(self, mark: bytes, port: int) -> bytes:
        own = self._request
        fields = (own.source_mac, own.target_mac, own.source, own.target, own.protocol)
        return Packet(*fields, port, own.target_port, payload=mark).encode()


def _since(path: Path, offset: int) -> bytes:
    with path.open("rb") as capture:
        capture.seek(offset)
        return capture.read()


@contextlib.contextmanager
def running_host(controller_allocator: str = ALLOCATOR) -> Iterator[tuple[Host, Server, Server]]:
    """Run a host's daemons; the values are the host, its Northbound and its Southbound database.

    `controller_allocator` is the library that ovn-controller has its malloc(3) from, "" for the C library.
    """
    tools = make_toolbox()
    with tempfile.TemporaryDirectory(prefix="heddle-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(mock.patch.dict(os.environ, {"OVS_RUNDIR": name}))
        northbound, southbound, vswitch = (
            Server(tools, folder, database, tools.schema(database))
            for database in (NORTHBOUND, SOUTHBOUND, "Open_vSwitch")
        )
        for server in (northbound, southbound, vswitch):
            stack.callback(stop, server.process)
        stack.enter_context(translating(northbound, southbound))
        machine = Host(tools, folder, vswitch)
        stack.callback(lambda: [stop(process) for process in reversed(machine.processes)])
        machine.start(southbound, preloaded(tools, controller_allocator))
        remotes = {
            "NORTHBOUND_REMOTE": northbound.remote, "SOUTHBOUND_REMOTE": southbound.remote,
            "VSWITCH_REMOTE": vswitch.remote, "SYSTEM_ID_FILE": str(folder / "system-id"),
        }  # fmt: skip
        stack.enter_context(mock.patch.multiple(topology, **remotes))
        yield machine, northbound, southbound


def client_request(northbound: Server, plan: dict) -> Packet:
    """Return a packet of the client to the Service's cluster IP, by way of its gateway."""
    own = plan["workloads"][f"{TENANT}/a"]["interfaces"][-1]
    switch = f"{NETWORK}_ovn_layer2_switch"
    routers = {row["name"]: row["mac"] for row in northbound.rows("Logical_Router_Port", "name", "mac")}
    gateway = next(routers[name] for name in (f"trtos-{switch}", f"rtos-{switch}") if name in routers)
    target = next(one for one in plan["services"][NETWORK][f"{TENANT}/web"]["addresses"] if ":" not in one)
    source = next(one for one in own["addresses"] if ":" not in one).partition("/")[0]
    return Packet(own["mac"], gateway, source, target, UDP, 0, 53)


def by_hand(machine: Host, northbound: Server, plan: dict) -> Callable[[], None]:
    """Return a call that gives the Service's load balancer the endpoints of a plan with ovn-nbctl."""
    balancer = next(
        row for row in topology.render_northbound(plan, "node1")
        if row.table == "Load_Balancer" and row.network == NETWORK
    )  # fmt: skip
    command = machine.tools.command("ovn-nbctl", f"--db={northbound.remote}")
    for target, endpoints in balancer.columns["vips"].items():
        command += ["--", "--may-exist", "lb-add", balancer.columns["name"], target, endpoints, "udp"]
    return lambda: subprocess.run(command, check=True, capture_output=True) and None


def seconds_until(change: Callable[[], object], endpoints: Endpoints, *, ready: bool) -> float:
    """Make a change; return the seconds from its beginning until new connections follow."""
    start = time.monotonic()
    change()
    while not endpoints.shows(ready=ready):
        if time.monotonic() > start + _TIMEOUT:
            raise SystemExit(f"new connections do not follow within {_TIMEOUT:g} s")
    return time.monotonic() - start


def measure(changes: int, networks: int, *, recorded: bool) -> dict[str, list[float]]:
    """Return seconds by what was measured, one for each change; `recorded`: the host has a record of comparisons."""
    hosts = with_gateways("shared")
    plans = {ready: plan_of(manifests(networks, ready=ready), None, hosts, SETTINGS) for ready in (True, False)}
    found: dict[str, list[float]] = {title: [] for title in TITLES}
    forking = multiprocessing.get_context("fork")
    times_of_parent, times_of_child = forking.Pipe(duplex=False)
    with (
        running_host() as (machine, northbound, _southbound),
        mock.patch.object(northd_recompute, "PENDING_FILE", str(machine.folder / "northd-pending")),
        mock.patch.object(follow_ups, "FILE", str(machine.folder / "follow-ups.json")),
    ):
        record = ComparisonRecord("bench", str(machine.folder / "compared.json")) if recorded else None
        context = NodeContext("node1", "", write=True, record=record)
        for _time in ("writes", "finds no difference"):
            topology.apply_topology(context, plans[True])
        for name in "abc":
            port = plans[True]["workloads"][f"{TENANT}/{name}"]["interfaces"][-1]["port"]
            machine.attach((interface_of(TENANT, name), port))
        endpoints = Endpoints(machine, client_request(northbound, plans[True]))
        hand = {ready: by_hand(machine, northbound, plan) for ready, plan in plans.items()}

        def apply(plan: dict, former: dict) -> None:
            own, start = time.process_time(), time.monotonic()
            used = own + processor_time(northbound.process.pid)

            def committed(*_results) -> None:
                times["written"] = time.monotonic() - start
                times["written, processor"] = time.process_time() - own

            times: dict[str, float] = {}
            with mock.patch.object(Announcement, "committed", committed):
                assert topology.apply_topology(replace(context, former=former), plan).changed
            times["apply"] = time.monotonic() - start
            times["processor"] = time.process_time() + processor_time(northbound.process.pid) - used
            times_of_child.send(times)

        wait_for(lambda: endpoints.shows(ready=True), "the workloads' ports")
        for number in range(changes):
            ready = bool(number % 2)
            # In a process of its own, as on a host: packets are looked at meanwhile.
            process = forking.Process(target=apply, args=(plans[ready], plans[not ready]))
            found["Heddle"].append(seconds_until(process.start, endpoints, ready=ready))
            for name, seconds in times_of_parent.recv().items():
                found[name].append(seconds)
            process.join()
            # The row is as before again, by hand, and then changes by hand.
            seconds_until(hand[not ready], endpoints, ready=not ready)
            found["by hand"].append(seconds_until(hand[ready], endpoints, ready=ready))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--networks", type=int, default=10)
    parser.add_argument("--without-record", action="store_true")
    options = parser.parse_args()
    found = measure(options.changes, options.networks, recorded=not options.without_record)
    print(f"{'one endpoint, from the change to packets':44} {'p50':>9} {'p99':>9}")
    quantiles = {
        name: (statistics.median(times), statistics.quantiles(times, n=100, method="inclusive")[-1])
        for name, times in found.items()
    }
    for name, title in TITLES.items():
        print(f"{title:44} {quantiles[name][0]:7.3f} s {quantiles[name][1]:7.3f} s")
    ratios = [quantiles["Heddle"][index] / quantiles["by hand"][index] for index in (0, 1)]
    print(f"{'Heddle over ovn-nbctl':44} {ratios[0]:7.2f} x {ratios[1]:7.2f} x")


if __name__ == "__main__":
    main()
