# SPDX-License-Identifier: Apache-2.0
"""Fixtures of other folders that the tests of policies use."""

from tests.live.gateway.conftest import host

__all__ = ["host"]
