# SPDX-License-Identifier: Apache-2.0
"""The program `heddle-host` as one file: this package's own sources in an executable archive (zipapp)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PACKAGE = "heddle"
_START = b"#!/usr/bin/env -S python3 -I\n"
_MAIN = f"""# SPDX-License-Identifier: Apache-2.0
import sys

from {PACKAGE}.agent.cli import main

sys.exit(main())
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def bundle() -> bytes:
    """Return the archive; equal sources give equal bytes, so that copying it is idempotent."""
    directory = Path(__file__).resolve().parent.parent
    content = io.BytesIO()
    content.write(_START)
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        files = {"__main__.py": _MAIN.encode(), f"{PACKAGE}/__init__.py": b""}
        for path in sorted(directory.rglob("*.py")):
            files[f"{PACKAGE}/{path.relative_to(directory).as_posix()}"] = path.read_bytes()
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()
