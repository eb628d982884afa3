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


def canonical(value) -> str:
    """Return JSON that is equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value) -> str:
    """Return a short fingerprint of a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def pack(value) -> str:
    """Return the value as compressed JSON in base64."""
    return base64.b64encode(zlib.compress(canonical(value).encode(), 6)).decode()


def unpack(text: str):
    """Return the value of a packed text; ValueError when the text is not one."""
    try:
        return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"not a packed document: {error}") from error
