# SPDX-License-Identifier: Apache-2.0
"""Wire format of the test packets: one JSON object per UDP datagram.

A question names its sender and an answer names its responder: where networks have equal subnets, an address does not
identify who has it. A responder ignores everything but a well-formed question.
"""

from __future__ import annotations

import json

PORT = 7654
SIZE = 65536
# The workload named in answers from a socket that was not asked.
UNSOLICITED = "(unsolicited)"
_QUESTION, _ANSWER = {"ask", "source"}, {"answer", "workload", "network", "asker"}


def question(token: str, source: str, size: int = 0) -> bytes:
    """Return a question; the answer to it carries the token. It is padded with blanks to `size` bytes."""
    return json.dumps({"ask": token, "source": source}).encode().ljust(size)


def answer(token: str, workload: str, network: str, asker: str = "") -> bytes:
    """Return the answer to a question; `asker` is the address that it came from."""
    return json.dumps({"answer": token, "workload": workload, "network": network, "asker": asker}).encode()


def read_question(data: bytes) -> dict | None:
    """Return `ask` and `source` of a question; None for any other data."""
    return _read(data, _QUESTION)


def read_answer(data: bytes) -> dict | None:
    """Return `answer`, `workload`, `network` and `asker` of an answer; None for any other data."""
    return _read(data, _ANSWER)


def _read(data: bytes, keys: set[str]) -> dict | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and value.keys() == keys and all(isinstance(item, str) for item in value.values()):
        return value
    return None
