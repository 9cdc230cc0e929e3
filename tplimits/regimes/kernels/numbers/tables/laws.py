"""Means of one Gaussian law on arrays: all closed moments of it together, with the gap of a piecewise linear one.

With G = (c11 + c22)/2 − c12, half the squared distance of the two variables, and r = √(c11 c22),

    e = r − c12 = G − ½(√c11 − √c22)²,   f = r + c12 = 2r − e,   det = e·f = (r sin θ)²

keep the digits of an angle between nearly equal inputs, which 1 − ρ² has lost.  φ(z) = f₊z₊ + f₋(−z)₊ with
m = (f₊² + f₋²)/2 and β = (f₊ + f₋)²/(2m) makes of a gap G

    m·(½(√c11 − √c22)² + e − β (r sin θ − θ c12)/π),

and of obtuse angles, φ = π − θ, e − β (…)/π is (2 − β) r + (β − 1) f − β (r sin φ + φ c12)/π.

What is below the rounding of G or of the lengths is zero: collinear inputs have the angle 0.  Where F = (c11 + c22)/2
+ c12 is known, f = F − ½(√c11 − √c22)² has its digits from there, and collinear opposites have the angle π.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.numbers.moments.determinants import Kernel, piecewise_linear
from tplimits.numbers.moments.function import MomentFunction, closed_text
from tplimits.numbers.moments.quadrant import Angle
from tplimits.numbers.moments.writing import Code, Writer, function, number
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, step, union
from tplimits.regimes.kernels.numbers.tables.moment import refuse_underflow

#: what a law is asked for: a moment, the gap or the determinant of a piecewise linear function by its slopes, where f
#: has lost its digits
Part = MomentFunction | tuple[float, float] | str
OPPOSITE, COLLINEAR = "opposite", "collinear"
#: where f is below this share of r its rounding shows in the angle between opposite inputs
_NEARLY_OPPOSITE = 1e-9
#: in units of its rounding: below, e has too few digits for an angle to 1e-10, in single precision to 1e-5
_NEARLY_COLLINEAR, _NEARLY_COLLINEAR_SINGLE = 1e5, 30.0
#: below so many units of rounding of the lengths, e and f are zero
_ROUNDING = 8
_EPS = float(numpy.finfo(numpy.float64).eps)


@dataclass(eq=False)
class Law:
    """What is asked of one law.

    `gapped` tells that its third argument is the gap, not the covariance; `opposed` that F is known as well,
    `determined` that the determinant is.
    """

    gapped: bool
    coincident: bool = False
    opposed: bool = False
    determined: bool = False
    parts: list[Part] = field(default_factory=list)

    def place(self, part: Part) -> int:
        """The number of a part, which is added where it is new."""
        if part not in self.parts:
            self.parts.append(part)
        return self.parts.index(part)

    def arrays(self) -> Callable[..., Any]:
        """The parts as a function of arrays: c11, c22, c12, or c11, c22, G, both √c and 1/√c; F or det last."""
        names = ["c11", "c22", "third", *(("a", "b", "ia", "ib") if self.gapped else ())]
        names += ["opposite"] if self.opposed else ["det"] if self.determined else []
        return _arrays(tuple(self.parts), self.gapped, self.coincident, tuple(names))


def written(
    writer: Writer, parts: Sequence[Part], gapped: bool, coincident: bool, names: Sequence[str], eps: float = _EPS
) -> list[str]:
    """The parts as names in a text; `names` are those of the arguments of `Law.arrays`."""
    c11, c22, third, *roots = names
    let, call = writer.let, writer.call
    unit = number(_ROUNDING * eps)
    if coincident:
        law = (c11, c11, c22, "0.0")
        return [closed_text(writer, p, law) for p in parts if isinstance(p, MomentFunction)]
    if gapped:
        a, b, ia, ib, *opposed = roots
        r = let(f"{a}*{b}")
        # closed moments ask for √(c11 c22): it is at hand as a product of roots
        writer.know(call("sqrt", f"{c11}*{c22}"), r)
        d = let(f"{a} - {b}")
        h = let(f"0.5*{d}*{d}")
        raw = let(f"{third} - {h}")
        least = let(f"{unit}*({h} + 0.5*{call('fabs', d)}*({a} + {b}))")  # the rounding of h: lengths have their own
        e = let(writer.select(f"{raw} > {least}", raw, "0.0"))
        rest = let(f"{opposed[0]} - {h}" if opposed else f"2.0*{r} - {e}")
        f = let(writer.select(f"{rest} > {least if opposed else f'{unit}*{r}'}", rest, "0.0"))
        cross, det = let(f"{r} - {e}"), let(f"{e}*{f}")
        if writer.scalar:
            # 1 − cos of the acute angle, with all the digits of e or f
            versine = let(f"{writer.call('fmin', e, f)}*{ia}*{ib} if {r} > 0.0 else 0.0")
            acute = _one_angle(writer, cross, det, lambda root: writer.call("arc", versine))
        else:
            acute = _one_angle(writer, cross, det, lambda root: writer.call("atan2", root, writer.call("fabs", cross)))
    else:
        if roots:
            raw, least = roots[0], "0.0"
        else:
            size = let(f"{c11}*{c22}")
            raw, least = let(f"{size} - {third}*{third}"), f"2e-14*{size}"
        cross = third
        # c11 c22 − c12² of equal inputs is rounding: an angle of 1e-8 for one of 0
        det = let(writer.select(f"{raw} > {least}", raw, "0.0"))
        h = e = f = r = acute = ""
    law = (c11, cross, c22, det)
    found = []
    for part in parts:
        if isinstance(part, MomentFunction):
            found.append(closed_text(writer, part, law))
        elif isinstance(part, str):
            few = _NEARLY_COLLINEAR if eps == _EPS else _NEARLY_COLLINEAR_SINGLE
            found.append(let(f"{f} < {_NEARLY_OPPOSITE}*{r}" if part == OPPOSITE else f"{raw} < {few}*{least}"))
        elif gapped:
            found.append(_gap(writer, part, (h, e, f, r, cross, acute), Angle(writer, *law)))
        else:
            found.append(piecewise_linear(writer, Kernel(*law), *part))
    return found


def _gap(writer: Writer, slopes: tuple[float, float], law: Sequence[str], angle: Angle) -> str:
    """The gap of a piecewise linear function."""
    (plus, minus), (h, e, f, r, cross, acute) = slopes, law
    m = (plus**2 + minus**2) / 2
    if not m:  # relu(x) relu(−x)
        return writer.let(f"0.0*{h}")
    β = (plus + minus) ** 2 / (2 * m)
    if plus * minus <= 0:  # θ, not π − φ: its last digits are those of a small angle
        near, curved = e, f"{angle.root} - {angle.theta}*{cross}"
    else:  # opposites are near each other as well
        near = writer.let(writer.select(f"{cross} >= 0.0", e, f"{number(2 - β)}*{r} + {number(β - 1)}*{f}"))
        curved = f"{angle.root} - {acute}*{writer.call('fabs', cross)}"
    return writer.let(f"{number(m)}*({h} + {near} - {number(β / math.pi)}*({curved}))")


def _one_angle(writer: Writer, cross: str, det: str, of: Callable[[str], str]) -> str:
    """The acute angle of a law, `of` the root of `det`, and both angles by it: they cost more than all the rest."""
    let, call, pi = writer.let, writer.call, repr(math.pi)
    root = let(call("sqrt", det))
    acute = let(of(root))
    writer.know(call("atan2", root, f"{cross} + 0.0"), let(writer.select(f"{cross} >= 0.0", acute, f"{pi} - {acute}")))
    writer.know(call("atan2", root, f"0.0 - {cross}"), let(writer.select(f"{cross} > 0.0", f"{pi} - {acute}", acute)))
    return acute


@lru_cache(maxsize=512)
def _arrays(parts: tuple[Part, ...], gapped: bool, coincident: bool, names: tuple[str, ...]) -> Callable[..., Any]:
    writer = Writer(scalar=False)
    code: Code = writer.code(*written(writer, parts, gapped, coincident, names))
    made = function(code, "law", names, scalar=False)
    return made if len(parts) > 1 else lambda *arrays: (made(*arrays),)


@step(lambda values, law: union(values))
def evaluated(values: Sequence[Labelled], law: Law) -> Labelled:
    """All parts of a law at (c11, c22, c12 or G): a list of arrays."""
    order = union(values)
    arrays = [v.at(order) for v in values]
    if law.coincident:
        refuse_underflow(arrays[0])
    with numpy.errstate(all="ignore"):
        found: Any = law.arrays()(*arrays)
    shape = numpy.broadcast_shapes(*(a.shape for a in arrays))
    return Labelled([_shaped(f, shape) for f in found], order)  # type: ignore[arg-type]


def _shaped(value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = numpy.asarray(value)
    return array if array.shape == shape else numpy.broadcast_to(array, shape)


@step(lambda values, place: values[0].labels)
def part_of(values: Sequence[Labelled], place: int) -> Labelled:
    """One of the arrays that a law gave."""
    return Labelled(values[0].array[place], values[0].labels)


@step(lambda values, over, sign: tuple(x for x in union(values) if x not in over))
def half_squared_distance(values: Sequence[Labelled], over: tuple[str, ...], sign: int) -> Labelled:
    """½ Σ (x − x′)² over some labels, without the cancellation of Gram matrices; with −x′ for `sign` −1."""
    rest = tuple(x for x in union(values) if x not in over)
    left, right = (v.at([*over, *rest]) for v in values)
    count = math.prod(left.shape[: len(over)])
    left, right = (a.reshape(count, *a.shape[len(over) :]) for a in (left, right))
    return _by_products(left, right if sign > 0 else -right, rest)


#: gaps below this share of the lengths are computed again from differences, in double and in single precision
_NEAR = {8: 1e-3, 4: 1e-2}


#: distances that are looked at together: what is compared stays in the cache
_TOGETHER = 1 << 16


def _by_products(left: NDArray[Any], right: NDArray[Any], rest: tuple[str, ...]) -> Labelled:
    """From |x|² + |x′|² − 2 x·x′, and from differences where much of it cancels."""
    shape = numpy.broadcast_shapes(left.shape[1:], right.shape[1:])
    mine = [k for k in range(len(shape)) if left.shape[1 + k] == shape[k] and right.shape[1 + k] != shape[k]]
    theirs = [k for k in range(len(shape)) if right.shape[1 + k] == shape[k] and left.shape[1 + k] != shape[k]]
    both = [k for k in range(len(shape)) if k not in mine and k not in theirs]
    x = left.transpose([0, *(1 + k for k in both + mine + theirs)])
    y = right.transpose([0, *(1 + k for k in both + mine + theirs)])
    batch = math.prod(shape[k] for k in both)
    x = numpy.moveaxis(x.reshape(len(x), batch, -1), 0, 2)
    y = numpy.moveaxis(y.reshape(len(y), batch, -1), 0, 2)
    mine_, theirs_ = (numpy.einsum("bid,bid->bi", a, a) for a in (x, y))
    found = x @ y.transpose(0, 2, 1)
    rows = max(1, _TOGETHER // max(1, batch * y.shape[1]))
    for start in range(0, x.shape[1], rows):
        part = slice(start, start + rows)
        _as_differences(x[:, part], y, mine_[:, part, None] + theirs_[:, None, :], found[:, part])
    order = both + mine + theirs
    back = [order.index(k) for k in range(len(shape))]
    return Labelled(found.reshape([shape[k] for k in order]).transpose(back), rest)


def _as_differences(x: NDArray[Any], y: NDArray[Any], sizes: NDArray[Any], found: NDArray[Any]) -> None:
    """Half squared distances where the products x·x′ are, near ones from differences; `sizes` are |x|² + |x′|²."""
    numpy.subtract(0.5 * sizes, found, out=found)
    sizes *= _NEAR[found.itemsize]
    near = numpy.nonzero(found < sizes)
    step_ = max(1, (1 << 22) // x.shape[2])
    for start in range(0, len(near[0]), step_):
        b, i, j = (n[start : start + step_] for n in near)
        found[b, i, j] = 0.5 * ((x[b, i] - y[b, j]) ** 2).sum(axis=1)
