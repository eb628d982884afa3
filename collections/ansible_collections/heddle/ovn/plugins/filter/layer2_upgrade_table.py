# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the preview of a Layer2 upgrade as tables for a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: layer2_upgrade_table
short_description: Preview of a Layer2 upgrade as tables for a terminal
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description: Nodes with their topology and batch, moves of workloads, blockers and notes.
options:
  _input:
    description: The survey that the M(heddle.ovn.layer2_upgrade) module returned.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what would happen
  ansible.builtin.debug:
    msg: "{{ upgrade.survey | heddle.ovn.layer2_upgrade_table }}"
"""

RETURN = r"""
_value:
  description: One line of text each.
  type: list
  elements: str
"""

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import GATEWAY_ROUTERS, TRANSIT_ROUTER
from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table

TOPOLOGIES = {GATEWAY_ROUTERS: "gateway routers", TRANSIT_ROUTER: "transit router"}


def layer2_upgrade_table(survey: dict) -> list[str]:
    """Return the survey as lines of text."""
    turns = {name: turn for turn, batch in enumerate(survey["batches"], start=1) for name in batch}
    nodes = [
        [name, TOPOLOGIES[version], turns.get(name, "done" if version == survey["goal"] else "not now")]
        for name, version in survey["versions"].items()
    ]
    moves = [[move[key] for key in ("workload", "kind", "network", "source", "target")] for move in survey["moves"]]
    lines = table(f"Nodes ({len(nodes)})", ["node", "Layer2 topology", "turn"], nodes)
    if moves:
        lines += table(f"Moves ({len(moves)})", ["workload", "kind", "network", "from", "to"], moves)
    if survey["blockers"]:
        lines += ["In the way", *("  " + blocker["text"] for blocker in survey["blockers"]), ""]
    if survey["notes"]:
        lines += ["To know", *("  " + note for note in survey["notes"]), ""]
    if not survey["open"]:
        lines.append("Nothing is left to do: the old topology was removed, or never existed here.")
    elif not turns:
        lines.append("Nothing is left to do here; a rollback is possible until the clean-up.")
    return lines


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"layer2_upgrade_table": layer2_upgrade_table}
