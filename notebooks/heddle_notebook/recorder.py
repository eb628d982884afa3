# SPDX-License-Identifier: Apache-2.0
"""Sends echoes from a workload while something happens, and plots the answers with the events."""

from __future__ import annotations

import re
import time
import uuid

import pandas

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, INK, RULE, Drawing

from .collection import naming, plain
from .fleet import Fleet, pooled_workloads, unpacked
from .problem import HeddleError
from .report import Picture

_ANSWER = re.compile(r"^\[(\d+\.\d+)\] .*icmp_seq=(\d+) .*time=([\d.]+) ms")
# ping's option -O; its time is that of the next echo.
_LATE = re.compile(r"^\[(\d+\.\d+)\] no answer yet for icmp_seq=(\d+)")
_LONGEST = 3600
# Sends echoes on a host for as long as the workload is there, whose namespace lives on as long as a process is in it.
# One that is never stopped ends by itself.
_FOLLOW = """
import os, subprocess, sys, time
log, longest, inside, ping = sys.argv[1], float(sys.argv[2]), "/run/netns/" + sys.argv[3], sys.argv[4:]
def found():
    try:
        return os.stat(inside).st_ino
    except FileNotFoundError:
        return None
end = time.monotonic() + longest
while time.monotonic() < end:
    if there := found():
        run = subprocess.Popen(["ip", "netns", "exec", os.path.basename(inside), *ping])
        while run.poll() is None and found() == there and time.monotonic() < end:
            time.sleep(0.05)
        run.kill()
        run.wait()
    time.sleep(0.05)
os.remove(log)
"""
# A host that was started again meanwhile has neither the unit nor the log.
_STOP = """
import base64, os, subprocess, sys, zlib
unit, log = sys.argv[1:]
subprocess.run(["systemctl", "stop", unit], stderr=subprocess.DEVNULL)
text = b""
if os.path.exists(log):
    text = open(log, "rb").read()
    os.remove(log)
print(base64.b64encode(zlib.compress(text)).decode())
"""
_WIDTH, _HEIGHT, _LEFT, _TOP = 900, 180, 60, 50


