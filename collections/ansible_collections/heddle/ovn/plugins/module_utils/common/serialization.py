# SPDX-License-Identifier: Apache-2.0
"""Packs large values into one compressed, base64-encoded string.

Ansible walks through every list and mapping that it passes to a module, which takes minutes for thousands of
networks. A packed document is one short text that it passes unchanged.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterator

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
# Levels of mappings that are encoded one by one: a plan's parts and their entries.
_LEVELS = 2


def canonical(value) -> str:
    """Return JSON that is equal for equal values."""
    return _ENCODER.encode(value)


def digest(value) -> str:
    """Return a short fingerprint of a value: of its canonical JSON, which is never in memory as a whole."""
    found = hashlib.sha256()
    for piece in _pieces(value, _LEVELS):
        found.update(piece.encode())
    return found.hexdigest()[:16]


def _pieces(value, levels: int) -> Iterator[str]:
    if not levels or not value or not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        yield canonical(value)
        return
    start = "{"
    for name in sorted(value):
        yield f"{start}{canonical(name)}:"
        yield from _pieces(value[name], levels - 1)
        start = ","
    yield "}"


def pack(value) -> str:
    """Return the value as compressed JSON in base64."""
    return base64.b64encode(zlib.compress(canonical(value).encode(), 6)).decode()


def unpack(text: str):
    """Return the value of a packed text; ValueError when the text is not one."""
    try:
        return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"not a packed document: {error}") from error
