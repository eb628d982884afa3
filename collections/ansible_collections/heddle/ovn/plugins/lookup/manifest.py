# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ansible lookup: read manifest files on the control node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: manifest
author:
  - Heddle maintainers (@heddle)
short_description: Read manifest files on the control node
version_added: 0.1.0
description:
  - Returns the text of manifest files, for a module that validates and stores them.
  - The text is not parsed here. A file whose name ends with C(.j2) is a template of M(ansible.builtin.template), for
    what differs between inventories, such as addresses of the provider network; all others are taken as they are.
options:
  _terms:
    description:
      - Files and directories. A relative path is relative to the playbook.
      - A directory stands for all files in it and below it whose names end with C(.yml), C(.yaml) or C(.json),
        or with one of these and C(.j2), sorted by path. Files and directories whose names start with a dot are left
        out.
    type: list
    elements: str
    required: true
notes:
  - Use it with C(query), or with C(lookup) with C(wantlist=true), to get a list in every case.
"""

EXAMPLES = r"""
- name: Read all manifests beside the inventory
  ansible.builtin.set_fact:
    heddle_manifests: "{{ query('heddle.ovn.manifest', inventory_dir ~ '/manifests') }}"

- name: Read two files
  ansible.builtin.debug:
    msg: "{{ item.name }} has {{ item.text | length }} characters"
  loop: "{{ query('heddle.ovn.manifest', 'manifests/red.yml', 'manifests/blue.yml') }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
_raw:
  description: The files, in the order of the terms and, within a directory, of their paths.
  type: list
  elements: dict
  contains:
    name:
      description: Path relative to the given directory; for a term that is a file, the term.
      type: str
      sample: tenants/red.yml
    text:
      description: Content of the file.
      type: str
"""

from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase

_SUFFIXES = frozenset([".yml", ".yaml", ".json"])
_TEMPLATE = ".j2"


class LookupModule(LookupBase):
    """Reads manifest files; only templates are interpreted."""

    def run(self, terms, variables=None, **kwargs):
        """Return ``[{"name", "text"}]`` for all terms."""
        if kwargs:
            raise AnsibleError(f"the lookup heddle.ovn.manifest has no option {', '.join(kwargs)}")
        files = []
        for term in terms:
            path = Path(self._loader.path_dwim(term))
            if path.is_dir():
                files.extend(
                    {"name": str(file.relative_to(path)), "text": self._text(file, variables)}
                    for file in _manifests_below(path)
                )
            elif path.is_file():
                files.append({"name": term, "text": self._text(path, variables)})
            else:
                raise AnsibleError(f"no manifests at {path}: there is neither a file nor a directory")
        return files

    def _text(self, path: Path, variables) -> str:
        text = _read(path)
        if path.suffix != _TEMPLATE:
            return text
        template = lookup_loader.get("template", loader=self._loader, templar=self._templar)
        return template.run([str(path)], variables or {})[0]


def _manifests_below(directory: Path) -> list[Path]:
    files = []
    for path in directory.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(directory).parts)
        suffix = path.with_suffix("").suffix if path.suffix == _TEMPLATE else path.suffix
        if suffix in _SUFFIXES and path.is_file() and not hidden:
            files.append(path)
    return sorted(files)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise AnsibleError(f"manifest {path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise AnsibleError(f"cannot read manifest {path}: {error.strerror}") from error
