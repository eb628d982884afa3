# SPDX-License-Identifier: Apache-2.0
"""Label selectors (Kubernetes LabelSelector)."""

from __future__ import annotations

from .names import check_label_key, read_label_value, read_labels
from .node import Node

# Kubernetes puts this label on every namespace by itself.
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def matches(selector: dict, labels: dict) -> bool:
    """Whether labels satisfy a normalised selector. An empty selector matches everything."""
    if any(labels.get(key) != value for key, value in selector["matchLabels"].items()):
        return False
    return all(_satisfied(expression, labels) for expression in selector["matchExpressions"])


class LabelledNames:
    """Names with labels, to find those that selectors match without a look at each name for each selector."""

    def __init__(self, labels: dict[str, dict]) -> None:
        self._labels = labels
        self._places = {name: place for place, name in enumerate(labels)}
        self._having: dict[tuple[str, str], list[str]] = {}
        for name, own in labels.items():
            for pair in own.items():
                self._having.setdefault(pair, []).append(name)

    def __contains__(self, name: str) -> bool:
        return name in self._labels

    def selected(self, selector: dict) -> tuple[str, ...]:
        """Return the names whose labels satisfy a normalised selector, in their order."""
        wanted = [[pair] for pair in selector["matchLabels"].items()]
        wanted += [
            [(expression["key"], value) for value in expression["values"]]
            for expression in selector["matchExpressions"]
            if expression["operator"] == "In"
        ]
        candidates = [
            {name for pair in pairs for name in self._having.get(pair, ())} for pairs in wanted
        ]  # fmt: skip
        fewest = sorted(min(candidates, key=len), key=self._places.__getitem__) if candidates else self._labels
        return tuple(name for name in fewest if matches(selector, self._labels[name]))


def read_selector(node: Node | None) -> dict:
    """The normalised selector: ``{"matchLabels": {}, "matchExpressions": [{"key", "operator", "values"}]}``."""
    if node is None:
        return {"matchLabels": {}, "matchExpressions": []}
    fields = node.mapping(("matchLabels", "matchExpressions"))
    expressions = fields.get("matchExpressions")
    return {
        "matchLabels": read_labels(fields.get("matchLabels")),
        "matchExpressions": [_read_expression(item) for item in expressions.sequence()] if expressions else [],
    }


def selector_text(selector: dict) -> str:
    """A normalised selector as one text, equal for selectors that differ in their order only.

    The form is ovn-kubernetes's (`shortLabelSelectorString`), which has it in the names of address sets.
    """
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector["matchLabels"].items()))
    expressions = sorted(
        f"LSR{{Key:{one['key']},Operator:{one['operator']},Values:[{' '.join(sorted(one['values']))}],}},"
        for one in selector["matchExpressions"]
    )
    return f"LS{{ML:{{{labels}}},ME:{{{''.join(expressions)}}},}}"


def _satisfied(expression: dict, labels: dict) -> bool:
    key, values = expression["key"], expression["values"]
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f"unknown operator {expression['operator']}")


def _read_expression(node: Node) -> dict:
    fields = node.mapping(("key", "operator", "values"))
    key_field = fields.require("key", "name the label")
    key = key_field.text() if key_field else None
    if key is not None:
        check_label_key(key_field, key)
    operator_field = fields.require("operator", f"use one of {', '.join(_OPERATORS)}")
    operator = operator_field.choice(_OPERATORS) if operator_field else None
    values_field = fields.get("values")
    values = [read_label_value(item) for item in values_field.sequence()] if values_field else []
    _check_values(fields, operator, values)
    return {"key": key, "operator": operator, "values": values}


def _check_values(fields, operator: str | None, values: list) -> None:
    if operator in ("In", "NotIn") and not values:
        fields.require(
            "values", "list at least one value", f"Required value: must be specified when operator is {operator}"
        )
        if fields.get("values") and fields.get("values").value == []:
            fields.get("values").refuse(f"must not be empty when operator is {operator}", "list at least one value")
    elif operator in ("Exists", "DoesNotExist") and values:
        fields.get("values").refuse(f"must be unset when operator is {operator}", "remove it, or use In or NotIn")
