# SPDX-License-Identifier: Apache-2.0
"""An Ethernet switch for virtual machines, in one process without any privilege.

Each network interface of a machine is a pair of unix datagram sockets, one frame per datagram. The switch learns
which addresses are behind which port; frames to unknown, broadcast and multicast addresses go to all other ports of
the segment. A host can be cut off and connected again, and frames can be lost.
"""

import argparse
import collections
import contextlib
import pathlib
import random
import selectors
import socket
import sys

from lab.errors import LabError

FRAME = 65536
# Frames kept for a port whose machine reads slower than the others send.
BACKLOG = 512
# How many addresses a segment may learn; a flood of made-up ones must not fill the memory.
ADDRESSES = 16384
# How long a busy switch may take to execute a command.
ORDER_SECONDS = 30
ORDER_BYTES = 4096
DONE = "done"


class Segment:
    """The forwarding decisions of one segment, without sockets."""

    def __init__(self, ports=()):
        self.ports = list(ports)
        self.cut = set()
        self.learned = {}
        # Percent of all frames that are lost, and bytes by pair of ports: longer frames between the two are.
        self.loss = 0
        self.longest = {}

    def forward(self, port, frame):
        """The ports that a frame from `port` leaves through."""
        if len(frame) < 14 or port in self.cut or (self.loss and random.random() * 100 < self.loss):
            return []
        destination, source = bytes(frame[:6]), bytes(frame[6:12])
        if not source[0] & 1 and (source in self.learned or len(self.learned) < ADDRESSES):
            self.learned[source] = port
        known = None if destination[0] & 1 else self.learned.get(destination)
        if known is not None:
            fits = len(frame) - 14 <= self.longest.get(frozenset((port, known)), FRAME)
            return [known] if known != port and known not in self.cut and fits else []
        return [other for other in self.ports if other != port and other not in self.cut]

    def obey(self, *words):
        """Execute a command: cut PORT, join PORT, loss PERCENT, longest PORT PORT BYTES; ValueError for another one."""
        match words:
            case "loss", percent:
                self.loss = float(percent)
            case "longest", one, other, size:
                self.longest = {frozenset((one, other)): int(size)}
            case "cut" | "join" as command, port if port in self.ports:
                self.set_cut(port, command == "cut")
            case _:
                raise ValueError(f"no command is {' '.join(words)!r}")

    def set_cut(self, port, cut):
        """Disconnect a port or connect it again; what was learned about it is forgotten."""
        (self.cut.add if cut else self.cut.discard)(port)
        self.learned = {address: where for address, where in self.learned.items() if where != port}


class Port:
    """One machine's end: the switch receives at `<path>.switch` and sends to `<path>.machine`."""

    def __init__(self, path):
        self.peer = f"{path}.machine"
        self.socket = bind(f"{path}.switch")
        self.backlog = collections.deque(maxlen=BACKLOG)

    def send(self, frame):
        if self.backlog or not self._try(frame):
            self.backlog.append(frame)

    def flush(self):
        while self.backlog and self._try(self.backlog[0]):
            self.backlog.popleft()

    def _try(self, frame):
        """False when the machine is slow; a machine that is off loses its frames, as on a real network."""
        try:
            self.socket.sendto(frame, self.peer)
        except BlockingIOError:
            return False
        except OSError:
            self.backlog.clear()
        return True


def bind(path):
    pathlib.Path(path).unlink(missing_ok=True)
    end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    end.setblocking(False)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    end.bind(path)
    return end


def execute(switches, message):
    """Execute a command on all segments; returns DONE, or what is wrong with it: frames are forwarded either way."""
    try:
        for switch in switches:
            switch.obey(*message.decode().split())
    except ValueError as error:
        return str(error)
    return DONE


def serve(directory, hosts, segments):
    """Switch frames until a signal ends the process."""
    selector = selectors.DefaultSelector()
    switches = {segment: Segment(hosts) for segment in segments}
    ports = {(segment, host): Port(f"{directory}/{host}.{segment}") for segment in segments for host in hosts}
    control = bind(f"{directory}/switch.control")
    for (segment, host), port in ports.items():
        selector.register(port.socket, selectors.EVENT_READ, (segment, host, port))
    selector.register(control, selectors.EVENT_READ, None)
    print("ready", flush=True)
    slow = set()
    while True:
        for key, _ in selector.select(0.002 if slow else None):
            if key.data is None:
                message, sender = control.recvfrom(ORDER_BYTES)
                with contextlib.suppress(OSError):  # the process that asked may have ended
                    control.sendto(execute(switches.values(), message).encode(), sender)
                continue
            segment, host, port = key.data
            # A bounded burst, so that one busy sender does not starve the others.
            for _ in range(64):
                try:
                    frame = port.socket.recv(FRAME)
                except BlockingIOError:
                    break
                for other in switches[segment].forward(host, frame):
                    target = ports[segment, other]
                    target.send(frame)
                    if target.backlog:
                        slow.add(target)
        for target in list(slow):
            target.flush()
            if not target.backlog:
                slow.discard(target)


def order(directory, *words):
    """Send a running switch a command (`Segment.obey`); when this returns, it applies to the next frame.

    LabError: the switch refuses the command, or it does not run.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.bind("")  # any free abstract address, unix(7): where the answer goes
            end.settimeout(ORDER_SECONDS)
            end.sendto(" ".join(words).encode(), f"{directory}/switch.control")
            answer = end.recv(ORDER_BYTES).decode()
    except OSError as error:
        raise LabError(f"the switch of this lab does not answer: {error}", "run: python -m lab up") from error
    if answer != DONE:
        raise LabError(f"the lab's switch refuses a command: {answer}", "run: python -m lab --help")


def main():
    parser = argparse.ArgumentParser(prog="lab.switch", description="Ethernet switch for the lab's virtual machines")
    parser.add_argument("--directory", required=True, help="where the sockets are")
    parser.add_argument("--host", action="append", required=True)
    parser.add_argument("--segment", action="append", required=True)
    arguments = parser.parse_args()
    serve(arguments.directory, arguments.host, arguments.segment)


if __name__ == "__main__":
    sys.exit(main())
