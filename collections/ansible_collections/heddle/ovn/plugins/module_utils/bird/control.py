# SPDX-License-Identifier: Apache-2.0
"""The control socket of BIRD 2, which birdc(8) uses: lines with a code of four digits, a space after the last one's.

Codes from 8000 on are errors (BIRD 2 Programmer's Documentation, "Command line interface").
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from ..common.errors import EngineError

SOCKET = "/run/bird/bird.ctl"
TIMEOUT = 60.0
_LINE = re.compile(r"(\d{4})([ -])(.*)")
_FIRST_ERROR = 8000


class BirdError(EngineError):
    """BIRD does not accept a command or a configuration."""


class NotRunning(BirdError):
    """BIRD does not answer on its control socket."""


@dataclass(frozen=True)
class Session:
    """A protocol of BIRD: its name, and its state as `show protocols` prints it (`Established`, `Active`, ...)."""

    name: str
    kind: str
    state: str
    information: str


@dataclass
class Neighbour:
    """A protocol that routes are learned from and advertised to: BGP with one neighbour, or OSPF with all on its links.

    `information` is BIRD's, such as `Established`, `Running` or the last error.
    """

    name: str
    kind: str
    information: str
    title: str = ""
    address: str = ""
    as_number: int = 0
    learned: int = 0
    advertised: int = 0


_ROUTING = ("BGP", "OSPF")
_ROUTES = re.compile(r"Routes:\s+(\d+) imported,.*?(\d+) exported")


class Control:
    """A connection to BIRD; usable as a context manager. NotRunning when there is no BIRD."""

    def __init__(self, path: str = SOCKET) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT)
        try:
            self._socket.connect(path)
            self._file = self._socket.makefile("r", encoding="utf-8", errors="replace")
            self._answer()
        except OSError as error:
            self._socket.close()
            raise NotRunning(f"BIRD does not answer on {path}: {error}; see systemctl status bird") from error

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_exception) -> None:
        self._file.close()
        self._socket.close()

    def command(self, text: str) -> list[str]:
        """Return the lines of the answer to a command; BirdError with its text when it is an error."""
        try:
            self._socket.sendall(text.encode() + b"\n")
            return self._answer()
        except OSError as error:
            raise NotRunning(f"BIRD ended while it was asked {text!r}: {error}") from error

    def _answer(self) -> list[str]:
        lines, failed = [], False
        for line in self._file:
            found = _LINE.match(line.rstrip("\n"))
            if not found:
                # A line of the same code as the one before, or one that was not asked for.
                if line.startswith(" "):
                    lines.append(line.rstrip("\n")[1:])
                continue
            code, more, text = found.groups()
            failed = failed or int(code) >= _FIRST_ERROR
            lines.append(text)
            if more == " ":
                if failed:
                    raise BirdError("; ".join(line for line in lines if line))
                return lines
        raise OSError("the connection was closed")

    def sessions(self, pattern: str) -> list[Session]:
        """Return the protocols whose names match a pattern such as `heddle*`; none when there are none."""
        try:
            lines = self.command(f'show protocols "{pattern}"')
        except NotRunning:
            raise
        except BirdError:
            return []
        found = []
        for line in lines:
            # Name, kind, table, state, since (one word or two), information.
            words = line.split()
            if len(words) >= 5 and words[0] != "Name":
                rest = words[5:] if re.fullmatch(r"[0-9:.]+", words[4]) and ":" in words[4] else words[6:]
                found.append(Session(words[0], words[1], words[3], " ".join(rest)))
        return found

    def neighbours(self, pattern: str) -> list[Neighbour]:
        """Return the routing protocols whose names match a pattern, with the number of routes."""
        found: dict[str, Neighbour] = {
            one.name: Neighbour(one.name, one.kind, one.information or one.state)
            for one in self.sessions(pattern)
            if one.kind in _ROUTING
        }
        current = None
        for line in self.command(f'show protocols all "{pattern}"') if found else ():
            text = line.strip()
            if text and not line.startswith(" "):
                current = found.get(text.split()[0])
            key, _colon, value = text.partition(":")
            if current is None:
                continue
            if key == "Description":
                current.title = value.strip()
            elif key == "Neighbor address":
                current.address = value.strip()
            elif key == "Neighbor AS":
                current.as_number = int(value)
            elif routes := _ROUTES.match(text):
                current.learned, current.advertised = map(int, routes.groups())
        return list(found.values())

    def descriptions(self, pattern: str) -> list[str]:
        """Return the descriptions of the protocols whose names match a pattern."""
        try:
            lines = self.command(f'show protocols all "{pattern}"')
        except NotRunning:
            raise
        except BirdError:
            return []
        marker = "Description:"
        return [line.partition(marker)[2].strip() for line in lines if line.strip().startswith(marker)]
