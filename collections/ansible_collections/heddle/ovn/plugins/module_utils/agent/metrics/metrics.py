# SPDX-License-Identifier: Apache-2.0
"""What a host can be monitored by, as text of Prometheus (its documentation, "Exposition formats").

Metrics of address pools and Egress have the names and labels of Coil v2 ("Metrics"), all others begin with `heddle_`.
Those of pools are of the plan, so that every host has the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...common.addressing import plain
from ...common.naming import workload_namespace
from ...netlink import kernel
from ...render.common.node_network import is_on
from ...types.egress_nat import UPLINK
from .egress_counters import INVALID, MASQUERADED, Counter

_CONNECTIONS = "/proc/sys/net/netfilter/nf_conntrack_"
Sample = tuple[str, str, dict[str, str], float]
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True)
class Observed:
    """What was found on a host.

    `differences` by part, None for one that could not be compared; `daemons`: whether each runs; `routing` as
    `health.routing` returns it; `connections` and their limit, and `counters`, by the network namespace of a router;
    `readiness`: whether each workload with a probe is ready; `rows` that the plan has in OVN's Northbound database;
    `applied`, the digest of the plan that the host applied last since it booted, and when, in seconds since the epoch;
    `paths` as the service that checks the underlay reports them; `mesh`, the state of the mesh's daemon as
    `mesh_daemon/status.py` describes it; `dns_names` as the daemon that resolves them reports them.
    """

    differences: dict[str, int | None] = field(default_factory=dict)
    daemons: dict[str, bool] = field(default_factory=dict)
    routing: list[dict] = field(default_factory=list)
    connections: dict[str, tuple[int, int]] = field(default_factory=dict)
    counters: dict[str, list[Counter]] = field(default_factory=dict)
    readiness: dict[str, bool] = field(default_factory=dict)
    rows: int | None = None
    applied: tuple[str, float] | None = None
    paths: dict[str, dict] = field(default_factory=dict)
    mesh: dict = field(default_factory=dict)
    dns_names: dict[str, dict] = field(default_factory=dict)


def connections(plan: dict, node: str) -> dict[str, tuple[int, int]]:
    """Read the number of tracked connections and its limit of each Egress router on the node."""
    found = {}
    for one in plan.get("egress", {}).get("workloads", {}).values():
        if one["node"] != node or "router_of" not in one:
            continue
        name = workload_namespace(one["namespace"], one["name"])
        try:
            with kernel.in_netns(name):
                found[name] = (_number(f"{_CONNECTIONS}count"), _number(f"{_CONNECTIONS}max"))
        except OSError:
            # It is not there yet, or nothing was ever tracked.
            continue
    return found


def _number(path: str) -> int:
    with open(path, encoding="ascii") as text:
        return int(text.read())


def metrics_text(plan: dict, node: str, observed: Observed) -> str:
    """Return all metrics of a node, each with its description and type once."""
    lines, known = [], set()
    found = (*_host(plan, node, observed), *_services(observed), *_coil(plan, node, observed))
    for name, description, labels, value in found:
        if name not in known:
            known.add(name)
            lines += [f"# HELP {name} {description}", f"# TYPE {name} gauge"]
        shown = ",".join(f'{key}="{text.translate(_ESCAPED)}"' for key, text in labels.items())
        lines.append(f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}")
    return "".join(f"{line}\n" for line in lines)


def _host(plan: dict, node: str, observed: Observed) -> Iterator[Sample]:
    labels = {"deployment": plan["deployment"], "node": node, "digest": plan["digest"]}
    yield "heddle_plan_info", "The plan that the host follows.", labels, 1
    on_node = [name for name, one in plan["networks"].items() if is_on(one, node)]
    yield "heddle_networks", "Networks on the host.", {}, len(on_node)
    workloads = [*plan["workloads"].values(), *plan.get("coil", {}).get("workloads", {}).values()]
    yield "heddle_workloads", "Workloads on the host.", {}, sum(one["node"] == node for one in workloads)
    if observed.rows is not None:
        yield (
            "heddle_northbound_rows",
            "Rows that the host has in OVN's Northbound database by its plan.",
            {},
            observed.rows,
        )
    digest, when = observed.applied or ("", 0.0)
    yield (
        "heddle_plan_applied",
        "Whether the host has applied its plan since it booted.",
        {},
        int(digest == plan["digest"]),
    )
    if digest:
        text = "When the host has applied a plan for the last time, in seconds since the epoch."
        yield "heddle_last_apply_timestamp_seconds", text, {}, when
    for part, count in observed.differences.items():
        text = "Whether a part of the host could be compared with the plan."
        yield "heddle_part_compared", text, {"part": part}, int(count is not None)
    for part, count in observed.differences.items():
        if count is not None:
            yield "heddle_part_differences", "Objects of a part that differ from the plan.", {"part": part}, count
    for unit, runs in observed.daemons.items():
        yield "heddle_daemon_up", "Whether a daemon runs.", {"unit": unit}, int(runs)
    for name, ready in observed.readiness.items():
        namespace, _slash, workload = name.partition("/")
        text = "Whether the readiness probe of a workload on the host succeeds."
        yield "heddle_workload_ready", text, {"namespace": namespace, "workload": workload}, int(ready)
    for metric, text, key in (
        ("heddle_path_bytes", "Largest tunnelled packet that gets through to a host, 0 for none.", "size"),
        ("heddle_path_needed_bytes", "Tunnelled packet that networks need on the path to a host.", "needed"),
    ):
        for peer, one in observed.paths.items():
            yield metric, text, {"peer": peer}, one[key]
    for metric, text, key in (
        ("heddle_bird_neighbour_up", "Whether BIRD routes blocks with a neighbour.", None),
        ("heddle_bird_learned_routes", "Blocks that BIRD learned from a neighbour.", "learned"),
        ("heddle_bird_advertised_routes", "Blocks that BIRD advertises to a neighbour.", "advertised"),
    ):
        for one in observed.routing:
            described = {"protocol": one["name"], "neighbour": one["title"], "address": one["address"]}
            value = one[key] if key else int(one["information"] in ("Established", "Running"))
            yield metric, text, described, value


def _services(observed: Observed) -> Iterator[Sample]:
    """What the services of the mesh and of names report."""
    connected = observed.mesh.get("connections", ())
    if observed.mesh:
        yield "heddle_mesh_peers", "Other hosts that the host knows in the mesh.", {}, len(observed.mesh["peers"])
    for one in connected:
        text = "Whether the connection of the mesh to a neighbour carries frames."
        yield "heddle_mesh_connection_up", text, {"peer": one["node"]}, int(one["state"] == "established")
    for one in connected:
        if one.get("rtt") is not None:
            labels = {"peer": one["node"], "overlay": one["overlay"]}
            yield "heddle_mesh_round_trip_seconds", "Round trip of heartbeats to a neighbour.", labels, one["rtt"]
    if observed.mesh:
        # Without their reasons: these name peers and addresses, so there may be any number of them.
        text, count = "Frames that the service of the mesh has dropped itself.", sum(observed.mesh["dropped"].values())
        yield "heddle_mesh_dropped_frames_total", text, {}, count
    for name, one in observed.dns_names.items():
        text = "Addresses that rules with a DNS name are about on the host."
        yield "heddle_dns_name_addresses", text, {"name": name}, len(one["addresses"])
    for name, one in observed.dns_names.items():
        text = "Whether the last question for a DNS name had no answer."
        yield "heddle_dns_name_failed", text, {"name": name}, int(bool(one["problem"]))


def _coil(plan: dict, node: str, observed: Observed) -> Iterator[Sample]:
    pools = plan.get("coil", {}).get("pools", {})
    for name, text, key in (
        ("coil_controller_max_blocks", "Blocks that a pool has.", "max_blocks"),
        ("coil_controller_allocated_blocks", "Blocks of a pool that hosts have.", "allocated_blocks"),
    ):
        for pool, one in pools.items():
            yield name, text, {"pool": pool}, one[key]
    workloads = plan.get("egress", {}).get("workloads", {})
    routers = [one for one in workloads.values() if one["node"] == node and "router_of" in one]
    # Once for each Egress: several of its routers may be on this host.
    for egress in dict.fromkeys(one["router_of"] for one in routers):
        labels = _egress_labels(egress)
        count = sum(egress in other.get("egresses", ()) for other in workloads.values())
        yield "coil_egress_client_pod_count", "Clients of an Egress with a router on the host.", labels, count
    for name, client, gateway in _clients(routers, workloads):
        text = "A client of an Egress with a router on the host."
        for address in client["addresses"]:
            labels = {
                "namespace": client["namespace"], "pod": client["name"], "pod_ip": plain(address), "interface": UPLINK,
                "egress": gateway.partition("/")[2], "egress_namespace": gateway.partition("/")[0],
            }  # fmt: skip
            yield name, text, labels, 1
    for place, kind in enumerate(("count", "limit")):
        for one in routers:
            found = observed.connections.get(workload_namespace(one["namespace"], one["name"]))
            if found:
                labels = {"namespace": one["namespace"], "pod": one["name"], "egress": _name(one["router_of"])}
                text = f"{'Number' if kind == 'count' else 'Limit'} of connections that a router tracks."
                yield f"coil_egress_nf_conntrack_entries_{kind}", text, labels, found[place]
    yield from _counted(routers, observed)


def _counted(routers: list[dict], observed: Observed) -> Iterator[Sample]:
    """The counters of routers' packet filters, which begin again when a router is made anew."""
    texts = {MASQUERADED: "that a router has translated", INVALID: "that a router has dropped as part of no connection"}
    for kind, text in texts.items():
        for unit, what in (("packets", "Packets"), ("bytes", "Bytes")):
            for one in routers:
                for found in observed.counters.get(workload_namespace(one["namespace"], one["name"]), ()):
                    if found.kind == kind:
                        labels = {
                            "namespace": one["namespace"], "pod": one["name"], "egress": _name(one["router_of"]),
                            "protocol": f"ipv{found.version}",
                        }  # fmt: skip
                        value = found.packets if unit == "packets" else found.octets
                        yield f"coil_egress_nftables_{kind}_{unit}_total", f"{what} {text}.", labels, value


def _clients(routers: Iterable[dict], workloads: dict) -> Iterator[tuple[str, dict, str]]:
    for gateway in dict.fromkeys(one["router_of"] for one in routers):
        for client in workloads.values():
            if gateway in client.get("egresses", ()):
                yield "coil_egress_client_pod_info", client, gateway


def _egress_labels(gateway: str) -> dict[str, str]:
    return {"namespace": gateway.partition("/")[0], "egress": _name(gateway)}


def _name(gateway: str) -> str:
    return gateway.partition("/")[2]
