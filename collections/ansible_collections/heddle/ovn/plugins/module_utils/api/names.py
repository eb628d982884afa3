# SPDX-License-Identifier: Apache-2.0
"""Names, labels and annotations with the syntax of Kubernetes (RFC 1123 names, label syntax)."""

from __future__ import annotations

import re

from .node import Node
from .problem import show

LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
LARGEST_ANNOTATIONS = 256 * 1024

LONGEST_PORT_NAME = 15
ONLY_NAME = "default"

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PORT_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def is_dns_label(text: str) -> bool:
    """An RFC 1123 label: lower case letters, digits and '-', at most 63."""
    return len(text) <= LONGEST_LABEL and bool(_DNS_LABEL.fullmatch(text))


def is_dns_subdomain(text: str) -> bool:
    """RFC 1123 labels joined by dots, at most 253 characters; as in Kubernetes each part may be longer than 63."""
    return len(text) <= LONGEST_SUBDOMAIN and all(_DNS_LABEL.fullmatch(part) for part in text.split("."))


def read_dns_label(node: Node) -> str | None:
    """A field that holds an RFC 1123 label."""
    text = node.text()
    if text is None or is_dns_label(text):
        return text
    node.refuse(
        f"{show(text)} is not a DNS-1123 label",
        f"use lower case letters, digits and '-', at most {LONGEST_LABEL}, starting and ending with a letter or digit",
    )
    return None


def read_dns_subdomain(node: Node) -> str | None:
    """A field that holds an RFC 1123 subdomain."""
    text = node.text()
    if text is None or is_dns_subdomain(text):
        return text
    node.refuse(
        f"{show(text)} is not a DNS-1123 subdomain",
        f"use lower case letters, digits, '-' and '.', at most {LONGEST_SUBDOMAIN}, "
        "each part starting and ending with a letter or digit",
    )
    return None


def read_dns_1035_label(node: Node) -> str | None:
    """A field that holds an RFC 1035 label, as the name of a Service: it starts with a letter."""
    text = node.text()
    if text is None or (len(text) <= LONGEST_LABEL and _DNS_1035_LABEL.fullmatch(text)):
        return text
    node.refuse(
        f"{show(text)} is not a DNS-1035 label",
        f"use lower case letters, digits and '-', at most {LONGEST_LABEL}, starting with a letter and ending with a "
        "letter or digit",
    )
    return None


def read_default_name(node: Node) -> str | None:
    """The name of an object of which a namespace has at most one (k8s.ovn.org/v1, `metadata.name`)."""
    text = node.text()
    if text in (None, ONLY_NAME):
        return text
    rule = f"Invalid value: {show(text)}: metadata.name in body should match '^{ONLY_NAME}$'"
    node.refuse(rule, f"a namespace has one object of this kind at most; name it {ONLY_NAME}")
    return None


def port_name_mistake(text: str) -> str:
    """What is wrong with the name of a port (RFC 6335, section 5.1), in the words of Kubernetes; "" for nothing."""
    if len(text) > LONGEST_PORT_NAME:
        return f"must be no more than {LONGEST_PORT_NAME} characters"
    if not any("a" <= letter <= "z" for letter in text):
        return "must contain at least one letter (a-z)"
    if not _PORT_NAME.fullmatch(text):
        return "must contain only lower case letters, digits and single hyphens, and not begin or end with a hyphen"
    return ""


def read_qualified_name(node: Node) -> str | None:
    """A field that holds a qualified name: ``name`` or ``prefix/name``."""
    text = node.text()
    mistake = "" if text is None else _qualified_name_mistake(text)
    if mistake:
        node.refuse(f"Invalid value: {show(text)}: {mistake}")
        return None
    return text


def _qualified_name_mistake(text: str) -> str:
    """What is wrong with a qualified name, in the words of Kubernetes (`IsQualifiedName`); "" for nothing."""
    if is_label_key(text):
        return ""
    prefix, slash, name = text.partition("/") if "/" in text else ("", "", text)
    if "/" in name:
        with_prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return f"a qualified name {_NAME_RULE} {with_prefix}"
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and not is_dns_subdomain(prefix):
        return f"prefix part {_SUBDOMAIN_RULE}"
    if not name:
        return "name part must be non-empty"
    if len(name) > LONGEST_LABEL:
        return f"name part must be no more than {LONGEST_LABEL} characters"
    return f"name part {_NAME_RULE}"


def is_label_key(text: str) -> bool:
    """``name`` or ``prefix/name``."""
    prefix, slash, name = text.rpartition("/")
    return (
        (not slash or is_dns_subdomain(prefix)) and len(name) <= LONGEST_LABEL and bool(_QUALIFIED_NAME.fullmatch(name))
    )


def is_label_value(text: str) -> bool:
    """Empty, or at most 63 letters, digits, '-', '_' and '.'."""
    return text == "" or (len(text) <= LONGEST_LABEL and bool(_QUALIFIED_NAME.fullmatch(text)))


def check_label_key(node: Node, key: str) -> bool:
    """Whether ``key`` may be the key of a label; if not, the mistake is noted at ``node``."""
    if is_label_key(key):
        return True
    node.refuse(
        f"{show(key)} is not a label key",
        "write name or prefix/name: a name of at most 63 letters, digits, '-', '_' and '.', a prefix like example.com",
    )
    return False


def read_label_value(node: Node) -> str | None:
    """A field that holds the value of a label.

    Null is none: an API server reads it as "" in built-in kinds, and drops the label in custom resources. A selector
    without the label selects more than was meant.
    """
    if node.value is None:
        node.refuse("expected text, got nothing", 'write the value, "" for the empty one, or remove the label')
        return None
    text = node.text()
    if text is None or is_label_value(text):
        return text
    node.refuse(
        f"{show(text)} is not a label value",
        "use at most 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
    )
    return None


def read_labels(node: Node | None) -> dict[str, str]:
    """The labels that are valid."""
    labels = {}
    for key, value in node.entries() if node else []:
        if check_label_key(value, key):
            labels[key] = read_label_value(value)
    return labels


def read_annotations(node: Node | None) -> dict[str, str]:
    """The annotations that are valid. Their keys are label keys in any case, their values any text."""
    annotations = {}
    for key, value in node.entries() if node else []:
        if check_label_key(value, key.lower()):
            annotations[key] = value.text()
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
    if node and size > LARGEST_ANNOTATIONS:
        node.refuse(f"annotations are larger than {LARGEST_ANNOTATIONS // 1024} KiB")
    return annotations
