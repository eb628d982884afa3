# SPDX-License-Identifier: Apache-2.0
"""Splits a file into YAML documents and parses each by itself, so that one broken document does not hide the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .yaml_builder import DocumentBuilder, ExpansionBudget, Mistake, RefusedError

try:
    import yaml
except ImportError as error:
    YAML_IMPORT_ERROR = error
else:
    YAML_IMPORT_ERROR = None

MAXIMUM_FILE_SIZE = 8 * 1024 * 1024
_EXPANSION_PER_FILE = 1024 * 1024
# A line that starts so always starts a document: YAML allows it in no scalar.
_SEPARATOR = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*+%")


@dataclass(frozen=True)
class Document:
    """One document: its value, the line of each field by path, and the mistakes of its text.

    ``broken`` documents have no usable value.
    """

    number: int
    line: int
    value: object
    lines: dict
    mistakes: tuple
    broken: bool = False


def parse_documents(file: str, text: str) -> list[Document]:
    """All documents of a file. No text makes this raise; empty documents have the value None."""
    if YAML_IMPORT_ERROR is not None:
        raise ImportError("PyYAML is required to read manifests (Debian package python3-yaml)") from YAML_IMPORT_ERROR
    if len(text) > MAXIMUM_FILE_SIZE:
        mistake = Mistake(1, "", f"file is larger than {MAXIMUM_FILE_SIZE // 1024 // 1024} MiB", "split it")
        return [Document(1, 1, None, {}, (mistake,), broken=True)]
    text = text.removeprefix("\ufeff")
    if file.endswith(".json"):
        # YAML refuses tabs between JSON tokens; JSON has none inside text.
        text = text.replace("\t", " ")
    budget = ExpansionBudget(_EXPANSION_PER_FILE)
    documents: list[Document] = []
    for line, chunk in _chunks(text):
        documents.extend(_parse_chunk(chunk, line, len(documents) + 1, budget))
    return documents


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """The text between document separators, each with the line it starts on."""
    starts = sorted({0, *(match.start() for match in _SEPARATOR.finditer(text))})
    line = 1
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield line, text[start:end]
        line += text.count("\n", start, end)


def _parse_chunk(text: str, line: int, number: int, budget: ExpansionBudget) -> list[Document]:
    directive = _DIRECTIVE.match(text)
    if directive:
        line += directive.group().count("\n")
        mistake = Mistake(line, "", "YAML directives are not supported", "remove the line")
        return [Document(number, line, None, {}, (mistake,), broken=True)]
    if hasattr(yaml, "CSafeLoader"):
        before = budget.left
        documents, valid = _compose(text, line, number, budget, yaml.CSafeLoader)
        if valid:
            return documents
        # Both parsers accept the same YAML but word its errors differently: always use the messages of the same one.
        budget.left = before
    return _compose(text, line, number, budget, yaml.SafeLoader)[0]


def _compose(text: str, line: int, number: int, budget: ExpansionBudget, loader) -> tuple[list[Document], bool]:
    """The documents of a chunk, and whether it was valid YAML."""
    documents: list[Document] = []
    builder = DocumentBuilder(line, budget)
    mistake = None
    valid = True
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.DocumentStartEvent):
                builder = DocumentBuilder(line + event.start_mark.line, budget)
            elif isinstance(event, yaml.DocumentEndEvent):
                documents.append(_finished(builder, number + len(documents)))
            elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                _feed(builder, event, line + event.start_mark.line)
    except RefusedError as refusal:
        mistake = refusal.mistake
    except yaml.YAMLError as error:
        valid = False
        mistake = _syntax_mistake(error, text, line)
    except (ValueError, OverflowError):
        # PyYAML turns escapes such as "\Uffffffff" into characters without a check.
        valid = False
        mistake = Mistake(line, "", "not valid YAML: an escape names no character", "correct the escape")
    if mistake:
        mistakes = (*builder.mistakes, mistake)
        documents.append(Document(number + len(documents), mistake.line, None, {}, mistakes, broken=True))
    return documents, valid


def _feed(builder: DocumentBuilder, event, line: int) -> None:
    if isinstance(event, yaml.ScalarEvent):
        builder.scalar(event, line)
    elif isinstance(event, yaml.AliasEvent):
        builder.alias(event, line)
    elif isinstance(event, yaml.MappingStartEvent):
        builder.start({}, event, line)
    elif isinstance(event, yaml.SequenceStartEvent):
        builder.start([], event, line)
    else:
        builder.end()


def _finished(builder: DocumentBuilder, number: int) -> Document:
    return Document(number, builder.line, builder.value, builder.lines, tuple(builder.mistakes))


def _syntax_mistake(error, text: str, line: int) -> Mistake:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        rule = error.problem or error.context or "syntax error"
        remedy = ""
        if "'\\t'" in rule:
            remedy = "indent with spaces, not tabs"
        elif error.context and error.context_mark is not None:
            remedy = f"it was found {error.context} on line {line + error.context_mark.line}"
        line += error.problem_mark.line
        return Mistake(line, "", f"not valid YAML: {' '.join(rule.split())[:200]}", remedy)
    position = getattr(error, "position", 0)
    line += text.count("\n", 0, position)
    return Mistake(line, "", "not valid YAML: special characters are not allowed", "remove control characters")
