# SPDX-License-Identifier: Apache-2.0
"""The program `heddle-host` as one file: this package's own sources in an executable archive (zipapp)."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

PACKAGE = "heddle"
_START = b"#!/usr/bin/env -S python3 -I\n"
_MAIN = """# SPDX-License-Identifier: Apache-2.0
import sys

from {package}.program.main import main

sys.exit(main("{version}"))
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def bundle() -> bytes:
    """Return the archive; equal sources give equal bytes, so that copying it is idempotent."""
    sources = _sources()
    main = _MAIN.format(package=PACKAGE, version=_version(sources)).encode()
    content = io.BytesIO()
    content.write(_START)
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"__main__.py": main, **sources}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def source_version() -> str:
    """Return what identifies the sources beside this file; the program has that of the sources it was made of."""
    return _version(_sources())


def _sources() -> dict[str, bytes]:
    directory = Path(__file__).resolve().parent.parent
    files = {f"{PACKAGE}/__init__.py": b""}
    for path in sorted(directory.rglob("*.py")):
        files[f"{PACKAGE}/{path.relative_to(directory).as_posix()}"] = path.read_bytes()
    return files


def _version(sources: dict[str, bytes]) -> str:
    found = hashlib.sha256()
    for name, text in sources.items():
        found.update(f"{name} {len(text)}\n".encode())
        found.update(text)
    return found.hexdigest()[:32]
