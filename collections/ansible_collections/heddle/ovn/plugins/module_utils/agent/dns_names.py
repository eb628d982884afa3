# SPDX-License-Identifier: Apache-2.0
"""DNS names in EgressFirewalls: the daemon of this host, and what it has found."""

from __future__ import annotations

import os

from ..common.databases import NORTHBOUND_REMOTE
from ..common.files.daemon_report import only_daemon, read_report
from ..common.files.replaced_file import ReplacedFile
from ..dns_daemon.report import DNS_NAMES_REPORT
from ..render.egress.firewall import has_dns_names
from .module_runner import PLAN_FILE, UserError, read_plan_file
from .service.service import say


def run_dns_names() -> None:
    """Run the daemon until no firewall of the plan has a rule with a name."""
    # Imported here, since other verbs need neither asyncio nor dnspython.
    import asyncio

    from ..dns_daemon.daemon import Daemon
    from ..dns_daemon.lookup import is_available

    if not is_available():
        raise UserError("python3-dnspython is missing on this host; run heddle.ovn.networks")
    os.makedirs(os.path.dirname(DNS_NAMES_REPORT), mode=0o755, exist_ok=True)
    plan = ReplacedFile(PLAN_FILE, lambda path: has_dns_names(read_plan_file(path)))
    with only_daemon(DNS_NAMES_REPORT):
        asyncio.run(Daemon(lambda: bool(plan()), NORTHBOUND_REMOTE, DNS_NAMES_REPORT, say).run())


def dns_names_of(plan: dict) -> dict[str, dict]:
    """Return `addresses` and `problem` of each name that this host resolves; none without such rules."""
    return read_report(DNS_NAMES_REPORT) if has_dns_names(plan) else {}
