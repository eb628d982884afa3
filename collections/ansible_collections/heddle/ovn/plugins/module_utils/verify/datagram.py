# SPDX-License-Identifier: Apache-2.0
"""What probers and responders say to each other: one JSON object per UDP datagram.

A question names its asker, an answer names its giver, because where networks have equal subnets an address says
nothing about who has it. A responder is silent to everything but a well-formed question.
"""

from __future__ import annotations

import json

PORT = 7654
SIZE = 65536
# What whoever was not asked says in an answer's place of a workload.
UNSOLICITED = "a unsolicited"
_QUESTION, _ANSWER = {"ask", "source"}, {"answer", "workload", "network", "asker"}


def question(token: str, source: str, size: int = 0) -> bytes:
    """Return a question; the answer to it carries the token. Blanks make it `size` bytes long."""
    return json.dumps({"ask": token, "source": source}).encode().ljust(size)


def answer(token: str, workload: str, network: str, asker: str = "") -> bytes:
    """Return the answer to a question; `asker` is the address that it came from."""
    return json.dumps({"answer": token, "workload": workload, "network": network, "asker": asker}).encode()


def read_question(data: bytes) -> dict | None:
    """Return `ask` and `source` of a question; None when it is none."""
    return _read(data, _QUESTION)


def read_answer(data: bytes) -> dict | None:
    """Return `answer`, `workload`, `network` and `asker` of an answer; None when it is none."""
    return _read(data, _ANSWER)


def _read(data: bytes, keys: set[str]) -> dict | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and value.keys() == keys and all(isinstance(item, str) for item in value.values()):
        return value
    return None
