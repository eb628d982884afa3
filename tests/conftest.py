# SPDX-License-Identifier: Apache-2.0
"""Make the collection importable under its full name, and `tests` itself as a package."""

import contextlib
import gc
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for path in (ROOT / "collections", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

# On the hosts of a lab, where some tests run as well, there is no hypothesis.
with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import HealthCheck, settings

    # No result may depend on speed: neither the time of one example nor that of drawing them.
    settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any speed")


def pytest_collection_finish() -> None:
    """Leave what collection made, modules and tests, out of each later search for garbage: a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
