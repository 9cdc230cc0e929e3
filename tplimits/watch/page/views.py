"""Kinds of panels: what a page shows of which values.  `Recording.page` chooses by shape where none are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from tplimits.watch.page.fields import plain


@dataclass(frozen=True)
class View:
    """One panel of a page."""

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for f in fields(self):
            found = plain(type(self).__name__, f.name, str(f.type), getattr(self, f.name))
            object.__setattr__(self, f.name, found)

    def spec(self) -> dict[str, Any]:
        """Its fields, as the page reads them."""
        return {"kind": self.kind, **asdict(self)}

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the values it shows."""
        return ()


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
    kind: ClassVar[str] = "plane"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.value, *self.beside, *self.arrows)


@dataclass(frozen=True)
class Triangle(View):
    """Three numbers that sum to one along `axis`, as points of a triangle; of two, the share of the second one."""

    value: str
    axis: str | None = None
    colour: str | None = None
    limit: bool = True
    title: str | None = None
    kind: ClassVar[str] = "triangle"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.value,)


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
    kind: ClassVar[str] = "matrix"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.value,)


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
    kind: ClassVar[str] = "density"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.value, *self.beside)


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
    kind: ClassVar[str] = "levels"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.start, self.end if self.table is None else self.table)


@dataclass(frozen=True)
class Curves(View):
    """Curves of whole networks over training, a band for every width: "loss", "accuracy", "gradient W", …"""

    names: Sequence[str] = ("loss",)
    log: bool = False
    title: str | None = None
    kind: ClassVar[str] = "curves"


@dataclass(frozen=True)
class Trace(View):
    """A number, or the entries of a value without neurons, over training; of what sees data, those of one probe."""

    value: str
    title: str | None = None
    kind: ClassVar[str] = "trace"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.value,)


@dataclass(frozen=True)
class Errors(View):
    """How far the outputs on the probes are from those of the limit, by width, beside the slope −1/2."""

    title: str | None = None
    kind: ClassVar[str] = "errors"


@dataclass(frozen=True)
class Probes(View):
    """No panel: how probes are coloured, marked and named in all panels.

    colours: a number for each probe, equal ones get the same colour, and halves a paler one: 2.5 is a lighter 2.
    marks: 0 a circle, 1 a square, 2 a triangle.  texts: what stands beside a probe.
    """

    colours: Sequence[float] | None = None
    marks: Sequence[int] | None = None
    texts: Sequence[str | float] | None = None
    kind: ClassVar[str] = "probes"
