# SPDX-License-Identifier: Apache-2.0
"""Qualified names in fields, with the words of Kubernetes (`IsQualifiedName`)."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "red"}}
NAME = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("http", None),
        ("kubernetes.io/h2c", None),
        ("My_Name.2", None),
        ("a" * 63, None),
        ("", "name part must be non-empty"),
        ("/http", "prefix part must be non-empty"),
        ("example.com/", "name part must be non-empty"),
        ("Example/http", "prefix part a lowercase RFC 1123 subdomain must consist of lower case"),
        ("a" * 64, "name part must be no more than 63 characters"),
        ("http-", f"name part {NAME}"),
        ("example.com/a/b", f"a qualified name {NAME}"),
    ],
)
def test_app_protocol(name, rule):
    document = {**SERVICE, "spec": {"ports": [{"port": 80, "appProtocol": name}]}}
    _resources, problems = read_manifests([("t.yml", json.dumps(document))])
    found = [(one.path, one.rule.partition(": ")[2].partition(": ")[2]) for one in problems]
    if rule is None:
        assert found == []
    else:
        [(path, text)] = found
        assert path == "spec.ports[0].appProtocol"
        assert text.startswith(rule)
