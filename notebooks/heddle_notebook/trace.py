# SPDX-License-Identifier: Apache-2.0
"""What ovn-trace printed, as hops through switches and routers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PIPELINE = re.compile(r'^(ingress|egress)\(dp="([^"]*)", inport="([^"]*)"(?:, outport="([^"]*)")?\)$')
_STAGE = re.compile(r"^ *\d+\. (l[rs])_(?:in|out)_(\w+) \(.*?\): (.*)$")
_OUTPUT = re.compile(r'^/\* output to "([^"]*)", type "([^"]*)" \*/$')
# What a packet looks like afterwards; registers and `next` are how OVN gets there.
_CHANGE = re.compile(r"^(?:(?:eth|ip4|ip6|ip|udp|tcp)\.[\w.]+ ?(?:=|--)|ct_(?:snat|dnat|lb)|drop)")


@dataclass
class Hop:
    """One switch or router that a packet passed. `output_type` is that of the port it left by."""

    datapath: str
    inport: str
    outport: str = ""
    output_type: str = ""
    is_router: bool = False
    stages: int = 0
    changes: list[str] = field(default_factory=list)


@dataclass
class Leg:
    """What happened to a packet on one host."""

    node: str
    text: str = ""
    hops: list[Hop] = field(default_factory=list)

    @property
    def delivered(self) -> bool:
        """Return whether the packet left the last hop by a port of a workload, or to another host."""
        return bool(self.hops) and bool(self.hops[-1].outport) and self.hops[-1].output_type in ("", "remote")


@dataclass
class Trace:
    """One packet: its title and its legs."""

    title: str
    legs: list[Leg] = field(default_factory=list)


def read_traces(text: str) -> list[Trace]:
    """Return the packets of a text that heddle.ovn.verify wrote."""
    traces: list[Trace] = []
    for line in text.splitlines():
        if line.startswith("== "):
            traces.append(Trace(line[3:]))
        elif line.startswith("-- on ") and traces:
            traces[-1].legs.append(Leg(line[6:]))
        elif traces and traces[-1].legs:
            leg = traces[-1].legs[-1]
            leg.text += line + "\n"
            _read_line(leg, line)
    return traces


def _read_line(leg: Leg, line: str) -> None:
    pipeline = _PIPELINE.match(line)
    if pipeline:
        which, datapath, inport, _outport = pipeline.groups()
        if which == "ingress" or not leg.hops:
            leg.hops.append(Hop(datapath, inport))
        return
    if not leg.hops:
        return
    hop, stripped = leg.hops[-1], line.strip()
    stage = _STAGE.match(line)
    if stage:
        hop.stages += 1
        hop.is_router = stage.group(1) == "lr"
        return
    output = _OUTPUT.match(stripped)
    if output:
        hop.outport, hop.output_type = output.groups()
    elif _CHANGE.match(stripped):
        hop.changes.append(stripped.removesuffix(";"))
