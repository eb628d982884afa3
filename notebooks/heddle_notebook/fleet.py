# SPDX-License-Identifier: Apache-2.0
"""A fleet that is operated from a notebook or a script: playbooks, their results as frames, and pictures."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pandas
import yaml

from . import frames, play, temporary
from .capture import Capture
from .collection import PLAYBOOKS, REPOSITORY, naming, packets_between, plain, read_manifests, trace_text
from .lab import ABSENT
from .logical import logical
from .path import path
from .physical import physical
from .problem import HeddleError
from .report import Picture
from .trace import Trace, read_traces

# Characters of a capture filter; see pcap-filter(7).
_FILTER = re.compile(r"[\w\s.:/()<>=!&|\[\]+*-]*")
_FOREVER = 3600
_LAB_INVENTORY = REPOSITORY / "inventories" / "lab"
_TOPOLOGIES = {"1.0": "gateway-router", "2.0": "transit-router"}


class Fleet:
    """The hosts of an inventory. Results are written into `report`, and below it, in runs/, the artifacts of each run.

    `variables` are passed to each playbook. `live` chooses between a live line (True) and plain lines (False).
    """

    def __init__(
        self, inventory: str | Path = "", report: str | Path = "", *, live: bool | None = None, **variables
    ) -> None:
        self.inventory = Path(inventory or _LAB_INVENTORY).expanduser().resolve()
        if not self.inventory.exists():
            raise HeddleError(f"there is no inventory {self.inventory}; name its directory")
        chosen = report or os.environ.get("LAB_REPORT") or self.inventory.parents[1] / "report"
        self.report = Path(chosen).expanduser().resolve()
        self.live = live
        self.variables = {**variables, "heddle_report_directory": str(self.report)}

    def _run(self, name: str, *, check: bool = False, limit: str = "", stop_after: str = "", **variables) -> play.Run:
        playbook = PLAYBOOKS / f"{name}.yml"
        if not playbook.is_file():
            names = ", ".join(sorted(one.stem for one in PLAYBOOKS.glob("*.yml")))
            raise HeddleError(f"there is no playbook {name}; there are {names}")
        self._require_lab()
        flags = {"cmdline": "--check --diff"} if check else {}
        return play.run(
            f"{name} (check)" if check else name, self.runs_directory, live=self.live, stop_after=stop_after,
            playbook=str(playbook),
            inventory=str(self.inventory), extravars={**self.variables, **variables},
            **({"limit": limit} if limit else {}), **flags,
        )  # fmt: skip

    def _require_lab(self) -> None:
        lab = Path(os.environ.get("LAB_DIR") or REPOSITORY / ".lab")
        if self.inventory == _LAB_INVENTORY and not (lab / "ssh_config").exists():
            raise HeddleError(ABSENT)

    @property
    def runs_directory(self) -> Path:
        """Return where the artifacts of runs are."""
        directory = self.report / "runs"
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def play(self, name: str, *, limit: str = "", stop_after: str = "", **variables) -> play.Run:
        """Run a playbook by name, as `site` or `upgrade_layer2`; PlayFailed unless it succeeds.

        `stop_after` is the name of a task after which Ansible is killed, to see what the next run makes of that.
        """
        return play.required(self._run(name, limit=limit, stop_after=stop_after, **variables))

    def check(self, name: str = "networks", manifests: str | Path | None = None, **variables) -> pandas.DataFrame:
        """Return what a playbook would change, a row for each object; nothing is changed."""
        return self.preview(name, manifests, **variables).changes

    def preview(self, name: str = "networks", manifests: str | Path | None = None, **variables) -> play.Run:
        """Run a playbook in check mode; its `messages` are what it says besides changes."""
        with _manifests(manifests) as more:
            return play.required(self._run(name, check=True, **more, **variables))

    def validate(self, manifests: str | Path | None = None) -> pandas.DataFrame:
        """Return the mistakes of manifests (YAML text, a file or a directory); no host is touched."""
        files = _files(self.inventory / "manifests" if manifests is None else manifests)
        return frames.problems(read_manifests(files)[1])

    def apply(self, manifests: str | Path | None = None, manifest_set: str = "notebook", **variables) -> play.Run:
        """Apply manifests (YAML text, a file, a directory), or those of the inventory.

        They are a set of their own: what an earlier call with the same set had and this one has not is deleted, the
        inventory's manifests stay as they are.
        """
        if manifests is None:
            return self.play("networks", **variables)
        wrong = self.validate(manifests)
        if len(wrong):
            raise HeddleError(f"{len(wrong)} mistakes in the manifests: {wrong.iloc[0]['text']}; nothing was applied")
        with _manifests(manifests) as more:
            return self.play("networks", heddle_manifest_set=manifest_set, **more, **variables)

    def status(self) -> frames.Status:
        """Read the state of hosts, networks and workloads."""
        self.play("status")
        return self.last_status()

    def last_status(self) -> frames.Status:
        """Return the state that the last playbook wrote, without reading hosts."""
        return frames.Status(self._result("status", "status"))

    def verify(self, pairs: str = "classes") -> frames.Verify:
        """Send packets between all workloads; the result says what is wrong, it raises only without a result."""
        return frames.Verify(self._tested("verify", heddle_verify_pairs=pairs))

    def audit(self, hosts: Sequence[str] = ()) -> frames.Audit:
        """Compare each host, or those named, with its plan; the result says what differs.

        It raises only without a result.
        """
        chosen = {"heddle_audit_hosts": list(hosts)} if hosts else {}
        return frames.Audit(self._tested("audit", **chosen))

    def _tested(self, name: str, **variables) -> dict:
        """Run a playbook that fails when what it found is wrong, and return what it found."""
        before = _changed(self.report / f"{name}.json")
        run = self._run(name, **variables)
        if run.state != "successful" and _changed(self.report / f"{name}.json") == before:
            play.required(run)
        return self._result(name, name)

    def _result(self, name: str, playbook: str) -> dict:
        path_ = self.report / f"{name}.json"
        try:
            return json.loads(path_.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise HeddleError(f"{path_} is missing; run the playbook {playbook} first") from None
        except ValueError as error:
            raise HeddleError(f"{path_} cannot be read ({error}); run the playbook {playbook} again") from None

    def plan(self) -> dict:
        """Return the plan of the last status, as pictures need it."""
        status = self._result("status", "status")
        return {"settings": {}, **status}

    def logical(self, network: str) -> Picture:
        """Return the picture of a network."""
        plan = self.plan()
        if network not in plan["networks"]:
            raise HeddleError(f"there is no network {network}; there are {', '.join(plan['networks'])}")
        return Picture(logical(plan, network))

    def physical(self) -> Picture:
        """Return the picture of the hosts."""
        return Picture(physical(self.plan()))

    def trace(self, source: str, target: str, network: str = "") -> Traced:
        """Trace a packet between two workloads (NAMESPACE/NAME) through OVN on their hosts, by ovn-trace."""
        plan = self.plan()
        for name in (source, target):
            self._require_workload(plan, name)
        legs = packets_between(plan, source, target, network)
        if not legs:
            raise HeddleError(f"{source} and {target} have no common network that can be traced; see status()")
        found = [{**leg, "text": self._ovn_trace(leg)} for leg in legs]
        return Traced(plan, read_traces(trace_text(found))[0])

    def _ovn_trace(self, leg: dict) -> str:
        argv = ["ovn-trace", "--db=unix:/var/run/ovn/ovnsb_db.sock", "--detailed", leg["datapath"], leg["microflow"]]
        result = self.command(leg["node"], argv)
        return result.get("stdout") or result.get("stderr") or result.get("msg") or "no trace"

    def command(self, host: str, argv: Sequence[str], name: str = "") -> dict:
        """Run a command on a host as root and return the result of ansible.builtin.command; no shell reads it."""
        return self.commands([host], argv, name)[host]

    def commands(self, hosts: Sequence[str], argv: Sequence[str], name: str = "") -> dict[str, dict]:
        """Run a command on several hosts at once; return the result of each."""
        return self._task(hosts, name or argv[0], _command(argv, name))

    def answers(self, hosts: Sequence[str], argv: Sequence[str], name: str = "") -> dict[str, dict]:
        """Do the same; hosts that are down have no result."""
        return self._task(hosts, name or argv[0], _command(argv, name), all_up=False)

    def _task(self, hosts: Sequence[str], name: str, task: dict, *, all_up: bool = True) -> dict[str, dict]:
        self._require_lab()
        with tempfile.TemporaryDirectory() as work:
            file = Path(work) / "command.yml"
            content = {"name": name, "hosts": ",".join(hosts), "gather_facts": False, "tasks": [task]}
            file.write_text(json.dumps([content]))
            run = play.run(name, self.runs_directory, live=self.live, playbook=str(file), inventory=str(self.inventory))
        if not run.results and run.state == "successful":
            named = ", ".join(hosts)
            raise HeddleError(f"the inventory has no host {named}; name one of heddle_nodes or heddle_external")
        if all_up or not set(run.failures["result"]) <= {"unreachable"}:
            play.required(run)
        return {one["host"]: one["res"] for one in run.results if one["result"] != "unreachable"}

    def host_address(self, host: str) -> str:
        """Return the preferred address of a host in the provider network, as the inventory has it."""
        task = {
            "name": "Show it",
            "ansible.builtin.debug": {"msg": "{{ heddle_addresses | default([]) | first | default('') }}"},
        }
        found = self._task([host], f"address of {host}", task)[host]["msg"]
        if not found:
            raise HeddleError(f"{host} has no heddle_addresses; set them in the inventory")
        return found

    def layer2_topologies(self) -> dict[str, str]:
        """Return the topology of Layer2 networks on each host: gateway-router or transit-router."""
        nodes = self.status().content["nodes"]
        return {name: _TOPOLOGIES[node["layer2_topology_version"]] for name, node in nodes.items()}

    def moved(self, manifests: str | Path, source: str, target: str) -> str:
        """Return manifests as YAML text in which the workloads of one host are on another one."""
        if target not in self.plan()["nodes"]:
            raise HeddleError(f"there is no host {target}; there are {', '.join(self.plan()['nodes'])}")
        found = [one for _name, text in _files(manifests) for one in yaml.safe_load_all(text) if one]
        for one in found:
            if one.get("kind") == "Workload" and one["spec"]["node"] == source:
                one["spec"]["node"] = target
        return "---\n" + yaml.safe_dump_all(found, sort_keys=False)

    def capture(self, host: str, interface: str, filter: str = "", seconds: float = 5, workload: str = "") -> Capture:
        """Capture packets of an interface for some seconds; the pcap file stays in the report.

        `filter` is a pcap-filter(7). With `workload` (NAMESPACE/NAME) it is an interface in its network namespace.
        """
        if not _FILTER.fullmatch(filter):
            raise HeddleError(f"the filter {filter!r} is none of pcap-filter(7); write it as 'icmp or arp'")
        if not 0 < seconds <= _FOREVER:
            raise HeddleError(f"seconds is {seconds}; it can be up to {_FOREVER}")
        if workload:
            self._require_workload(self.plan(), workload)
        inside = ["ip", "netns", "exec", naming.workload_namespace(*workload.split("/", 1))] if workload else []
        script = (
            "import base64, subprocess, sys, zlib\n"
            "seconds, argv = float(sys.argv[1]), sys.argv[2:]\n"
            "run = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
            "try: out, err = run.communicate(timeout=seconds)\n"
            "except subprocess.TimeoutExpired:\n"
            "    run.terminate(); out, err = run.communicate()\n"
            "if not out: sys.exit(err.decode() or 'tcpdump wrote nothing')\n"
            "print(base64.b64encode(zlib.compress(out)).decode())\n"
        )
        tcpdump = [
            "tcpdump",
            "--immediate-mode",
            "-U",
            "-n",
            "-s",
            "256",
            "-i",
            interface,
            "-w",
            "-",
            "--",
            *filter.split(),
        ]
        result = self.command(host, ["python3", "-c", script, str(seconds), *inside, *tcpdump], f"capture on {host}")
        directory = self.report / "captures"
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{host}-{re.sub(r'[^0-9A-Za-z_-]', '_', interface)}.pcap"
        file.write_bytes(unpacked(result["stdout"]))
        return Capture(file)

    def address(self, workload: str, network: str = "") -> str:
        """Return the first address of a workload in its primary network or address pool, or in the network named."""
        plan = self.plan()
        self._require_workload(plan, workload)
        pooled = pooled_workloads(plan).get(workload)
        if pooled and not network:
            return plain(pooled["addresses"][0])
        for one in plan["workloads"].get(workload, {}).get("interfaces", ()):
            if (one["network"] == network if network else one["role"] == "primary") and one["addresses"]:
                return plain(one["addresses"][0])
        raise HeddleError(f"{workload} has no address in {network or 'its primary network'}; see status().workloads")

    def _require_workload(self, plan: dict, name: str) -> None:
        known = [*plan["workloads"], *pooled_workloads(plan)]
        if name not in known:
            raise HeddleError(f"there is no workload {name}; write NAMESPACE/NAME, as {next(iter(known), '')}")

    def history(self) -> pandas.DataFrame:
        """Return the runs from notebooks, the last one first."""
        return frames.history(self.runs_directory)

    def _repr_html_(self) -> str:
        return f"<p><b>Fleet</b> {self.inventory}<br><span style='opacity: 0.65'>{self.report}</span></p>"


def _command(argv: Sequence[str], name: str) -> dict:
    task = {"name": name or f"Run {argv[0]}", "ansible.builtin.command": {"argv": list(argv)}}
    return {**task, "changed_when": False}


class Traced:
    """A packet that ovn-trace followed; `legs` has what each host did with it."""

    def __init__(self, plan: dict, trace: Trace) -> None:
        self.trace, self.legs = trace, trace.legs
        self._plan = plan

    @property
    def delivered(self) -> bool:
        """Return whether it arrived."""
        return all(leg.delivered for leg in self.legs)

    def _repr_html_(self) -> str:
        return Picture(path(self._plan, self.trace))._repr_html_()


def unpacked(text: str) -> bytes:
    """Return bytes that a host compressed for the way here."""
    return zlib.decompress(base64.b64decode(text))


def pooled_workloads(plan: dict) -> dict[str, dict]:
    """Return the workloads whose addresses are of a pool, by name."""
    return plan.get("coil", {}).get("workloads", {})


def _changed(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


@contextlib.contextmanager
def _manifests(manifests: str | Path | None) -> Iterator[dict[str, str]]:
    """Yield manifests as a directory for the playbooks: text is written into a temporary one."""
    if manifests is None:
        yield {}
        return
    files = _files(manifests)
    with temporary.directory("heddle-manifests-") as directory:
        for number, (name, text) in enumerate(files):
            (directory / f"{number:04}-{Path(name).name}").write_text(text, encoding="utf-8")
        yield {"heddle_manifests": str(directory)}


def _files(manifests: str | Path) -> list[tuple[str, str]]:
    """Return the names and texts of manifests: YAML text has a line break, all else is a path."""
    if isinstance(manifests, str) and "\n" in manifests:
        return [("notebook.yml", manifests)]
    place = Path(manifests).expanduser()
    if place.is_file():
        return [(place.name, place.read_text(encoding="utf-8"))]
    if place.is_dir():
        found = sorted(one for one in place.rglob("*") if one.suffix in (".yml", ".yaml", ".json"))
        return [(str(one.relative_to(place)), one.read_text(encoding="utf-8")) for one in found]
    raise HeddleError(f"no manifests at {place}: there is neither a file nor a directory; give a path or YAML text")
