# SPDX-License-Identifier: Apache-2.0
"""Seconds of networks.yml for many networks without workloads: with all of them on every node, and on those in use.

Runs on a lab that is up and converged; the lab has its own networks again afterwards.

    python -m tests.bench.dynamic_networks --networks 200
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from tests.bench.announcements import network
from tests.lab.conftest import MANIFESTS, ROOT, Lab

OWN_SET = ("-e", "heddle_manifest_set=dynamic")
SETTINGS = yaml.safe_load((MANIFESTS.parent / "group_vars" / "all.yml").read_text())["heddle_settings"]
STEPS = ("{networks} networks added", "no change", "one more network", "all removed")


def measure(lab: Lab, networks: int, *, dynamic: bool) -> list[float]:
    """Return the seconds of each of STEPS."""
    settings = {**SETTINGS, "dynamic_networks": dynamic, "dynamic_networks_grace_period": 0}
    arguments = (*OWN_SET, "-e", json.dumps({"heddle_settings": settings}))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        manifests = Path(folder)

        def play(text: str) -> None:
            (manifests / "networks.yml").write_text(text)
            began = time.monotonic()
            lab.play("networks.yml", *arguments, manifests=manifests)
            found.append(time.monotonic() - began)

        many = "".join(map(network, range(networks)))
        # The setting itself changes hosts, which is not what is measured.
        play("---\n")
        found.clear()
        for text in (many, many, many + network(networks), "---\n"):
            play(text)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=200)
    networks = parser.parse_args().networks
    lab = Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab"))
    everywhere, in_use = (measure(lab, networks, dynamic=dynamic) for dynamic in (False, True))
    lab.play("networks.yml")
    rows = [
        [step.format(networks=networks), f"{before:.1f}", f"{after:.1f}", f"{before / after:.1f}x"]
        for step, before, after in zip(STEPS, everywhere, in_use, strict=True)
    ]
    print("\n".join(table("networks.yml", ["step", "s, on all nodes", "s, where used", "ratio"], rows)))


if __name__ == "__main__":
    main()
