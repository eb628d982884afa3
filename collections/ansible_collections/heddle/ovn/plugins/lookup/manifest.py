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
  - A file that cannot be read or rendered has a RV(_raw[].problem) in place of its text, so that it is reported
    together with the mistakes in all other files. Values of variables are not in these messages.
options:
  _terms:
    description:
      - Files and directories. A relative path is relative to the playbook.
      - A directory stands for all files in it and below it whose names end with C(.yml), C(.yaml) or C(.json),
        or with one of these and C(.j2), sorted by path. Files and directories whose names start with a dot are left
        out.
      - Symbolic links to files are followed. What has such a name and is no file that can be read, a directory that
        cannot be read, and a link to a directory with manifests has a RV(_raw[].problem), as its objects would be
        taken for deleted if it were left out.
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
      description: Content of the file, of a template what it renders to.
      returned: when the file can be read
      type: str
    problem:
      description: Why the file cannot be read or rendered.
      returned: when the file cannot be read or rendered
      type: dict
      contains:
        line:
          description: Line in the file, for an undefined variable the first that uses it; 0 if not known.
          type: int
          sample: 7
        rule:
          description: What is wrong.
          type: str
          sample: "'lab_prefix' is undefined"
        remedy:
          description: What to do.
          type: str
          sample: define it in the inventory, or correct the name
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase
from jinja2 import TemplateError

from ansible_collections.heddle.ovn.plugins.plugin_utils.template_errors import template_problem

_SUFFIXES = frozenset([".yml", ".yaml", ".json"])
_TEMPLATE = ".j2"


class _UnusableError(Exception):
    """A file whose text cannot be had: line (0 if not known), rule and remedy."""

    def __init__(self, line: int, rule: str, remedy: str) -> None:
        super().__init__(rule)
        self.problem = {"line": line, "rule": rule, "remedy": remedy}


class LookupModule(LookupBase):
    """Reads manifest files; only templates are interpreted."""

    def run(self, terms, variables=None, **kwargs):
        """Return ``[{"name", "text"}]`` for all terms, with ``"problem"`` in place of a text that cannot be had."""
        if kwargs:
            raise AnsibleError(f"the lookup heddle.ovn.manifest has no option {', '.join(kwargs)}")
        files = []
        for term in terms:
            path = Path(self._loader.path_dwim(term))
            if path.is_dir():
                for file in sorted(_manifests_below(path)):
                    files.append(self._entry(term if file == path else str(file.relative_to(path)), file, variables))
            elif path.is_file():
                files.append(self._entry(term, path, variables))
            else:
                raise AnsibleError(f"no manifests at {path}: there is neither a file nor a directory")
        return files

    def _entry(self, name: str, path: Path, variables) -> dict:
        try:
            return {"name": name, "text": self._text(path, variables)}
        except _UnusableError as error:
            return {"name": name, "problem": error.problem}

    def _text(self, path: Path, variables) -> str:
        text = _read(path)
        if path.suffix != _TEMPLATE:
            return text
        template = lookup_loader.get("template", loader=self._loader, templar=self._templar)
        try:
            # Within a template, as of a task's argument, ansible-core returns an object that raises when it is used.
            return str(template.run([str(path)], variables or {})[0])
        except (AnsibleError, TemplateError) as error:
            raise _UnusableError(*template_problem(error, text)) from error


def _manifests_below(directory: Path) -> Iterator[Path]:
    """Return manifests, and what may have or hide some and cannot be read: none may be left out without an error."""
    unreadable: list[OSError] = []
    for folder, folders, files in os.walk(directory, onerror=unreadable.append):
        # Names that are left in this list are walked.
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if not name.startswith(".") and _is_manifest(name))
        for path in (Path(folder, name) for name in folders):
            if path.is_symlink() and (_is_manifest(path.name) or _has_manifests(path)):
                yield path
    for error in unreadable:
        yield Path(error.filename)


def _is_manifest(name: str) -> bool:
    return Path(name.removesuffix(_TEMPLATE)).suffix in _SUFFIXES


def _has_manifests(directory: Path) -> bool:
    return any(_is_manifest(name) for _folder, _folders, files in os.walk(directory) for name in files)


def _read(path: Path) -> str:
    link = f"is a symbolic link to {path.readlink()} and " if path.is_symlink() else ""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode) and not link:
            # Of directories that are no links only those come here that could not be listed.
            os.scandir(path).close()
        if stat.S_ISREG(mode):
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        rule = f"not UTF-8 text: {error.reason} at byte {error.start}"
        raise _UnusableError(0, rule, "save it as UTF-8") from error
    except OSError as error:
        remedy = "correct or remove the link" if link else "correct its permissions, or remove it"
        raise _UnusableError(0, f"{link}cannot be read: {error.strerror}", remedy) from error
    if stat.S_ISDIR(mode):
        rule = f"{link}is a directory; links to directories are not followed"
        raise _UnusableError(0, rule, "move the directory here, or remove the link")
    raise _UnusableError(0, f"{link}is no regular file", "write a file in its place, or remove it")
