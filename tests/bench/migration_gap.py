# SPDX-License-Identifier: Apache-2.0
"""What connections to the external host see while a virtual machine moves, and when the host that it left is cut off.

Runs on a lab that is up and converged and whose nodes have the Layer2 topology to be measured, and brings a VM of
its own there: it moves from node2 to node1, then node2 loses its power. The same connections from a namespace on node3,
which stays where it is, are the control. Each call is a column of the table, kept in a JSON file:

    python -m tests.bench.migration_gap new
    python -m tests.bench.migration_gap old --announce no
    python -m tests.bench.migration_gap old+announcement
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

from tests.lab.conftest import ROOT, Lab
from tests.lab.vm import DATA, NOTHING, OWN_SET, ExternalFlows, Machine, Watchers, figures

SOURCE, TARGET = "node2", "node1"
START_SECONDS, CALM_SECONDS, AFTER_SECONDS = 4, 5, 5
PHASES = ("calm", "move", "source cut off")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("label", help="name of this column")
    parser.add_argument("--announce", default="yes", help="whether the new router is announced to the VM")
    parser.add_argument("--watch", type=float, default=60, help="seconds to watch after the host was cut off")
    parser.add_argument("--json", type=Path, default=ROOT / "report" / "migration_gap.json", help="file of all columns")
    chosen = parser.parse_args()
    kept = json.loads(chosen.json.read_text()) if chosen.json.exists() else {}
    kept[chosen.label] = measure(Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab")), chosen.announce, chosen.watch)
    chosen.json.parent.mkdir(exist_ok=True)
    chosen.json.write_text(json.dumps(kept, indent=1) + "\n")
    print(table(kept))


def measure(lab: Lab, announce: str, watch: float) -> dict:
    """Move a VM and cut the host off that it left; returns the figures of all phases."""
    vm = Machine(lab)
    lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    (here,) = vm.runs_on()
    vm.wait_for_addresses(here)
    vm.move(SOURCE)
    external = _external_addresses()
    reach = "; ".join(f"ping -c 1 -W 5 {address} >/dev/null" for address in external.values())
    vm.inside(SOURCE, reach)
    inside = {"before": _routers(vm, SOURCE)}
    east_west = Watchers(lab, {"violet_peer": "node3"})
    # The target's gateway router has the MAC of its next hop, as on any other user's bridge.
    for address in external.values():
        lab.ssh(TARGET, "ip", "netns", "exec", "violet_near", "ping", "-c3", "-W5", address)
    flows = ExternalFlows(vm, SOURCE, external)
    time.sleep(START_SECONDS)
    flows.phase(SOURCE)
    time.sleep(CALM_SECONDS)
    flows.phase(SOURCE)
    moved = vm.move(TARGET, "-e", f"heddle_migrate_announce={announce}")
    inside["after the move"] = _routers(vm, TARGET)
    time.sleep(AFTER_SECONDS)
    flows.phase(TARGET)
    lab.verb("kill", SOURCE)
    try:
        time.sleep(watch)
        inside["after the cut"] = _routers(vm, TARGET)
        phases = flows.stop(TARGET)
        beside = east_west.stop()
    finally:
        lab.verb("start", SOURCE)
    lab.play("networks.yml", *OWN_SET, manifests=NOTHING)
    return {
        "move": figures(moved),
        "watched_seconds": watch,
        "phases": dict(zip(PHASES, phases[1:], strict=True)),
        "east-west": beside,
        "routers that the VM knows": inside,
    }


def _external_addresses() -> dict[int, str]:
    inventory = ["-i", str(ROOT / "inventories" / "lab"), "--host", "external"]
    done = subprocess.run(
        [str(ROOT / ".venv" / "bin" / "ansible-inventory"), *inventory],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    addresses = json.loads(done.stdout)["heddle_addresses"]
    prefixes = {
        "{{ lab_prefix }}": os.environ.get("LAB_NETWORK_PREFIX") or "198.18",
        "{{ lab_prefix6 }}": os.environ.get("LAB_NETWORK_PREFIX6") or "fd00:6864",
    }
    for variable, text in prefixes.items():
        addresses = [address.replace(variable, text) for address in addresses]
    return {6 if ":" in address else 4: address for address in addresses}


def _routers(vm: Machine, node: str) -> dict:
    """The gateway's MAC and the IPv6 routers, as the VM knows them."""
    known = vm.neighbours(node)
    routes = vm.inside(node, "ip -6 route show default")
    return {
        "10.5.0.1": " ".join(known.get("10.5.0.1", ("unknown",))),
        "IPv6 routers": sorted({line.split("via ")[1].split()[0] for line in routes.splitlines() if "via " in line}),
    }


def table(columns: dict) -> str:
    """One line per flow and phase, one column per label; milliseconds."""
    lines = [("", *columns), ("QEMU stopped it for", *(f"{one['move']['downtime_ms']} ms" for one in columns.values()))]
    for phase in PHASES:
        for who in ("vm", "peer"):
            for number in (4, 6):
                name = f"{who} {number}"
                reported = [one["phases"][phase][name.replace(" ", "_")] for one in columns.values()]
                if who == "vm":
                    lines.append((f"{phase}: echoes, {name}", *map(_echo, reported)))
                lines.append((f"{phase}: new, {name}", *map(_new, reported)))
                lines.append((f"{phase}: established, {name}", *map(_lasting, reported)))
    for flow in next(iter(columns.values()))["east-west"]:
        lines.append(
            (f"all: {flow.removeprefix('violet_')}", *(_east_west(one["east-west"][flow]) for one in columns.values()))
        )
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _new(reported: dict) -> str:
    new = reported["new"]
    return f"{new['longest_gap_ms']} ms{', none since' if new['to_the_end'] and new['longest_gap_ms'] > 1000 else ''}"


def _echo(reported: dict) -> str:
    return f"{reported['echo']['longest_gap_ms']} ms" if reported["echo"]["answered"] else "none"


def _lasting(reported: dict) -> str:
    flows = reported["lasting"]
    if not flows:
        return "gone"
    return ", ".join(f"{one['longest_gap_ms']} ms{', ' + one['end'] if one['end'] else ''}" for one in flows)


def _east_west(flow: dict) -> str:
    return f"{flow['longest_gap_ms']} ms, {flow['lost']} of {flow['sent']} lost, {flow['resets']} resets"


if __name__ == "__main__":
    main()
