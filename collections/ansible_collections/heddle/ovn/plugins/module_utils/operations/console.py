# SPDX-License-Identifier: Apache-2.0
"""Access to a virtual machine from within: its serial console is a shell behind a socket that only root may open."""

from __future__ import annotations

import codecs
import re
import secrets
import socket
import time

from ..agent.module_runner import UserError
from ..qemu import instance
from .migration import vm_name

INFO_ARGUMENTS = {
    "workload": {"type": "str", "required": True},
    "command": {"type": "str"},
    "guest": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 30},
}
_PATIENCE, _PAUSE = 1.0, 0.05
# Characters; the line with the mark is shorter.
_LONGEST_MARK = 64
_QUESTIONS = {
    "addresses": "ip -o address",
    "routes": "ip -4 route; ip -6 route",
    "neighbours": "ip neigh",
}


def look_at(params: dict, *, write: bool) -> dict:
    """Return the state of a VM on this host from QEMU, and from the guest when it runs here.

    With `command` the guest runs that, which may change it, so only with `write`; `stdout` and `rc` are its result.
    Without `guest` it is not queried.
    """
    if params["command"] and not write:
        return {"changed": False, "skipped": True, "msg": "a command is not run in check mode"}
    name = vm_name(params["workload"])
    status = instance.status(name)
    found = {"changed": False, "status": status, "guest": {}}
    if status != "running":
        if params["command"]:
            raise UserError(f"{params['workload']} does not run on this host; it is {status} here")
        return found
    if params["command"]:
        code, text = ask(name, params["command"], params["timeout"])
        return {**found, "rc": code, "stdout": text}
    for topic, command in _QUESTIONS.items() if params["guest"] else ():
        found["guest"][topic] = ask(name, command, params["timeout"])[1].splitlines()
    return found


def ask(name: str, command: str, timeout: float) -> tuple[int, str]:
    """Run a command in the guest; return its exit status and output. UserError when it does not answer in time."""
    deadline = time.monotonic() + timeout
    answer = None
    # A guest that is still booting ignores input. A harmless command is repeated until it answers.
    while answer is None and time.monotonic() < deadline:
        answer = _exchange(name, "true", min(deadline, time.monotonic() + _PATIENCE))
    answer = answer and _exchange(name, command, deadline)
    if answer is None:
        raise UserError(f"{name}: the guest does not answer; see {instance.socket_of(name, 'console')}")
    return answer


def _exchange(name: str, command: str, deadline: float) -> tuple[int, str] | None:
    """Send one command and read up to the mark that follows its output; None when that does not arrive in time."""
    mark = secrets.token_hex(8)
    end = re.compile(rf"\n{mark} (\d+)\r?\n")
    # A read may end within a character, and within the end of a line.
    text, decoder = "", codecs.getincrementaldecoder("utf-8")("replace")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as console:
        console.settimeout(_PAUSE)
        try:
            console.connect(instance.socket_of(name, "guest"))
            # A line of its own first: it ends input that another client left unfinished.
            console.sendall(f"\n{{ {command}\n}} 2>&1 </dev/null; heddle=$?; echo; echo {mark} $heddle\n".encode())
        except OSError:
            time.sleep(_PAUSE)
            return None
        while time.monotonic() < deadline:
            try:
                data = console.recv(1 << 16)
            except TimeoutError:
                continue
            if not data:
                return None
            searched = max(0, len(text) - _LONGEST_MARK)
            text += decoder.decode(data)
            found = end.search(text, searched)
            if found:
                output = text[: found.start() + 1].replace("\r\n", "\n")
                return int(found[1]), output.removesuffix("\n").removesuffix("\n")
    return None