class Recorder:
    """Sends echoes from a workload to another one, or to an address, as long as its `with` block runs.

    `echoes` is a frame with `time`, `sequence` and `milliseconds`, which is NaN for one without an answer. Times are
    those of the source's host; `mark` notes an event at the time of this machine.
    """

    def __init__(self, fleet: Fleet, source: str, target: str, *, network: str = "", interval: float = 0.1) -> None:
        if not 0.002 <= interval <= 60:
            raise HeddleError(f"interval is {interval} s; it can be 0.002 to 60")
        plan = fleet.plan()
        kind = "netns" if source in pooled_workloads(plan) else plan["workloads"].get(source, {}).get("kind")
        self.address = fleet.address(target, network) if "/" in target else plain(target)
        if kind != "netns":
            raise HeddleError(f"{source} is no network namespace that could send echoes; name another workload")
        # The workload may move meanwhile.
        self.fleet, self.hosts, self.interval = fleet, list(plan["nodes"]), interval
        self.source, self.target = source, target
        # Hosts that were down at the end; what was sent from them is not in `echoes`.
        self.down: list[str] = []
        self.events: list[tuple[float, str]] = []
        self.echoes = pandas.DataFrame(columns=["time", "sequence", "milliseconds"])
        self._unit = f"heddle-recorder-{uuid.uuid4().hex[:12]}"
        self._log = f"/run/{self._unit}.log"

    def __enter__(self) -> Recorder:
        inside = naming.workload_namespace(*self.source.split("/", 1))
        ping = ["ping", "-D", "-O", "-n", "-i", str(self.interval), "-w", str(_LONGEST), self.address]
        self.fleet.commands(self.hosts, [
            "systemd-run", f"--unit={self._unit}", "--collect", f"--property=StandardOutput=file:{self._log}",
            "python3", "-c", _FOLLOW, self._log, str(_LONGEST), inside, *ping,
        ], "start echoes")  # fmt: skip
        return self

    def __exit__(self, *_error) -> None:
        stop = ["python3", "-c", _STOP, f"{self._unit}.service", self._log]
        found = self.fleet.answers(self.hosts, stop, "stop echoes")
        self.down = [host for host in self.hosts if host not in found]
        self.echoes = read_echoes("\n".join(unpacked(one["stdout"]).decode() for one in found.values()))

    def wait(self, seconds: float) -> None:
        """Let echoes be sent for some time."""
        time.sleep(seconds)

    def mark(self, text: str) -> None:
        """Note an event, now."""
        self.events.append((time.time(), text))

    @property
    def lost(self) -> int:
        """Return how many echoes had no answer."""
        return int(self.echoes["milliseconds"].isna().sum())

    @property
    def longest_gap(self) -> float:
        """Return the longest time without an answer, in seconds."""
        answered = self.echoes.dropna()["time"]
        return float(answered.diff().max()) if len(answered) > 1 else float("nan")

    def picture(self) -> Picture:
        """Return the answers over time, with what was lost and the events."""
        drawing = Drawing(f"Echoes from {self.source} to {self.target}")
        drawing.text(_LEFT, 24, f"{self.source} → {self.target} {self.address}", size=15, bold=True)
        facts = f"{len(self.echoes)} echoes, {self.lost} lost, longest gap {self.longest_gap:.2f} s"
        facts += f"; without those of {', '.join(self.down)}, down at the end" if self.down else ""
        drawing.text(_LEFT, 42, facts, size=12, color=FAINT)
        if len(self.echoes):
            self._plot(drawing)
        return Picture(drawing.svg())

    def _plot(self, drawing: Drawing) -> None:
        began = self.echoes["time"].min()
        span = max(self.echoes["time"].max() - began, self.interval)
        most = max(float(self.echoes["milliseconds"].max() or 0), 1.0)
        bottom = _TOP + 16 + _HEIGHT
        drawing.line(_LEFT, bottom, _LEFT + _WIDTH, bottom, color=RULE, thick=1)
        for part in range(5):
            x = _LEFT + _WIDTH * part / 4
            drawing.text(x, bottom + 18, f"{span * part / 4:.1f} s", size=11, color=FAINT, anchor="middle")
        drawing.text(_LEFT - 8, _TOP + 22, f"{most:.1f} ms", size=11, color=FAINT, anchor="end")
        for row in self.echoes.itertuples():
            x = _LEFT + _WIDTH * (row.time - began) / span
            if pandas.isna(row.milliseconds):
                drawing.line(x, _TOP + 16, x, bottom, color="#c81e1e", thick=1)
            else:
                drawing.dot(x, bottom - _HEIGHT * min(1.0, row.milliseconds / most), 1.6, "#0072b2")
        for number, (moment, text) in enumerate(self.events):
            x = _LEFT + _WIDTH * min(max((moment - began) / span, 0), 1)
            drawing.line(x, _TOP + 16, x, bottom, color=INK, thick=1, dashed=True)
            drawing.text(x + 4, _TOP + 28 + 14 * (number % 4), text, size=11)

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def read_echoes(text: str) -> pandas.DataFrame:
    """Return what ping printed with -D and -O as a frame; a late answer counts as one.

    The text may be that of several runs, after each other; the line that ping begins with separates them.
    """
    found: dict[tuple[int, int], tuple[float, float]] = {}
    run = 0
    for line in text.splitlines():
        run += line.startswith("PING ")
        if late := _LATE.match(line):
            found.setdefault((run, int(late[2])), (float(late[1]), float("nan")))
        elif answer := _ANSWER.match(line):
            found[run, int(answer[2])] = (float(answer[1]), float(answer[3]))
    rows = sorted([moment, sequence, milliseconds] for (_run, sequence), (moment, milliseconds) in found.items())
    return pandas.DataFrame(rows, columns=["time", "sequence", "milliseconds"])
