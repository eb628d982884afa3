# SPDX-License-Identifier: Apache-2.0
"""What a user waits for: a playbook that finds nothing to do, beside a playbook without tasks.

    python -m tests.bench.playbook COUNT [--rounds 3]

One local host with a state and the databases of OVN and Open vSwitch runs those tasks of playbooks/networks.yml whose
work grows with the networks: validate, admit and plan, keep the plan and bring the topology. The sockets are where the
modules look for them because the playbook has a mount namespace of its own. ssh, gateways and workloads, the wait for
northd and the table of status.yml are not part of it. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.pipeline import THREE_NODES

from . import ROOT, load
from .clock import Clock
from .servers import NORTHBOUND, OPEN_VSWITCH, SOUTHBOUND, STATE, served

SOCKETS = {
    STATE: "/run/heddle-state/heddle.sock",
    NORTHBOUND: "/run/ovn/ovnnb_db.sock",
    SOUTHBOUND: "/run/ovn/ovnsb_db.sock",
    OPEN_VSWITCH: "/run/openvswitch/db.sock",
}

_CHASSIS = THREE_NODES[load.NODE]["chassis"]
# A /run of its own, and an /etc with links to everything in the machine's but the directory of Open vSwitch, in which
# the modules keep the host's system-id. The machine has none, or one that is not the bench's.
_PRIVATE = (
    "mount -t tmpfs none /run",
    "mkdir /run/etc",
    "mount --rbind /etc /run/etc",
    "mount -t tmpfs none /etc",
    "ln -s /run/etc/* /etc/",
    "rm -f /etc/openvswitch",
    "mkdir /etc/openvswitch",
    f"echo {_CHASSIS} >/etc/openvswitch/system-id.conf",
)
_EMPTY = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": []}]
_NOTHING = {"name": "Do nothing", "ansible.builtin.meta": "noop"}


def tasks(manifests: Path, kept: Path, nodes: dict[str, dict]) -> list[dict]:
    """Return the tasks, as playbooks/networks.yml has them."""
    intent = {
        "resources": "{{ validated.document }}",
        "nodes": nodes,
        "manifest_set": "bench",
        "deployment": "bench",
    }
    return [
        {
            "name": "Validate",
            "heddle.ovn.manifest": {
                "files": f"{{{{ query('heddle.ovn.manifest', '{manifests}') }}}}",
                "nodes": list(nodes),
            },
            "register": "validated",
        },
        {"name": "Admit, and make the plan", "heddle.ovn.resource": intent, "register": "admitted"},
        {
            "name": "Bring the host to the plan",
            "heddle.ovn.zone": {
                "node": load.NODE,
                "document": f"{{{{ admitted.host_plans['{load.NODE}'] | default(admitted.plan) }}}}",
                "plan": str(kept),
                "wait_timeout": 0,
                "parts": ["topology"],
            },
        },
    ]


def play(folder: Path, name: str, steps: list[dict], remotes: dict[str, str]) -> str:
    """Run a playbook where the databases have the sockets of a host; return what it printed."""
    path = folder / f"{name}.yml"
    path.write_text(yaml.safe_dump([{**_EMPTY[0], "tasks": steps or [_NOTHING]}]), encoding="utf-8")
    links = [
        f"mkdir -p {Path(socket).parent} && ln -sf {shlex.quote(remote.removeprefix('unix:'))} {socket}"
        for socket, remote in remotes.items()
    ]
    ansible = shlex.join([str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", str(path)])
    script = " && ".join([*_PRIVATE, *links, f"exec {ansible}"])
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
    }
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(load.WITHOUT_GATEWAYS, action="store_true")
    options = parser.parse_args()
    clock = Clock()
    with served(*SOCKETS) as servers, tempfile.TemporaryDirectory(prefix="heddle-") as name:
        folder = Path(name)
        manifests = folder / "manifests"
        manifests.mkdir()
        (manifests / "networks.yml").write_text(load.manifests(options.count), encoding="utf-8")
        steps = tasks(manifests, folder / "plan.json", load.nodes(gateways=not options.without_gateways))
        remotes = dict(zip(SOCKETS.values(), (server.remote for server in servers), strict=True))
        started = {"external_ids": ["map", [["system-id", _CHASSIS]]]}
        servers[-1].transact({"op": "insert", "table": "Open_vSwitch", "row": started})
        clock.measure("create", play, folder, "networks", steps, remotes)
        for _round in range(options.rounds):
            clock.measure("empty playbook", play, folder, "empty", [], remotes)
            printed = clock.measure("no change", play, folder, "networks", steps, remotes)
        assert "changed=0" in printed, printed
    print(json.dumps({"seconds": clock.best()}))


if __name__ == "__main__":
    main()
