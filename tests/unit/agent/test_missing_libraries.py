# SPDX-License-Identifier: Apache-2.0
"""Daemons on a host without the library that they need."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.dns_names import run_dns_names
from ansible_collections.heddle.ovn.plugins.module_utils.agent.mesh import run_mesh
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon import lookup
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon import switch


@pytest.mark.parametrize(
    ("run", "module", "name", "package"),
    [(run_dns_names, lookup, "dns", "python3-dnspython"), (run_mesh, switch, "ofproto", "python3-os-ken")],
)
def test_the_missing_package_and_the_remedy_are_named(monkeypatch, run, module, name, package):
    monkeypatch.setattr(module, name, None)
    with pytest.raises(UserError, match=f"{package} is missing on this host; run heddle.ovn.networks"):
        run()
