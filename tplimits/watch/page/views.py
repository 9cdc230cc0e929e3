"""Kinds of panels: what a page shows of which values, and what a user gives for each of their fields.

`Recording.page` chooses by shape where no panels are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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


@dataclass(frozen=True)
class View:
    """One panel of a page."""

    def __post_init__(self) -> None:
        for f in fields(self):
            found = plain(type(self).__name__, f.name, str(f.type), getattr(self, f.name))
            object.__setattr__(self, f.name, found)

    def spec(self) -> dict[str, Any]:
        """Its fields, as the page reads them."""
        return {"kind": type(self).__name__.lower(), **asdict(self)}

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the values it shows."""
        own = vars(self)
        return (*([own["value"]] if "value" in own else ()), *own.get("beside", ()), *own.get("arrows", ()))


@dataclass(frozen=True)
class Plane(View):
    """Points in a plane, one for each index of a value but that of `axis`, whose entries are the coordinates.

    axis: an axis of at least two entries; the last one, unless another has two.  entries: which two; of more than two
    None takes the two principal components.  beside: values that are drawn faintly in the same plane.  arrows: values
    drawn from the origin.  rays: a line from the origin to every point.  colour: the axis whose index gives the colour,
    "probe" for that of inputs, "neuron" for that of a ket.  squares: {axis: index}, points from this index on are
    squares.  texts: names beside the points.  limit: whether the limit stands beside finite networks.
    """

    value: str
    axis: str | None = None
    entries: tuple[int, int] | None = None
    beside: Sequence[str] = ()
    arrows: Sequence[str] = ()
    rays: bool = False
    colour: str | None = None
    squares: Mapping[str, int] | None = None
    texts: bool = False
    limit: bool = True
    title: str | None = None


@dataclass(frozen=True)
class Triangle(View):
    """Three numbers that sum to one along `axis`, as points of a triangle; of two, the share of the second one."""

    value: str
    axis: str | None = None
    colour: str | None = None
    limit: bool = True
    title: str | None = None


@dataclass(frozen=True)
class Matrix(View):
    """A value over two axes as shades of a colour; "probe" is the axis of inputs.

    range: the values of the lightest and the darkest shade; those of the frame where it is left out.  line: a line
    before this column.  label: the rows of probes with this label alone.
    """

    value: str
    rows: str | None = None
    columns: str | None = None
    range: tuple[float, float] | None = None
    line: int | None = None
    label: int | None = None
    title: str | None = None


@dataclass(frozen=True)
class Density(View):
    """The law of a ket: the density of the limit, and the neurons of finite networks as dots.

    axis: an axis of two entries makes it a density in the plane; without one it is a curve.  colour, rays, beside: as
    in `Plane`.
    """

    value: str
    axis: str | None = None
    colour: str | None = "neuron"
    rays: bool = False
    beside: Sequence[str] = ()
    title: str | None = None


@dataclass(frozen=True)
class Levels(View):
    """The map from one value to a later one, over the plane of the first: level lines, and the probes in front.

    start: a value with one finite axis of two entries; end: a value with at most one finite axis that depends on the
    input through it, such as "probability".  What else `end` reads of the input is that of the chosen probe.  table:
    instead of `end`, a value of two axes, (classes, those of `start`); the map is then the softmax of table·x.
    """

    start: str
    end: str = "probability"
    table: str | None = None
    title: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.start, self.end if self.table is None else self.table)


@dataclass(frozen=True)
class Curves(View):
    """Curves of whole networks over training, a band for every width: "loss", "accuracy", "gradient W", …"""

    names: Sequence[str] = ("loss",)
    log: bool = False
    title: str | None = None


@dataclass(frozen=True)
class Trace(View):
    """A number, or the entries of a value without neurons, over training; of what sees data, those of one probe."""

    value: str
    title: str | None = None


@dataclass(frozen=True)
class Errors(View):
    """How far the outputs on the probes are from those of the limit, by width, beside the slope −1/2."""

    title: str | None = None


@dataclass(frozen=True)
class Probes(View):
    """No panel: how probes are coloured, marked and named in all panels.

    colours: a number for each probe, equal ones get the same colour, and halves a paler one: 2.5 is a lighter 2.
    marks: 0 a circle, 1 a square, 2 a triangle.  texts: what stands beside a probe.
    """

    colours: Sequence[float] | None = None
    marks: Sequence[int] | None = None
    texts: Sequence[str | float] | None = None
