# SPDX-License-Identifier: Apache-2.0
"""Which name servers of a host its workloads can ask."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.name_servers import read_name_servers

STUB = "nameserver 127.0.0.53\noptions edns0\n"


@pytest.mark.parametrize(
    ("own", "behind", "found"),
    [
        ("nameserver 198.51.100.53\n", None, ["198.51.100.53"]),
        ("# c\n\nsearch a\n nameserver\t2001:DB8::53  # two\nnameserver 198.51.100.53\n", None,
         ["2001:db8::53", "198.51.100.53"]),
        (STUB, "nameserver 198.51.100.53\n", ["198.51.100.53"]),
        ("nameserver 198.51.100.1\n", "nameserver 198.51.100.2\n", ["198.51.100.1"]),
        ("nameserver ::1\nnameserver fe80::1%eth0\nnameserver 169.254.1.1\nnameserver 0.0.0.0\n", None, []),
        ("nameserver dns.example\nnameserver\n#nameserver 198.51.100.1\n", None, []),
        ("".join(f"nameserver 198.51.100.{n}\n" for n in (1, 1, 2, 3, 4)), None,
         ["198.51.100.1", "198.51.100.2", "198.51.100.3"]),
        (STUB, None, []),
        (None, None, []),
    ],
)  # fmt: skip
def test_name_servers_that_workloads_can_ask(tmp_path, own, behind, found):
    paths = [tmp_path / "resolv.conf", tmp_path / "behind.conf"]
    for path, text in zip(paths, (own, behind), strict=True):
        if text is not None:
            path.write_text(text)
    assert read_name_servers(tuple(map(str, paths))) == found
