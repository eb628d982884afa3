# SPDX-License-Identifier: Apache-2.0
"""Checks a value against the options of its variable: type, choices, range, format, elements, entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...module_utils.common.text.nearest import nearest
from . import formats
from .variables import purpose

# Path, rule, remedy.
Mistake = tuple[str, str, str]

_TRUTHS = ("true", "false", "yes", "no", "on", "off", "1", "0")
_WORDS = {
    "str": "a text", "path": "a path", "int": "a number", "bool": "true or false", "list": "a list",
    "dict": "a dictionary",
}  # fmt: skip


def mistakes_of(value, option: dict, path: str, *, nested: bool = False) -> Iterator[Mistake]:
    """Yield what is wrong with a value. None counts as not set.

    Extra variables of the form NAME=VALUE are texts, so a number or a truth value may be written as text, but not
    `nested` in a list or dictionary.
    """
    if value is None or (value == "" and option.get("empty")):
        return
    kind = option["type"]
    if kind == "list" and option.get("commas") and isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if kind == "int" and not nested and isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if not _is(value, kind, nested):
        yield path, f"{_shown(value)} is not {_WORDS[kind]}", _type_remedy(kind, value)
        return
    if kind == "list":
        yield from _list_mistakes(value, option, path)
    elif kind == "dict":
        yield from _dict_mistakes(value, option, path)
    else:
        yield from _scalar_mistakes(value, option, path)


def _is(value, kind: str, nested: bool) -> bool:
    if kind == "raw":
        return True
    if kind == "bool":
        return isinstance(value, bool) or (not nested and str(value).lower() in _TRUTHS)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"str": str, "path": str, "list": list, "dict": dict}[kind])


def _type_remedy(kind: str, value) -> str:
    if kind == "list" and isinstance(value, str):
        return f"write [{value}]"
    if kind in ("str", "path") and isinstance(value, bool | int | float):
        return f'write "{value}" in quotes'
    return f"write {_WORDS[kind]}"


def _scalar_mistakes(value, option: dict, path: str) -> Iterator[Mistake]:
    choices = option.get("choices")
    if choices and value not in choices:
        remedy = nearest(str(value), choices) or f"choose {' or '.join(choices)}"
        yield path, f"{_shown(value)} is not supported", remedy
        return
    if "range" in option:
        least, *most = option["range"]
        if value < least or (most and value > most[0]):
            limits = f"from {least} to {most[0]}" if most else f"of at least {least}"
            yield path, f"{value} is out of range", f"write a number {limits}"
            return
    found = getattr(formats, option["format"])(value) if "format" in option else None
    if found:
        yield path, *found


def _list_mistakes(value: list, option: dict, path: str) -> Iterator[Mistake]:
    element = {"type": option.get("elements", "raw")}
    element |= {key: option[key] for key in ("format", "choices", "range", "options") if key in option}
    if not value and option.get("required"):
        yield path, "is empty", "write at least one element"
    seen = []
    for number, item in enumerate(value):
        place = f"{path}[{number}]"
        if item is None:
            yield place, "is empty", "remove it, or write its value"
        elif isinstance(item, str) and item in seen:
            yield place, f"{_shown(item)} is there twice", "remove one of them"
        else:
            yield from mistakes_of(item, element, place, nested=True)
        seen.append(item)


def _dict_mistakes(value: dict, option: dict, path: str) -> Iterator[Mistake]:
    if "entries" in option:
        for key, entry in value.items():
            found = getattr(formats, option["format"])(str(key))
            if found:
                yield f"{path}.{key}", *found
            elif entry is None:
                yield f"{path}.{key}", "is empty", f"write {{{', '.join(option['entries'])}}}"
            else:
                yield from mistakes_of(
                    entry, {"type": "dict", "options": option["entries"]}, f"{path}.{key}", nested=True
                )
        return
    known = option.get("options")
    if known is None:
        return
    meant = set()
    for key, item in value.items():
        if key in known:
            yield from mistakes_of(item, known[key], f"{path}.{key}", nested=True)
        else:
            remedy = nearest(str(key), known)
            meant.add(remedy.removeprefix("did you mean ").removesuffix("?"))
            yield f"{path}.{key}", "is unknown", remedy or f"known are {', '.join(known)}"
    yield from _missing(value, known, meant, path)


def _missing(value: dict, known: dict, meant: Iterable[str], path: str) -> Iterator[Mistake]:
    for key, option in known.items():
        if option.get("required") and value.get(key) is None and key not in meant:
            yield f"{path}.{key}", "is missing", f"set it: {purpose(option)}"


def _shown(value) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
