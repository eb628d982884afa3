# SPDX-License-Identifier: Apache-2.0
"""All mistakes of an inventory at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...module_utils.common.text.nearest import nearest, nearest_word
from .fleet import CONTROL, EXTERNAL, NODES, STATE, Fleet, Mistake, Unreadable
from .relations import (
    address_mistakes,
    deployment_mistakes,
    group_mistakes,
    provider_mistakes,
    settings_mistakes,
)
from .values import mistakes_of
from .variables import purpose

PREFIX = "heddle_"
_OTHER_NAME = "choose a name without heddle_ for a variable of your own"
GROUPS = (NODES, STATE, EXTERNAL)


def inventory_mistakes(fleet: Fleet, variables: dict[str, dict], allowed: Iterable[str] = ()) -> list[Mistake]:
    """Return the mistakes of groups, names, values and relations.

    `variables` are the options of all variables (`read_variables`), `allowed` further names that are no mistake.
    """
    found = [*group_mistakes(fleet), *_unknown(fleet, variables, {*allowed}), *_values(fleet, variables)]
    found += [*address_mistakes(fleet), *provider_mistakes(fleet), *deployment_mistakes(fleet)]
    if fleet.common.get("heddle_settings") and not any(
        mistake.variable.partition(".")[0] == "heddle_settings" for mistake in found
    ):
        found += settings_mistakes(fleet)
    return found


def _unknown(fleet: Fleet, variables: dict[str, dict], allowed: set[str]) -> Iterator[Mistake]:
    # Compared without the prefix, which would make any two of them similar.
    plain = {name.removeprefix(PREFIX): name for name in variables}
    for host, names in fleet.names.items():
        for name, origin in names.items():
            if name not in variables and name not in allowed:
                similar = nearest_word(name.removeprefix(PREFIX), plain)
                remedy = f"did you mean {plain[similar]}?" if similar else _OTHER_NAME
                yield Mistake((host,), name, "is no variable of Heddle", remedy, origin)


def _values(fleet: Fleet, variables: dict[str, dict]) -> Iterator[Mistake]:
    for name, option in variables.items():
        if option["scope"] == "host":
            for host in fleet.hosts(*option["groups"]):
                value = fleet.variables.get(host, {}).get(name)
                required = host in fleet.hosts(*option.get("required", []))
                yield from _value(host, name, value, {**option, "required": required}, fleet.names.get(host, {}))
        else:
            required = "required" in option and name not in fleet.differing
            places = fleet.names.get(CONTROL, {})
            yield from _value("", name, fleet.common.get(name), {**option, "required": required}, places)


def _value(host: str, name: str, value, option: dict, origins: dict[str, str]) -> Iterator[Mistake]:
    hosts = (host,) if host else ()
    origin = origins.get(name, "")
    if isinstance(value, Unreadable):
        yield Mistake(hosts, name, f"the template fails: {value.reason}", "define what it refers to", origin)
    elif value is None and option["required"]:
        misspelt = any(given != name and nearest(given.removeprefix(PREFIX), [name.removeprefix(PREFIX)])
                       for given in origins)  # fmt: skip
        if not misspelt:
            yield Mistake(hosts, name, "is missing", f"set it: {purpose(option)}")
    else:
        for path, rule, remedy in mistakes_of(value, option, name):
            yield Mistake(hosts, path, rule, remedy, origin)
