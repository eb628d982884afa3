# SPDX-License-Identifier: Apache-2.0
"""A lab whose cluster began with the old Layer2 topology, in the gateway mode HEDDLE_UPGRADE_MODE."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.lab.conftest import Lab, lab_directory

# Each run has to name the mode: the inventory of the lab has another one.
GATEWAY_MODE = ("-e", f"heddle_gateway_mode={os.environ.get('HEDDLE_UPGRADE_MODE', 'shared')}")


class LabInMode(Lab):
    """A lab with the gateway mode of these tests."""

    @contextlib.contextmanager
    def begin(self, playbook: str, *arguments: str, **options) -> Iterator[subprocess.Popen]:
        with super().begin(playbook, *GATEWAY_MODE, *arguments, **options) as process:
            yield process


@pytest.fixture(scope="session")
def lab() -> Lab:
    return LabInMode(lab_directory())
