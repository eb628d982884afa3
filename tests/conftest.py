# SPDX-License-Identifier: Apache-2.0
"""Make the collection importable under its full name, and `tests` itself as a package."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for path in (ROOT / "collections", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
