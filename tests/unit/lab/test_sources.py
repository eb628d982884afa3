# SPDX-License-Identifier: Apache-2.0
"""The image comes from the mirror that the machine's own apt uses."""

import pytest

from lab.errors import LabError
from lab.sources import Source, apt_options, choose, parse_deb822, parse_list, read_sources

LIST = """\
# deb http://commented.example/debian trixie main
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/debian.gpg] http://mirror.example/debian bookworm main contrib # note
deb http://mirror.example/debian-security bookworm-security main
deb https://other.example/repo nodistro main
"""
DEB822 = """\
# The mirror
Types: deb deb-src
URIs: http://mirror.example/debian
  http://second.example/debian
Suites: trixie trixie-updates
# a comment inside
Components: main non-free-firmware
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: trixie-security
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: trixie
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: trixie
Components: main
"""
INLINE_KEY = """\
Types: deb
URIs: http://mirror.example/debian
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
"""


def test_one_line_style():
    found = parse_list(LIST)
    assert [source.uri for source in found] == [
        "http://mirror.example/debian",
        "http://mirror.example/debian-security",
        "https://other.example/repo",
    ]
    assert found[0].suites == ("bookworm",)
    assert found[0].components == ("main", "contrib")
    assert found[0].options == (("signed-by", "/usr/share/keyrings/debian.gpg"),)


def test_deb822_style():
    found = parse_deb822(DEB822)
    assert [source.uri for source in found] == [
        "http://mirror.example/debian",
        "http://second.example/debian",
        "http://mirror.example/debian-security",
    ]
    assert found[0].suites == ("trixie", "trixie-updates")
    assert found[0].line() == (
        "deb [signed-by=/usr/share/keyrings/debian.gpg] http://mirror.example/debian trixie main"
    )


def test_a_key_given_inline_stays_behind():
    assert parse_deb822(INLINE_KEY)[0].line() == "deb http://mirror.example/debian trixie main"


def test_the_suite_of_the_image_is_preferred():
    old, new = Source("http://a.example/debian", ("bookworm",), ("main",)), parse_deb822(DEB822)[0]
    assert choose([old, new]) is new
    assert choose([old]) is old


def test_non_debian_sources_are_skipped():
    sources = [
        Source("http://mirror.example/debian-security", ("bookworm-security",), ("main",)),
        Source("http://mirror.example/debian-security", ("stable",), ("main",)),
        Source("https://other.example/repo", ("nodistro",), ("main",)),
        Source("http://mirror.example/debian", ("bookworm",), ("contrib",)),
        Source("cdrom:[Debian]/", ("bookworm",), ("main",)),
        Source("http://mirror.example/debian", ("bookworm-backports",), ("main",)),
    ]
    with pytest.raises(LabError, match="set LAB_APT_URI"):
        choose(sources)


def test_the_environment_overrides(monkeypatch):
    monkeypatch.setenv("LAB_APT_URI", "http://mine.example/debian")
    assert choose([]).line() == "deb http://mine.example/debian trixie main"


def test_only_files_that_apt_reads_are_read(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(LIST)
    (tmp_path / "sources.list.d/debian.sources").write_text(DEB822)
    (tmp_path / "sources.list.d/old.sources.disabled").write_text(DEB822)
    assert len(read_sources(tmp_path)) == 6


def test_apt_mirror_options_are_copied():
    dump = """\
Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::CaInfo "/etc/ssl/own.pem";
Acquire::https::Verify-Peer "true";
Acquire::Check-Valid-Until "false";
Acquire::Languages:: "none";
Acquire::IndexTargets::deb::Packages::MetaKey "$(COMPONENT)/binary";
"""
    assert apt_options(dump) == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::https::CaInfo "/etc/ssl/own.pem";',
        'Acquire::https::Verify-Peer "true";',
        'Acquire::Check-Valid-Until "false";',
    ]
