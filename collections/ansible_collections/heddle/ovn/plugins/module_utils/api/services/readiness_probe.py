# SPDX-License-Identifier: Apache-2.0
"""Readiness probes of workloads: the fields, limits and defaults of `readinessProbe` of a container (core/v1)."""

from __future__ import annotations

import re

from ..node import Fields, Node
from ..problem import show
from .ports import read_port_number_or_name

_HANDLERS = ("exec", "httpGet", "tcpSocket")
# Field: least, most, default. Kubernetes has no upper limits; an hour is long enough for each.
_NUMBERS = {
    "initialDelaySeconds": (0, 3600, 0),
    "timeoutSeconds": (1, 3600, 1),
    "periodSeconds": (1, 3600, 10),
    "successThreshold": (1, 1000, 1),
    "failureThreshold": (1, 1000, 3),
}
_SCHEMES = ("HTTP", "HTTPS")
# RFC 9110, section 5.6.2 (token) and 5.5: what may not be in a field value, and in a target (RFC 9112, section 3.2).
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FORBIDDEN_VALUE, _FORBIDDEN_TARGET = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]"), re.compile(r"[\x00-\x20\x7f-\U0010ffff]")
_MOST_WORDS, _MOST_HEADERS = 256, 64


def read_readiness_probe(node: Node, ports: list[dict]) -> dict | None:
    """The field ``readiness``: numbers by their name in the manifest, and one of ``exec``, ``httpGet``, ``tcpSocket``.

    A port is a number; of a name among `ports`, the workload's own, its number is taken.
    """
    fields = node.mapping((*_HANDLERS, *_NUMBERS))
    if not isinstance(node.value, dict):
        return None
    given = [name for name in _HANDLERS if fields.get(name)]
    if not given:
        node.refuse("Required value: must specify a handler type", f"add one of {', '.join(_HANDLERS)}")
    for name in given[1:]:
        fields.place(name).refuse("Forbidden: may not specify more than 1 handler type", f"keep {given[0]} only")
    probe = {}
    for name, (least, most, default) in _NUMBERS.items():
        field = fields.get(name)
        probe[name] = field.integer(least, most) if field else default
    # With too many handlers the manifest is refused anyway, with the mistakes of all of them.
    return {**probe, **{name: _READERS[name](fields.get(name), ports) for name in given}}


def _read_exec(node: Node, _ports: list[dict]) -> dict:
    command = node.mapping(("command",)).require("command", "list the program and its arguments")
    words = command.sequence(1, _MOST_WORDS) if command else []
    return {"command": [word for item in words if (word := item.text()) is not None]}


def _read_tcp(node: Node, ports: list[dict]) -> dict:
    return {"port": _read_port(node.mapping(("port",)), ports)}


def _read_http(node: Node, ports: list[dict]) -> dict:
    fields = node.mapping(("path", "port", "scheme", "httpHeaders"))
    path, scheme, headers = fields.get("path"), fields.get("scheme"), fields.get("httpHeaders")
    return {
        "port": _read_port(fields, ports),
        "path": _read_target(path) if path else "/",
        "scheme": scheme.choice(_SCHEMES) if scheme else _SCHEMES[0],
        "httpHeaders": [_read_header(item) for item in headers.sequence(most=_MOST_HEADERS)] if headers else [],
    }


def _read_target(node: Node) -> str | None:
    text = node.text()
    if text and _FORBIDDEN_TARGET.search(text):
        node.refuse(f"Invalid value: {show(text)}: has a character that no path may have", "write it percent-encoded")
    return text if not text or text.startswith("/") else f"/{text}"


def _read_header(node: Node) -> dict:
    fields = node.mapping(("name", "value"))
    name, value = fields.require("name", "name the header"), fields.require("value", "add its value")
    header = {"name": name.text() if name else None, "value": value.text() if value else None}
    if name and header["name"] is not None and not _TOKEN.fullmatch(header["name"]):
        name.refuse(f"Invalid value: {show(header['name'])}: a valid HTTP header must consist of alphanumeric "
                    "characters or '-'", "write it as in X-Header-Name")  # fmt: skip
    if value and header["value"] and _FORBIDDEN_VALUE.search(header["value"]):
        value.refuse(f"Invalid value: {show(header['value'])}: has a control character", "remove it")
    return header


def _read_port(fields: Fields, ports: list[dict]) -> int | None:
    field = fields.require("port", "name the port that the workload listens on")
    port = read_port_number_or_name(field) if field else None
    if not isinstance(port, str):
        return port
    named = {one["name"]: one["containerPort"] for one in ports if one["name"] and one["protocol"] == "TCP"}
    if port not in named:
        field.refuse(f"Invalid value: {show(port)}: no TCP port of spec.ports has this name",
                     f"use a number, or one of {', '.join(sorted(named))}" if named else "use a number")  # fmt: skip
    return named.get(port)


_READERS = {"exec": _read_exec, "httpGet": _read_http, "tcpSocket": _read_tcp}
