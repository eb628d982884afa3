# SPDX-License-Identifier: Apache-2.0
"""The lookup heddle.ovn.manifest."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.heddle.ovn.plugins.lookup.manifest import LookupModule


def run(directory: Path, *terms: str) -> list[dict]:
    """Run the lookup as a playbook in ``directory`` would."""
    loader = DataLoader()
    loader.set_basedir(str(directory))
    return LookupModule(loader=loader).run(list(terms))


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A playbook directory with manifests below it."""
    for name in ("b.yml", "a.json", "tenants/c.yaml", "README.md", ".hidden.yml", ".git/d.yml"):
        path = tmp_path / "manifests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name} {{{{ not_a_variable }}}}\n")
    return tmp_path


def test_directory(manifests: Path) -> None:
    files = run(manifests, "manifests")
    assert [file["name"] for file in files] == ["a.json", "b.yml", "tenants/c.yaml"]
    assert files[1]["text"] == "# b.yml {{ not_a_variable }}\n"


def test_template_has_the_variables_of_the_inventory(manifests: Path) -> None:
    (manifests / "manifests" / "e.yml.j2").write_text("address: {{ prefix }}.100\n")
    (manifests / "manifests" / "notes.j2").write_text("no manifest\n")
    loader = DataLoader()
    loader.set_basedir(str(manifests))
    variables = {"prefix": "192.0.2"}
    lookup = LookupModule(loader=loader, templar=Templar(loader=loader, variables=variables))
    files = {file["name"]: file["text"] for file in lookup.run(["manifests"], variables)}
    assert files.keys() == {"a.json", "b.yml", "e.yml.j2", "tenants/c.yaml"}
    assert files["e.yml.j2"] == "address: 192.0.2.100\n"
    assert files["b.yml"] == "# b.yml {{ not_a_variable }}\n"


def test_absolute_directory_and_file(manifests: Path) -> None:
    files = run(manifests, str(manifests / "manifests" / "tenants"), "manifests/b.yml")
    assert [file["name"] for file in files] == ["c.yaml", "manifests/b.yml"]


def test_empty_directory(tmp_path: Path) -> None:
    assert run(tmp_path, str(tmp_path)) == []


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(AnsibleError, match=f"no manifests at {tmp_path}/manifets: there is neither"):
        run(tmp_path, "manifets")


def test_unknown_option(tmp_path: Path) -> None:
    with pytest.raises(AnsibleError, match="has no option recursive"):
        LookupModule(loader=DataLoader()).run([str(tmp_path)], recursive=True)


def test_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(AnsibleError, match=r"a\.yml is not UTF-8 text: invalid start byte at byte 0"):
        run(tmp_path, "a.yml")
