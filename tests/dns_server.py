# SPDX-License-Identifier: Apache-2.0
"""A DNS server for tests: answers over UDP from a table that tests change. Also a program, for hosts of the lab.

As a program its arguments are an address and a JSON file with the table, read for each question.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rrset


def answer(records: dict[str, list], question: bytes) -> bytes | None:
    """The answer to a question, None for none. `records` has by name lists of (type, TTL, value).

    A name that is missing does not exist; one with the value None is answered by SERVFAIL, `silent` by nothing.
    """
    asked = dns.message.from_wire(question)
    response = dns.message.make_response(asked)
    response.flags |= dns.flags.RA
    (wanted,) = asked.question
    name = wanted.name.to_text(omit_final_dot=True)
    for _alias in range(8):
        found = records.get(name, ())
        if found == "silent":
            return None
        if found is None:
            response.set_rcode(dns.rcode.SERVFAIL)
            return response.to_wire()
        if name not in records:
            response.set_rcode(dns.rcode.NXDOMAIN)
        for kind, ttl, value in found:
            if kind in (dns.rdatatype.to_text(wanted.rdtype), "CNAME"):
                response.answer.append(dns.rrset.from_text(f"{name}.", ttl, "IN", kind, value))
        aliases = [value.rstrip(".") for kind, _ttl, value in found if kind == "CNAME"]
        if not aliases:
            break
        name = aliases[0]
    return response.to_wire()


class Server:
    """Serves `records` on an address until it is closed."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self.records: dict[str, list] = {}
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, port))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                question, sender = self._socket.recvfrom(4096)
            except OSError:
                return
            if not question:
                return
            found = answer(self.records, question)
            if found is not None:
                self._socket.sendto(found, sender)

    def close(self) -> None:
        """End it."""
        with socket.socket(self._socket.family, socket.SOCK_DGRAM) as one:
            one.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


def main(address: str, table: str) -> None:
    """Serve the table in a file, for ever."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((address, 53))
        while True:
            question, sender = opened.recvfrom(4096)
            found = answer(json.loads(Path(table).read_text()), question)
            if found is not None:
                opened.sendto(found, sender)


if __name__ == "__main__":
    main(*sys.argv[1:])
