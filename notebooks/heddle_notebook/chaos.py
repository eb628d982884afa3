# SPDX-License-Identifier: Apache-2.0
"""Damage to a host, what is found of it, and what repairs it: the host service, systemd, or a playbook."""

from __future__ import annotations

import json
from html import escape

import pandas

from .fleet import Fleet
from .problem import HeddleError

# On the host, so that nothing of a connection is between the damage and the look at it.
_WATCH = """
import json, subprocess, sys, time
argv, patience = json.loads(sys.argv[1]), float(sys.argv[2])
done = subprocess.run(argv, capture_output=True, text=True)
if done.returncode:
    sys.exit(done.stderr or "it ended with status %d" % done.returncode)
began, first, seconds = time.monotonic(), None, None
while time.monotonic() - began < patience:
    said = subprocess.run(["heddle-host", "status", "--json"], capture_output=True, text=True)
    failed = {"clean": False, "differs": {}, "problems": [said.stderr]}
    state = json.loads(said.stdout) if said.stdout.strip() else failed
    lines = [line for changes in state["differs"].values() for line in changes] + state["problems"]
    first = lines if first is None else first or lines
    if state["clean"]:
        seconds = round(time.monotonic() - began, 1)
        break
    time.sleep(0.3)
print(json.dumps({"found": first or [], "seconds": seconds}))
"""


# What is done on the host. {router} is the router of a network there.
DAMAGES = {
    "nftables flushed": ("nft", "flush", "ruleset"),
    "daemon killed": ("systemctl", "kill", "--signal=KILL", "ovn-controller.service"),
    "Open vSwitch restarted": ("systemctl", "restart", "openvswitch-switch.service"),
    "flows removed": ("ovs-ofctl", "del-flows", "br-ex"),
    "row deleted": ("ovn-nbctl", "lr-del", "{router}"),
}


class Chaos:
    """Damages one host and reports, for each damage, a row of `results`."""

    def __init__(self, fleet: Fleet, host: str) -> None:
        self.fleet, self.host = fleet, host
        self._rows: list[list] = []

    def inflict(self, name: str, patience: float = 20) -> list[str]:
        """Do the damage, wait until the host repairs it or for `patience` seconds, and else run the playbook.

        Returns what the host found; HeddleError when it is not as planned in the end.
        """
        if name not in DAMAGES:
            raise HeddleError(f"there is no damage {name!r}; there are {', '.join(DAMAGES)}")
        router = self._router() if "{router}" in DAMAGES[name] else ""
        argv = [word.format(router=router) for word in DAMAGES[name]]
        command = ["python3", "-c", _WATCH, json.dumps(argv), str(patience)]
        seen = json.loads(self.fleet.command(self.host, command, f"{name} on {self.host}")["stdout"])
        drift = 0
        by = "the host itself"
        if seen["seconds"] is None:
            drift = int(self.fleet.audit().causes["drift"].sum())
            self.fleet.play("networks")
            by = "heddle.ovn.networks"
        audit = self.fleet.audit()
        if not audit.passed:
            raise HeddleError(f"{name}: {self.host} is not as planned again; see audit().findings")
        self._rows.append([name, " ".join(argv), len(seen["found"]), drift, by, seen["seconds"]])
        return seen["found"]

    def _router(self) -> str:
        """Return the name of a network's router on the host."""
        said = self.fleet.command(self.host, ["ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Router"])
        names = sorted(name for name in said["stdout"].split() if name.startswith("GR_"))
        if not names:
            raise HeddleError(f"{self.host} has no gateway router; set heddle_uplink, or choose another damage")
        return names[0]

    @property
    def results(self) -> pandas.DataFrame:
        """Return what was done, found and repaired; `seconds` is how long the host itself took."""
        columns = ["damage", "command", "found at once", "audited as drift", "repaired by", "seconds"]
        return pandas.DataFrame(self._rows, columns=columns)

    def _repr_html_(self) -> str:
        return f"<p><b>Damage to {escape(self.host)}</b></p>" + self.results.to_html(index=False)
