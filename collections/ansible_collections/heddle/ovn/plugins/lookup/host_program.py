# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ansible lookup: the host service heddle-host as a file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_program
author:
  - Heddle maintainers (@heddle)
short_description: The host service heddle-host as an executable file
version_added: 0.2.0
description:
  - Writes the collection's own code into one executable file on the control node and returns its path, to be copied to
    hosts. Equal code gives an equal file.
options:
  _terms:
    description: Directory of the file; it is created if missing.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Install the program that keeps this host as planned
  ansible.builtin.copy:
    src: "{{ lookup('heddle.ovn.host_program', '~/.cache/heddle') }}"
    dest: /usr/local/sbin/heddle-host
    mode: "0755"
"""

RETURN = r"""
_raw:
  description: Path of the file, one for each term.
  type: list
  elements: str
"""

from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.atomic_file import replace_file
from ansible_collections.heddle.ovn.plugins.module_utils.program.zipapp import bundle


class LookupModule(LookupBase):
    """Writes the program unless it exists already."""

    def run(self, terms, variables=None, **kwargs):
        """Return one path per directory."""
        self.set_options(var_options=variables, direct=kwargs)
        return [str(_written(Path(str(term)).expanduser() / "heddle-host", bundle())) for term in terms]


def _written(path: Path, content: bytes) -> Path:
    try:
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content, mode=0o600)
    except OSError as error:
        raise AnsibleError(f"cannot write {path}: {error.strerror}; name another directory") from error
    return path
