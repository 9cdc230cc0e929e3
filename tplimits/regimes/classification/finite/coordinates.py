"""The coordinate check: powers of n measured on finite networks beside those that were counted.

Networks of several widths, up to 16 times as many of narrow ones, take a few steps with an error signal of order 1.
For every feature, for what readouts multiply and for f, the size in one network is the root mean square of the entries
at the start, and of their change since; its logarithm, averaged over networks, is fitted by p log n + c.  The variance
between networks gives the error of p.  A measured power counts where it is on the other side of 0 than the counted one
by more than that error, at a level that holds for all rows together: the regime that follows is the measured one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from scipy.stats import t as student

from tplimits.errors import CheckError
from tplimits.pages.curves import Curve, drawn
from tplimits.pages.report import Report, Reported, document
from tplimits.program.nodes.given import whole_from
from tplimits.regimes.classification.derivation.sizes import NOTHING, Power
from tplimits.regimes.training.finite.networks import Trained, train

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.classification.derivation.counting import Counting
    from tplimits.sampling.sampling import Sampling

Array = NDArray[numpy.float64]

#: inputs and entries of an input that are drawn where none are given
_INPUTS, _ENTRIES = 3, 4
#: a power this close to 0 counts as 0: half of the ¼ that powers are taken to be away from it
TOLERANCE = 1 / 8
#: values in the table of a report
_MOST_ROWS = 40
#: sizes below are those of sums that cancel exactly
ROUNDING = 1e-12


@dataclass(frozen=True)
class Training:
    """How networks are trained: inputs, error signals, both drawn if left out, the rate and the number of steps."""

    X: Any = None
    error: Any = None
    lr: Any = 0.5
    steps: int = 2


@dataclass(frozen=True)
class Coordinate:
    """One value: its power of n at the start (t = 0), or of its change after t steps, counted and measured.

    `scale` is the power that it has where all is of order 1: 0 but for values that the program multiplies by powers,
    and at the start for averages that vanish.  `error` is how far `measured` may be off, at a level that holds for all
    rows.  Scalars, unlike vectors, may be smaller than their scale at the start.
    """

    name: str
    t: int
    counted: Power
    measured: float
    sizes: tuple[float, ...]
    scale: Power = 0.0
    error: float = 0.0
    is_vector: bool = True

    @property
    def difference(self) -> float:
        """Measured minus counted."""
        return self.measured - float(self.counted) if self.measured != self.counted else 0.0

    def compared(self, threshold: float, measured: bool) -> int:
        """The side of a threshold, next to the scale, that the power is on: 1 above, −1 below.

        A measured power that is not clearly on one side is where the counted one is.
        """
        if measured and abs(self.measured - float(self.scale) - threshold) > self.error:
            return 1 if self.measured - float(self.scale) > threshold else -1
        return 1 if float(self.counted) - float(self.scale) > threshold else -1

    @property
    def is_decided(self) -> bool:
        """Whether the error is small enough to tell on which side of 0 the power is."""
        return min(abs(self.measured - float(self.scale) - x) for x in (TOLERANCE, -TOLERANCE)) > self.error


@dataclass(frozen=True)
class CoordinateCheck(Reported):
    """Measured powers of n beside counted ones, and the regimes that follow from both."""

    widths: tuple[int, ...]
    rows: tuple[Coordinate, ...]
    counted_regime: str
    measured_regime: str
    seed: int | None = None

    @property
    def agrees(self) -> bool:
        """Whether the measured regime is the counted one."""
        return self.counted_regime == self.measured_regime

    @property
    def worst(self) -> Coordinate:
        """The row where the measured power is farthest from the counted one."""
        return max(self.rows, key=lambda row: abs(row.difference))

    @property
    def undecided(self) -> tuple[Coordinate, ...]:
        """The rows that would take more networks, or wider ones, to tell on which side of 0 they are."""
        return tuple(row for row in self.rows if not row.is_decided)

    def report(self) -> Report:
        """Sizes against widths, and the powers that fit them beside those that were counted."""
        kept = [row for row in self.rows if all(size > 0 for size in row.sizes)]
        farthest = sorted(kept, key=lambda row: -abs(row.difference))[:8]
        widths = tuple(map(float, self.widths))
        curves = [
            Curve(
                f"{'Δ' if r.t else ''}{r.name}{f', step {r.t}' if r.t else ''}",
                widths,
                tuple(math.log2(s / r.sizes[0]) for s in r.sizes),
            )
            for r in farthest
            if len(r.sizes) == len(widths)
        ]
        told = [
            (_called(r), f"n^({r.measured:.2f} ± {r.error:.2f}), counted n^({r.counted})")
            for r in self.rows[:_MOST_ROWS]
        ]
        first = repr(self).splitlines()[0]
        return Report(
            title=f"Coordinate check: {'as counted' if self.agrees else 'not as counted'}",
            answer=first[0].upper() + first[1:] + ".",
            text=repr(self),
            numbers=tuple(told),
            picture=drawn(curves, "width n; log₂ of the size over that at the first width", logarithmic=True),
            seed=self.seed,
            document=document(
                "tplimits coordinate check",
                widths=self.widths,
                counted=self.counted_regime,
                measured=self.measured_regime,
                seed=self.seed,
                rows=[
                    {"name": r.name, "t": r.t, "counted": str(r.counted), "measured": r.measured, "error": r.error}
                    for r in self.rows
                ],
            ),
        )

    def __repr__(self) -> str:
        lines = [
            f"measured {self.measured_regime}, counted {self.counted_regime}; widths {', '.join(map(str, self.widths))}"
        ]
        for row in self.rows:
            lines.append(f"  {_called(row)}: n^{row.measured:.2f} ± {row.error:.2f}, counted n^({row.counted})")
        return "\n".join(lines)


def _called(row: Coordinate) -> str:
    return f"{row.name} at the start" if row.t == 0 else f"change of {row.name} after {row.t} step(s)"


def coordinate_check(
    counting: Counting | None, training: Training, sampling: Sampling, ratios: Mapping[str, float] | None = None
) -> CoordinateCheck:
    """Train networks and fit powers; see `Classification.check`.  `sampling` has the widths and a number of draws."""
    if counting is None:
        raise CheckError("the exponents have symbols; a coordinate check needs numbers.")
    sizes = sorted({whole_from("widths", n, 2, CheckError) for n in sampling.widths or ()})
    if len(sizes) < 2:
        raise CheckError(f"widths={sampling.widths!r}: powers of n need two widths or more.")
    steps, draws = (
        whole_from("steps", training.steps, 1, CheckError),
        whole_from("draws", sampling.draws, 2, CheckError),
    )
    rng = numpy.random.default_rng(sampling.seed)
    data = training.X if training.X is not None else _inputs(counting.network, rng)
    signal = training.error if training.error is not None else _constant_signal(rng)
    kept = _kept(counting)

    def trained(n: int, times: int, many: int, keep: Mapping[str, int]) -> Trained:
        return train(
            counting.network, counting.parametrization, counting.optimizer, data, signal, training.lr, times, n,
            sampling.seed + n, draws=many, keep=keep, ratios=ratios,
        )  # fmt: skip

    runs = [trained(n, steps, draws * min(16, sizes[-1] // n), kept) for n in sizes]
    # f before training is one number a network and input: it takes many networks, of narrower ones
    starts = [trained(max(2, n // 4), 0, 16 * draws, {}) for n in sizes]
    found = _Rows(counting, kept, sampling.level / (1 + (len(kept) + 1) * (steps + 1)))
    rows = (found.output_at_start(starts), *(row for t in range(steps + 1) for row in found.at(t, runs)))
    return CoordinateCheck(
        tuple(sizes), rows, _regime(rows, measured=False), _regime(rows, measured=True), sampling.seed
    )


def _inputs(network: Program, rng: numpy.random.Generator) -> dict[str, Array]:
    """Standard normal inputs."""
    found = {}
    for position in network.inputs:
        s = network[position]
        shape = [int(network.size(a) or _ENTRIES) for a in s.axes]
        found[s.name] = rng.standard_normal((_INPUTS, *shape))
    return found


def _constant_signal(rng: numpy.random.Generator) -> Callable[[Array], Array]:
    """χ that does not depend on f: of order 1 also where f has grown."""
    seed = int(rng.integers(2**31))

    def signal(f: Array) -> Array:
        return numpy.random.default_rng(seed).choice([-1.0, 1.0], size=f.shape) / len(f)

    return signal


def _kept(counting: Counting) -> dict[str, int]:
    """The features and what readouts multiply, by position in the total program."""
    found = {counting.name(p): p for p in counting.hidden}
    for name in counting.steps[0].reads:
        found[counting.reading(name)] = counting.backward.gradients[name][0].gradient.source
    return found


@dataclass(frozen=True)
class _Rows:
    """The rows of a check, each judged at a level."""

    counting: Counting
    kept: Mapping[str, int]
    level: float

    def output_at_start(self, runs: Sequence[Trained]) -> Coordinate:
        """f before training."""
        return self._fitted("f", 0, [run.f for run in runs], runs)

    def at(self, t: int, runs: Sequence[Trained]) -> list[Coordinate]:
        """The rows after t steps."""
        values = {
            name: [run.kept[name][:, t] - (run.kept[name][:, 0] if t else 0) for run in runs] for name in self.kept
        }
        if t:
            values["f"] = [run.f[:, t] - run.f[:, 0] for run in runs]
        return [self._fitted(name, t, arrays, runs) for name, arrays in values.items()]

    def _fitted(self, name: str, t: int, values: Sequence[Array], runs: Sequence[Trained]) -> Coordinate:
        counting = self.counting
        step = counting.steps[min(t, len(counting.steps) - 1)]
        sizes = {counting.name(p): step.sizes[p] for p in counting.hidden} | {"f": step.output}
        sizes |= {counting.reading(r): size for r, size in step.reads.items()}
        is_scalar = name == "f" or counting.backward.program[self.kept[name]].width is None
        natural = counting.natural if t == 0 else counting.scales
        power, error, rms = _slope([run.n for run in runs], [_size(v) for v in values], self.level)
        counted = sizes[name].change if t else sizes[name].start
        return Coordinate(name, t, counted, power, rms, natural.get(name, 0.0), error, not is_scalar)


def _size(values: Array) -> Array:
    """The root mean square of the entries of each network; what is rounding error is zero."""
    found: Array = numpy.sqrt(numpy.mean(values * values, axis=tuple(range(1, values.ndim))))
    return numpy.where(found > ROUNDING, found, 0.0)


def _slope(widths: Sequence[int], sizes: Sequence[Array], level: float) -> tuple[float, float, tuple[float, ...]]:
    """The power of n that fits best, its error at a one-sided level, and the typical sizes; −∞ for what is zero.

    The spread of logarithms is taken to be the same at all widths; that of averages over neurons falls with n, so that
    the error is then too large.  Networks in which nothing moves are left out, unless they are most.
    """
    logs = [numpy.log(s[s > 0]) for s in sizes]
    typical = tuple(float(numpy.exp(x.mean())) if len(x) else 0.0 for x in logs)
    if any(2 * len(x) < len(s) or len(x) < 2 for x, s in zip(logs, sizes, strict=True)):
        return NOTHING, 0.0, typical
    many = numpy.array([len(x) for x in logs], dtype=float)
    x = numpy.log(numpy.array(widths, dtype=float))
    x = x - (many * x).sum() / many.sum()
    squares = float((many * x * x).sum())
    means = numpy.array([y.mean() for y in logs])
    freedom = many.sum() - len(logs)
    spread = math.sqrt(sum(float(((y - y.mean()) ** 2).sum()) for y in logs) / freedom)
    quantile = float(student.isf(level, freedom))
    return float((many * x * means).sum() / squares), quantile * spread / math.sqrt(squares), typical


def _regime(rows: Sequence[Coordinate], measured: bool) -> str:
    """The regime that powers stand for, next to scales; which of them are 0 is judged within `TOLERANCE`."""
    for row in rows:
        small = row.t == 0 and row.is_vector and row.compared(-TOLERANCE, measured) < 0
        if row.compared(TOLERANCE, measured) > 0 or small:
            return "unstable"
    moving = [row for row in rows if row.t and row.compared(-TOLERANCE, measured) > 0]
    if not any(row.name == "f" for row in moving):
        return "trivial"
    return "feature" if any(row.name != "f" for row in moving) else "operator"
