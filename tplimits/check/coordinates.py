"""The coordinate check: powers of n measured on finite networks beside those that were counted.

Networks of several widths, up to 16 times as many of narrow ones, take a few steps with an error signal of order 1.
For every feature, for what readouts multiply and for f the root mean square of the entries at the start, and of their
change since, is fitted by n^p.  Where measured powers fall on the same side of 0 as the counted ones, both
classifications agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.check.training import Trained, train
from tplimits.errors import CheckError
from tplimits.limit.classification.counting import Counting
from tplimits.limit.classification.sizes import NOTHING, Power
from tplimits.program.given import seed_number, whole_from
from tplimits.program.program import Program

Array = NDArray[numpy.float64]

#: inputs and entries of an input that are drawn where none are given
_INPUTS, _ENTRIES = 3, 4
#: a power this close to 0 counts as 0: half of the ¼ that powers are taken to be away from it
TOLERANCE = 1 / 8


@dataclass(frozen=True)
class Coordinate:
    """One value: its power of n at the start (t = 0), or of its change after t steps, counted and measured.

    `scale` is the power that it has where all is of order 1: 0 but for values that the program multiplies by powers.
    """

    name: str
    t: int
    counted: Power
    measured: float
    sizes: tuple[float, ...]
    scale: Power = 0.0

    @property
    def difference(self) -> float:
        """Measured minus counted."""
        return self.measured - float(self.counted) if self.measured != self.counted else 0.0


@dataclass(frozen=True)
class CoordinateCheck:
    """Measured powers of n beside counted ones, and the regimes that follow from both."""

    widths: tuple[int, ...]
    rows: tuple[Coordinate, ...]
    counted_regime: str
    measured_regime: str

    @property
    def agrees(self) -> bool:
        """Whether the measured regime is the counted one."""
        return self.counted_regime == self.measured_regime

    @property
    def worst(self) -> Coordinate:
        """The row where the measured power is farthest from the counted one."""
        return max(self.rows, key=lambda row: abs(row.difference))

    def __repr__(self) -> str:
        lines = [
            f"measured {self.measured_regime}, counted {self.counted_regime}; widths {', '.join(map(str, self.widths))}"
        ]
        for row in self.rows:
            what = f"{row.name} at the start" if row.t == 0 else f"change of {row.name} after {row.t} step(s)"
            lines.append(f"  {what}: n^{row.measured:.2f}, counted n^({row.counted})")
        return "\n".join(lines)


def coordinate_check(
    counting: Counting | None,
    widths: Sequence[int],
    X: Any,
    error: Any,
    lr: Any,
    steps: int,
    draws: int,
    seed: int,
) -> CoordinateCheck:
    """Train networks and fit powers; see `Classification.check`."""
    if counting is None:
        raise CheckError("the exponents have symbols; a coordinate check needs numbers.")
    sizes = sorted({whole_from("widths", n, 2, CheckError) for n in widths})
    if len(sizes) < 2:
        raise CheckError(f"widths={widths!r}: powers of n need two widths or more.")
    whole_from("steps", steps, 1, CheckError)
    rng = numpy.random.default_rng(seed_number(seed, CheckError))
    data = X if X is not None else _inputs(counting.network, rng)
    signal = error if error is not None else _constant_signal(rng)
    kept = _kept(counting)
    runs = [
        train(
            counting.network, counting.parametrization, counting.optimizer, data, signal, lr, steps, n, seed,
            draws=draws * min(16, sizes[-1] // n), keep=kept,
        )
        for n in sizes
    ]  # fmt: skip
    rows = (_output_at_start(counting, sizes, data, draws, seed), *_rows(counting, runs, kept, steps))
    return CoordinateCheck(tuple(sizes), rows, _regime(rows, measured=False), _regime(rows, measured=True))


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


def _rows(counting: Counting, runs: Sequence[Trained], kept: Mapping[str, int], steps: int) -> list[Coordinate]:
    rows = []
    features = [name for name in kept if name not in {counting.reading(r) for r in counting.steps[0].reads}]
    for t in range(steps + 1):
        step = counting.steps[min(t, len(counting.steps) - 1)]
        counted = {name: step.sizes[kept[name]] for name in features}
        counted |= {counting.reading(r): size for r, size in step.reads.items()}
        if t:
            counted["f"] = step.output
        for name, size in counted.items():
            values = [run.f if name == "f" else run.kept[name] for run in runs]
            found = tuple(_size(v[:, t] - (v[:, 0] if t else 0.0)) for v in values)
            power = size.change if t else size.start
            rows.append(
                Coordinate(
                    name, t, power, _slope([run.n for run in runs], found), found, counting.scales.get(name, 0.0)
                )
            )
    return rows


def _output_at_start(counting: Counting, widths: Sequence[int], data: Any, draws: int, seed: int) -> Coordinate:
    """f before training: one number a draw and input, so it takes many draws, of narrower networks."""
    narrow = [max(2, n // 4) for n in widths]
    found = tuple(
        _size(
            train(
                counting.network, counting.parametrization, counting.optimizer, data, lambda f: f, 0, 0, n, seed,
                draws=16 * draws,
            ).f
        )
        for n in narrow
    )  # fmt: skip
    return Coordinate("f", 0, counting.steps[0].output.start, _slope(narrow, found), found)


def _size(values: Array) -> float:
    """The root mean square of entries."""
    return math.sqrt(float(numpy.mean(values * values)))


def _slope(widths: Sequence[int], sizes: Sequence[float]) -> float:
    """The power of n that fits best; −∞ for what is zero."""
    if min(sizes) <= 0:
        return NOTHING
    x, y = numpy.log(numpy.array(widths, dtype=float)), numpy.log(numpy.array(sizes))
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def _regime(rows: Sequence[Coordinate], measured: bool) -> str:
    """The regime that powers stand for, next to scales; which of them are 0 is judged within `TOLERANCE`."""

    def power(row: Coordinate) -> float:
        return (row.measured if measured else float(row.counted)) - float(row.scale)

    for row in rows:
        if power(row) > TOLERANCE or (row.t == 0 and row.name != "f" and power(row) < -TOLERANCE):
            return "unstable"
    if not any(row.name == "f" and row.t and power(row) >= -TOLERANCE for row in rows):
        return "trivial"
    learns = any(row.name != "f" and row.t and power(row) >= -TOLERANCE for row in rows)
    return "feature" if learns else "operator"
