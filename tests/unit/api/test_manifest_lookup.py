# SPDX-License-Identifier: Apache-2.0
"""The lookup heddle.ovn.manifest."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

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


def problems(directory: Path) -> dict[str, str]:
    """Return the rules of what cannot be read in a directory, by name."""
    entries = run(directory, str(directory))
    assert all(entry["problem"]["remedy"] for entry in entries if "problem" in entry)
    return {entry["name"]: entry["problem"]["rule"] for entry in entries if "problem" in entry}


@pytest.mark.parametrize("name", ["b.yml", "b.yml.j2", "b.json", "tenants/b.yaml"])
def test_dangling_link(manifests: Path, name: str) -> None:
    (manifests / "manifests" / name).unlink(missing_ok=True)
    (manifests / "manifests" / name).symlink_to("/nonexistent/b.yml")
    rule = "is a symbolic link to /nonexistent/b.yml and cannot be read: No such file or directory"
    assert problems(manifests / "manifests") == {name: rule}


def test_what_is_no_file_is_not_left_out(manifests: Path) -> None:
    directory = manifests / "manifests"
    (directory / "loop.yml").symlink_to("loop.yml")
    (directory / "null.yml").symlink_to(os.devnull)
    os.mkfifo(directory / "pipe.yml")
    assert problems(directory) == {
        "loop.yml": "is a symbolic link to loop.yml and cannot be read: Too many levels of symbolic links",
        "null.yml": f"is a symbolic link to {os.devnull} and is no regular file",
        "pipe.yml": "is no regular file",
    }


def test_links_to_files_are_read(manifests: Path) -> None:
    (manifests / "manifests" / "link.yml").symlink_to("b.yml")
    (manifests / "manifests" / "notes.md").symlink_to("/nonexistent/notes.md")
    (manifests / "manifests" / ".hidden.json").symlink_to("/nonexistent/x.json")
    assert problems(manifests / "manifests") == {}
    assert "link.yml" in [entry["name"] for entry in run(manifests, "manifests")]


def test_link_to_a_directory_with_manifests(manifests: Path) -> None:
    directory = manifests / "manifests"
    (directory / "tenants").rename(manifests / "elsewhere")
    (directory / "tenants").symlink_to("../elsewhere")
    (manifests / "parts").mkdir()
    (manifests / "parts" / "ports.j2").write_text("")
    (directory / "parts").symlink_to("../parts")
    (directory / "a.yml").symlink_to("../parts")
    assert problems(directory) == {
        name: f"is a symbolic link to {target} and is a directory; links to directories are not followed"
        for name, target in (("a.yml", "../parts"), ("tenants", "../elsewhere"))
    }


def test_directory_that_cannot_be_read(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path):
        if re.search(r"/(tenants|\.git)$", str(path)):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert problems(manifests / "manifests") == {"tenants": "cannot be read: Permission denied"}
    assert problems(manifests / "manifests" / "tenants") == {
        f"{manifests}/manifests/tenants": "cannot be read: Permission denied"
    }


def test_empty_directory(tmp_path: Path) -> None:
    assert run(tmp_path, str(tmp_path)) == []


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(AnsibleError, match=f"no manifests at {tmp_path}/manifets: there is neither"):
        run(tmp_path, "manifets")


def test_unknown_option(tmp_path: Path) -> None:
    with pytest.raises(AnsibleError, match="has no option recursive"):
        LookupModule(loader=DataLoader()).run([str(tmp_path)], recursive=True)


def problem_of(directory: Path, name: str, **variables) -> tuple[int, str]:
    """Return line and rule of the problem that the lookup returns for a file."""
    loader = DataLoader()
    loader.set_basedir(str(directory))
    (entry,) = LookupModule(loader=loader, templar=Templar(loader=loader, variables=variables)).run([name], variables)
    assert entry.keys() == {"name", "problem"}
    assert entry["name"] == name
    assert entry["problem"]["remedy"]
    return entry["problem"]["line"], entry["problem"]["rule"]


def test_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_bytes(b"\xff\xfe")
    assert problem_of(tmp_path, "a.yml") == (0, "not UTF-8 text: invalid start byte at byte 0")


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("a: 1\nb: {{ no_such }}\n", 2, "'no_such' is undefined"),
        ("{{ no_such is defined }}{{ no_such | default(1) }}\n{{ no_such }}", 2, "'no_such' is undefined"),
        ("a: 1\nb: {{ indirect }}\n", 0, "'nothing' is undefined"),
        ("a: 1\nb: {{ hosts.node9 }}\n", 2, "object of type 'dict' has no attribute 'node9'"),
        ("a: 1\nb: {{ hosts['node9'] }}\n", 2, "object of type 'dict' has no attribute 'node9'"),
        ("a: 1\nb: {{ hosts[password] }}\n", 0, "a value that it uses is undefined"),
        ("{{ {'a': [no_such]} }}", 1, "'no_such' is undefined"),
        ("a: 1\n{% if %}\n", 2, "not a valid template: Expected an expression, got 'end of statement block'"),
        ("#jinja2: trim_blocks: False\na: 1\n{% if %}", 3,
         "not a valid template: Expected an expression, got 'end of statement block'"),
        ("a: 1\nb: {{ 1 | no_filter }}\n", 2, "not a valid template: No filter named 'no_filter'"),
        ("a: 1\r\n{% no_tag %}\r\n", 2, "not a valid template: Encountered unknown tag 'no_tag'"),
        ("a: {{ broken }}\n", 0, "a variable that it uses, or what it is decrypted to, is not a valid template"),
        ("a: 1\n{% include 'none.j2' %}\n", 2, "template none.j2 is not found"),
        ("{% include password %}\n", 0, "template that it includes is not found"),
        ("a: {{ 1 / 0 }}\n", 0, "template cannot be rendered: ZeroDivisionError"),
        ("a: {{ password | from_json }}\n", 0,
         "template cannot be rendered: The filter plugin 'ansible.builtin.from_json' failed (JSONDecodeError)"),
        ("a: {{ loop }}\n", 0, "template cannot be rendered: RecursionError"),
    ],
)  # fmt: skip
def test_template_that_cannot_be_rendered(tmp_path: Path, text: str, line: int, rule: str) -> None:
    (tmp_path / "a.yml.j2").write_text(text)
    templates = {"indirect": "{{ nothing }}", "broken": "s3cret{% if %}", "loop": "{{ loop }}"}
    variables = {name: trust_as_template(value) for name, value in templates.items()}
    found = problem_of(tmp_path, "a.yml.j2", hosts={}, password="s3cret", **variables)
    assert found == (line, rule)


def test_mistake_in_an_included_template(tmp_path: Path) -> None:
    (tmp_path / "a.yml.j2").write_text("{% include 'part.j2' %}\n")
    (tmp_path / "part.j2").write_text("a: 1\n{% if %}\n")
    line, rule = problem_of(tmp_path, "a.yml.j2")
    assert line == 0
    assert rule == (
        f"{tmp_path}/part.j2:2, which it includes, is not a valid template: "
        "Expected an expression, got 'end of statement block'"
    )
