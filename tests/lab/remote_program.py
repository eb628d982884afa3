# SPDX-License-Identifier: Apache-2.0
"""A Python program of the tests that runs on a host of the lab: lines of JSON out, lines in."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from contextlib import suppress

from tests.lab.conftest import PATIENCE, ROOT


class RemoteProgram:
    """A file of tests/lab with its words in WORDS, on a host or in one of its network namespaces."""

    def __init__(self, lab, host: str, file: str, *words, namespace: str = "") -> None:
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        text = base64.b64encode((ROOT / "tests" / "lab" / file).read_bytes()).decode()
        program = f"import base64; exec(base64.b64decode('{text}'))"
        command = ["env", f"WORDS={json.dumps(words)}", *inside, "python3", "-c", program]
        self.process = subprocess.Popen(
            ["ssh", "-F", str(lab.directory / "ssh_config"), host, shlex.join(command)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self):
        """The next line of output as JSON; its end is an error with the program's output."""
        text = self.process.stdout.readline()
        assert text, self.process.stderr.read()
        return json.loads(text)

    def go_on(self, *words) -> None:
        """Write a line of input: words as a JSON list, or an empty one."""
        self.process.stdin.write(f"{json.dumps(words) if words else ''}\n")
        self.process.stdin.flush()

    def end(self) -> list:
        """Return what was left to read."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        lines = [json.loads(line) for line in self.process.stdout]
        self.process.wait(PATIENCE)
        return lines
