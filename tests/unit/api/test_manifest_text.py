# SPDX-License-Identifier: Apache-2.0
"""From text to documents: numbering, lines, one broken document beside good ones, what YAML may not do."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.api import Source, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.api.yaml.yaml_scalars import plain_value
from ansible_collections.heddle.ovn.plugins.module_utils.api.yaml.yaml_text import MAXIMUM_FILE_SIZE


def namespace(name: str) -> str:
    """A manifest without mistakes, five lines."""
    return f"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n"


def messages(*files: tuple[str, str]) -> list[str]:
    """The messages to the user."""
    return [str(problem) for problem in read_manifests(files)[1]]


def sources(text: str) -> list[Source]:
    """Where the resources of a text without mistakes stand."""
    resources, problems = read_manifests([("a.yml", text)])
    assert problems == []
    return [resource.source for resource in resources]


@pytest.mark.parametrize("text", ["", "\n", "---\n", "# only a comment\n", "---\n---\n# x\n---\nnull\n", "\ufeff"])
def test_empty_documents_are_ignored(text: str) -> None:
    assert read_manifests([("a.yml", text)]) == ([], [])


def test_no_files() -> None:
    assert read_manifests([]) == ([], [])


def test_documents_are_numbered_and_lines_are_those_of_the_file() -> None:
    text = "# comment\n" + namespace("red") + namespace("blue")
    assert sources(text) == [Source("a.yml", 1, 3), Source("a.yml", 2, 8)]
    assert sources("---\n---\n" + namespace("red")) == [Source("a.yml", 3, 4)]
    assert sources(namespace("red").removeprefix("---\n") + "...\n" + namespace("blue"))[1] == Source("a.yml", 2, 7)


def test_windows_line_ends() -> None:
    assert sources((namespace("red") + namespace("blue")).replace("\n", "\r\n"))[1] == Source("a.yml", 2, 7)


def test_a_separator_inside_text_is_none() -> None:
    text = namespace("red") + "  annotations:\n    note: |\n      one\n      ---\n      two\n"
    ((resource,), _problems) = read_manifests([("a.yml", text)])
    assert resource.annotations == {"note": "one\n---\ntwo\n"}


def test_invalid_document_does_not_hide_others() -> None:
    text = namespace("red") + "---\na: [\n" + namespace("blue") + "---\nb: }\n" + namespace("Green")
    resources, problems = read_manifests([("a.yml", text)])
    assert [resource.name for resource in resources] == ["red", "blue"]
    assert [(problem.source.document, problem.source.line) for problem in problems] == [(2, 8), (4, 14), (5, 19)]


def test_problems_come_in_the_order_of_the_files() -> None:
    found = messages(("b.yml", namespace("B")), ("a.yml", namespace("A")))
    assert [message[:5] for message in found] == ["b.yml", "a.yml"]


def test_json_with_tabs() -> None:
    text = '{\n\t"apiVersion": "v1",\n\t"kind": "Namespace",\n\t"metadata": {"name": "red"}\n}\n'
    ((resource,), problems) = read_manifests([("a.json", text)])
    assert (resource.name, problems) == ("red", [])


def test_manifest_is_kept_as_written() -> None:
    text = namespace("red") + "  creationTimestamp: 2025-05-13T18:01:05Z\n  uid: 1e3\nstatus: {phase: Active}\n"
    ((resource,), _problems) = read_manifests([("a.yml", text)])
    assert resource.manifest == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "red", "creationTimestamp": "2025-05-13T18:01:05Z", "uid": 1000.0},
        "status": {"phase": "Active"},
    }


def test_small_aliases_work() -> None:
    text = "---\nkind: Namespace\napiVersion: v1\nmetadata: {name: &name red, labels: {tenant: *name}}\n"
    ((resource,), problems) = read_manifests([("a.yml", text)])
    assert (resource.labels["tenant"], problems) == ("red", [])


BROKEN = {
    "mapping value": ("a: b: c\n", "mapping values are not allowed"),
    "unknown alias": ("a: *b\n", "names no complete value before it"),
    "alias of itself": ("a: &a [*a]\n", "names no complete value before it"),
    "mapping as key": ("{a: b}: c\n", "a key must be text, not a mapping"),
    "list as key": ("? [a]\n: c\n", "a key must be text, not a list"),
    "number as key": ("1: a\n", "a key must be text, not 1; put quotes around it"),
    "null as key": ("~: a\n", "a key must be text, not nothing; put quotes around it"),
    "merge": ("<<: {a: b}\n", "merge keys (<<) are not supported"),
    "python tag": ("a: !!python/object/apply:os.system [id]\n", "is not supported; remove the tag"),
    "control character": ("a: \x07\n", "special characters are not allowed"),
    "surrogate": ("a: \ud800\n", "special characters are not allowed"),
    "escaped surrogate": ('a: "\\ud800"\n', "cannot be stored"),
    "escaped NUL": ('a: "\\0"\n', "cannot be stored"),
    "impossible escape": ('a: "\\Uffffffff"\n', "an escape names no character"),
    "directive": ("%TAG ! tag:x,2000:\n---\na: b\n", "YAML directives are not supported"),
    "deep": ("[" * 33, "nested deeper than 32 levels"),
    "very deep": ("[" * 100_000, "nested deeper than 32 levels"),
    "very deep blocks": ("- " * 100_000, "nested deeper than 32 levels"),
    "too large": (" " * (MAXIMUM_FILE_SIZE + 1), "file is larger than 8 MiB"),
}


@pytest.mark.parametrize(("text", "fragment"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("accelerated", [True, False])
def test_broken_text(text: str, fragment: str, accelerated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same messages with and without PyYAML's C parser."""
    if not accelerated:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    resources, problems = read_manifests([("a.yml", text)])
    assert resources == []
    assert fragment in str(problems[0])


def test_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 100)]
    (message,) = messages(("a.yml", "\n".join(lines)))
    assert "aliases make this file too large" in message


def test_duplicate_keys_keep_the_first_and_name_both_lines() -> None:
    text = "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: red\n  name: {a: [b]}\n"
    assert messages(("a.yml", text)) == [
        'a.yml:6 (document 1, Namespace red): metadata.name: key "name" is already set on line 5; keep one of them'
    ]


def test_list_of_errors_is_truncated() -> None:
    text = namespace("red") + "".join(f"field{i}: x\n" for i in range(5000))
    found = messages(("a.yml", text))
    assert len(found) == 100
    assert found[-1].endswith("more than 99 mistakes, the rest of this document is not shown")


def test_messages_are_one_short_line() -> None:
    odd = "x\\n\\u2028" + "y" * 10_000
    text = f'---\nkind: "{odd}"\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: red, "{odd}": 1}}\n'
    found = messages(("a\nb.yml", text))
    assert len(found) == 2
    assert all(len(message.splitlines()) == 1 and len(message) < 500 for message in found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("yes", True),
        ("Off", False),
        ("0", 0),
        ("-12", -12),
        ("1400", 1400),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("010", "010"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("0x10", "0x10"),
        ("1e999", "1e999"),
        (".nan", ".nan"),
        ("9" * 18, int("9" * 18)),
        ("9" * 19, "9" * 19),
        ("9" * 5000, "9" * 5000),
        ("2025-05-13", "2025-05-13"),
        ("fd00::", "fd00::"),
        ("\u0661", "\u0661"),
    ],
)
def test_plain_scalars(text: str, value) -> None:
    assert plain_value(text) == value
    assert type(plain_value(text)) is type(value)
