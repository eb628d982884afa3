# SPDX-License-Identifier: Apache-2.0
"""Where servers listen, as operators write it."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Client
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.remotes import Remote, parse_remotes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unix:/run/ovn/ovnnb_db.sock", [Remote("unix", "/run/ovn/ovnnb_db.sock")]),
        ("tcp:192.0.2.1:6641", [Remote("tcp", "192.0.2.1", 6641)]),
        ("tcp:[2001:db8::1]:6641", [Remote("tcp", "2001:db8::1", 6641)]),
        ("ssl:ovn.example:65535", [Remote("ssl", "ovn.example", 65535)]),
        ("ssl:[2001:db8::1]:1, ssl:b:2", [Remote("ssl", "2001:db8::1", 1), Remote("ssl", "b", 2)]),
        ("unix:/a,tcp:b:1", [Remote("unix", "/a"), Remote("tcp", "b", 1)]),
    ],
)
def test_each_form_is_read_and_written(text, expected):
    assert list(parse_remotes(text)) == expected
    assert ",".join(map(str, parse_remotes(text))) == text.replace(", ", ",")


@pytest.mark.parametrize(
    "text",
    [
        "", "unix:", "tcp:host", "tcp:host:", "tcp::6641", "tcp:2001:db8::1:6641", "ssl:host:65536", "ssl:host:0",
        "ptcp:6641", "unix:/a,", "tcp:[]:1",
    ],
)  # fmt: skip
def test_what_has_another_form_is_refused_with_the_forms_that_there_are(text):
    with pytest.raises(ValueError, match="use unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT"):
        parse_remotes(text)


def test_without_certificates_no_server_is_asked_over_tls():
    with pytest.raises(
        ValueError, match=r"ssl:192\.0\.2\.1:6641 needs a private key, a certificate and a CA certificate"
    ):
        Client("ssl:192.0.2.1:6641")
