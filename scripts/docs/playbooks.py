# SPDX-License-Identifier: Apache-2.0
"""docs/playbooks.md: what each playbook does, from the comment at its top, and the variables that it reads."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.variables import read_variables

PLAYBOOKS = Path(__file__).resolve().parents[2] / "collections/ansible_collections/heddle/ovn/playbooks"
_HEAD = """# Playbooks

Generated from the comments at the top of the playbooks. They run as
`ansible-playbook -i INVENTORY heddle.ovn.NAME`; in a clone of the repository `playbooks/NAME.yml` is the same. All
begin with the check of the inventory and change nothing when they are run again.
"""


def playbooks_page() -> str:
    """Return the page in Markdown."""
    variables = read_variables()
    parts = [_HEAD]
    for path in sorted(PLAYBOOKS.glob("*.yml")):
        names = [f"`{name}`" for name, option in variables.items() if path.stem in option.get("playbooks", [])]
        own = (
            f"\nVariables of a run: {', '.join(names)} ([meaning](variables.md#variables-of-one-run)).\n"
            if names
            else ""
        )
        parts.append(f"## {path.stem}\n\n{_comment(path)}{own}")
    return "\n".join(parts)


def _comment(path: Path) -> str:
    """Return the comment between `---` and the first play; its indented lines are an example."""
    lines = []
    for line in path.read_text(encoding="utf-8").partition("\n---\n")[2].splitlines():
        if not line.startswith("#"):
            break
        text = line.removeprefix("#").removeprefix(" ")
        lines.append(f"  {text}" if text.startswith("  ") else text)
    return "\n".join(lines) + "\n"
