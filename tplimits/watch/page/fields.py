"""Fields of views as plain data: what a user gives for each, read by how the field is annotated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import real_array, several, whole_number


class _Wrong(Exception):
    """What is given is not what the field takes."""


def plain(view: str, name: str, annotation: str, value: Any) -> Any:
    """The value of a field as text, numbers, tuples of these, or None; EvaluationError for anything else.

    A page is written as JSON, where NumPy's numbers and arrays have no place, and a name instead of a list of names
    would be read letter by letter.
    """
    kind = annotation.removesuffix(" | None")
    if value is None and kind != annotation:
        return None
    what, read = _KINDS[kind]
    try:
        return read(value)
    except _Wrong:
        shown = f"{value:.40}" if isinstance(value, str) else f"a value of type {type(value).__name__}"
        raise EvaluationError(f"{view}({name}=…): give {what}, not {shown!r}.") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, (bool, numpy.bool_)):
        raise _Wrong
    return bool(value)


def _whole(value: Any) -> int:
    found = whole_number(value)
    if found is None:
        raise _Wrong
    return found


def _number(value: Any) -> float:
    try:
        found = real_array("", value)
    except EvaluationError:
        raise _Wrong from None
    if found.ndim:
        raise _Wrong
    return float(found)


def _label(value: Any) -> str:
    """Text, or a number that stands for itself."""
    return value if isinstance(value, str) else f"{_number(value):g}"


def _tuple(read: Callable[[Any], Any], length: int | None = None) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of tuples, of some length or of any."""

    def found(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) and read is _text:
            return (value,)  # one name is a list of one
        listed = several(value)
        if listed is None or (length is not None and len(listed) != length):
            raise _Wrong
        return tuple(map(read, listed))

    return found


def _by_axis(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise _Wrong
    return {_text(axis): _whole(index) for axis, index in value.items()}


def _range(value: Any) -> tuple[float, float]:
    low, high = _tuple(_number, 2)(value)
    if not (math.isfinite(high - low) and low < high):
        raise _Wrong
    return low, high


#: what a field takes, in words, and its reader
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a name", _text),
    "bool": ("True or False", _flag),
    "int": ("a whole number", _whole),
    "tuple[int, int]": ("two whole numbers", _tuple(_whole, 2)),
    "tuple[float, float]": ("two numbers, the smaller one first", _range),
    "Sequence[str]": ("a list of names", _tuple(_text)),
    "Sequence[str | float]": ("a list of texts", _tuple(_label)),
    "Sequence[float]": ("a list of numbers", _tuple(_number)),
    "Sequence[int]": ("a list of whole numbers", _tuple(_whole)),
    "Mapping[str, int]": ("whole numbers by the names of axes", _by_axis),
}
