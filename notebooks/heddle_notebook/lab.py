# SPDX-License-Identifier: Apache-2.0
"""The embedded lab from a notebook: the verbs of `python -m lab`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pandas

from .collection import REPOSITORY
from .problem import HeddleError

ABSENT = "there is no lab; call Lab().up(), or run make lab"


class Lab:
    """The lab whose directory, prefixes and driver the environment names (LAB_DIR, LAB_NETWORK_PREFIX, DRIVER)."""

    def __init__(self, driver: str = "", **environment: str) -> None:
        self.driver = driver
        self.environment = environment
        if not (REPOSITORY / "lab" / "__main__.py").is_file():
            raise HeddleError("the lab is part of Heddle's repository; clone it, and run the notebook from there")

    def _verb(self, *words: str, quiet: bool = False) -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "lab", *words], cwd=REPOSITORY, env={**os.environ, **self.environment}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                if not quiet:
                    print(line, end="", flush=True)
            process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise HeddleError(f"lab {words[0]} was interrupted; call it again, or down()") from None
        # The status of a lab that does not run is 3.
        if process.returncode not in (0, 3):
            reason = said[-1].strip().removeprefix("error: ") if said else "it printed nothing"
            raise HeddleError(f"lab {words[0]} failed: {reason}")
        return "".join(said)

    def up(self) -> None:
        """Bring all hosts up; what is up stays as it is."""
        self._verb("up", *(("--driver", self.driver) if self.driver else ()))

    def down(self) -> None:
        """Remove every trace."""
        self._verb("down")

    def status(self) -> dict:
        """Return what runs."""
        return json.loads(self._verb("status", "--json", quiet=True))

    @property
    def hosts(self) -> pandas.DataFrame:
        """Return a row for each host."""
        rows = [
            [one["name"], one["running"], *(" ".join(one.get(name, ())) for name in ("underlay", "provider"))]
            for one in self.status()["hosts"]
        ]
        return pandas.DataFrame(rows, columns=["name", "running", "underlay", "provider"])

    def require(self) -> None:
        """Raise HeddleError unless all hosts run."""
        found = self.status()
        if not found["hosts"]:
            raise HeddleError(ABSENT)
        stopped = [host["name"] for host in found["hosts"] if not host["running"]]
        if stopped:
            raise HeddleError(f"{', '.join(stopped)} of the lab not running; call Lab().up()")

    def kill(self, host: str) -> None:
        """Cut a host's power."""
        self._verb("kill", host)

    def start(self, host: str) -> None:
        """Start a host that was killed."""
        self._verb("start", host)

    def reboot(self, host: str) -> None:
        """Reboot a host and wait until it is back."""
        self._verb("reboot", host)

    def partition(self, host: str, cut: bool = True) -> None:
        """Cut a host off from underlay and provider network, or join it again."""
        self._verb("partition", host, "on" if cut else "off")

    def save(self, name: str) -> None:
        """Save the disks of all hosts."""
        self._verb("save", name)

    def load(self, name: str) -> None:
        """Restore the hosts from a checkpoint."""
        self._verb("load", name)

    def _repr_html_(self) -> str:
        found = self.hosts
        return "<p><b>Lab</b></p>" + (found.to_html(index=False) if len(found) else f"<p>{ABSENT}</p>")
