"""The coordinate check: powers of n measured on finite networks beside those that were counted.

Networks of several widths, up to 16 times as many of narrow ones, take a few steps by a loss that is bounded below.
For every feature, for what readouts multiply and for f, the size in one network is the root mean square of the entries
at the start, and of their change since.  Powers are fitted and judged beside the counted ones as in `judging`, in
quarters, with errors at a level that holds for all rows together: where they disagree, the measured power counts, and
the regime that follows is the measured one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy
from scipy.special import stdtrit

from tplimits.arrays import Array
from tplimits.errors import CheckError, shown
from tplimits.pages.curves import sizes_drawn
from tplimits.pages.report import Report, Reported, document
from tplimits.program.nodes.given import several, whole_from
from tplimits.regimes.classification.derivation.sizes import NOTHING
from tplimits.regimes.classification.finite.coordinate import Coordinate
from tplimits.regimes.classification.finite.data import bounded_signal, drawn_inputs
from tplimits.regimes.classification.finite.judging import AGREES, OPEN, measured_power
from tplimits.regimes.classification.finite.moving import Moving
from tplimits.regimes.training.finite.networks import Trained, train

if TYPE_CHECKING:
    from tplimits.regimes.classification.derivation.counting import Counting
    from tplimits.sampling.sampling import Sampling


#: outputs before training are drawn at no smaller width: of 8 neurons behind a relu all may be dead
LEAST = 16
#: so many times the networks are drawn there: f is one number a network and input
STARTS = 64
#: values in the table of a report
_MOST_ROWS = 40
#: changes of the narrowest networks, in parts of what they change: those that vanish with n, and all others
SMALL, MODERATE = 0.25, 2.0
#: so many smaller rates are tried
SLOWER = 4


@dataclass(frozen=True)
class Training:
    """How networks are trained: inputs, error signals, drawn if left out, the rate and the number of steps."""

    X: Any = None
    error: Any = None
    lr: Any = 0.5
    steps: int = 2


@dataclass(frozen=True)
class CoordinateCheck(Reported):
    """Measured powers of n beside counted ones, and the regimes that follow from both."""

    widths: tuple[int, ...]
    rows: tuple[Coordinate, ...]
    counted_regime: str
    measured_regime: str
    seed: int | None = None
    #: whether powers are counted for gradients above ε, which those of these widths are; see `Counting`
    above: bool = False
    #: what the rates that were asked for are multiplied by
    slowed: float = 1.0
    #: what is counted to grow where no row shows it: inside of functions that saturate, or in later steps
    unseen: tuple[str, ...] = ()

    @property
    def _passed(self) -> bool:
        """Whether some powers are undecided because gradients may fall below ε between these widths."""
        return any(row.beside not in (None, row.counted) for row in self.undecided)

    @property
    def agrees(self) -> bool:
        """Whether the measured regime is the counted one, and f starts as counted: at random, or at 0 in the limit."""
        starts_apart = any(row.t == 0 and row.name == "f" for row in self.apart)
        return self.counted_regime == self.measured_regime and not starts_apart

    @property
    def apart(self) -> tuple[Coordinate, ...]:
        """The rows whose measured power is not the counted one, whether or not the regime follows."""
        return tuple(row for row in self.rows if row.verdict not in (AGREES, OPEN))

    @property
    def excess(self) -> float:
        """How many times larger changes of the narrowest networks are than those that powers of n are counted for."""
        start = {row.name: row for row in self.rows if row.t == 0 and row.is_vector and row.sizes[0] > 0}
        return max(
            (
                row.sizes[0] / start[row.name].sizes[0] / (SMALL if row.side(measured=False) < 0 else MODERATE)
                for row in self.rows
                if row.t and row.name in start and math.isfinite(row.sizes[0])
            ),
            default=0.0,
        )

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
        sizes = [(f"Δ{r.name}, step {r.t}" if r.t else r.name, r.sizes) for r in farthest]
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
            picture=sizes_drawn(sizes, self.widths, "width n"),
            seed=self.seed,
            document=document(
                "tplimits coordinate check",
                widths=self.widths,
                counted=self.counted_regime,
                measured=self.measured_regime,
                seed=self.seed,
                slowed=self.slowed,
                rows=[
                    {
                        "name": r.name,
                        "t": r.t,
                        "counted": str(r.counted),
                        "measured": r.measured,
                        "error": r.error,
                        "verdict": r.verdict,
                    }
                    for r in self.rows
                ],
            ),
        )

    def __repr__(self) -> str:
        told = f"; {len(self.apart)} rows not as counted" if self.apart else ""
        told += f"; {len(self.undecided)} rows undecided: taken as counted" if self.undecided else ""
        widths = ", ".join(map(str, self.widths))
        told += f"; what grows is in no row: {self.unseen[0]}" if self.unseen else ""
        where = "pass" if self._passed else "are above" if self.above else ""
        told += f"; gradients fall, and {where} ε at these widths" if where else ""
        told += f"; rates times {self.slowed:.2g}, at which changes are small" if self.slowed < 1 else ""
        lines = [f"measured {self.measured_regime}, counted {self.counted_regime}; widths {widths}{told}"]
        for row in self.rows:
            doubt = "" if row.verdict == AGREES else f", {row.verdict}"
            lines.append(f"  {_called(row)}: n^{row.measured:.2f} ± {row.error:.2f}, counted n^({row.counted}){doubt}")
        return "\n".join(lines)


def _called(row: Coordinate) -> str:
    return f"{row.name} at the start" if row.t == 0 else f"change of {row.name} after {row.t} step(s)"


def coordinate_check(
    counting: Counting | None, training: Training, sampling: Sampling, ratios: Mapping[str, float] | None = None
) -> CoordinateCheck:
    """Train networks and fit powers; see `Classification.check`.  `sampling` has the widths and a number of draws."""
    if counting is None:
        raise CheckError("the exponents have symbols; a coordinate check needs numbers.")
    sizes = sorted({whole_from("widths", n, 2, CheckError) for n in several(sampling.widths) or ()})
    if len(sizes) < 2:
        raise CheckError(f"widths={shown(sampling.widths)}: powers of n need two widths or more.")
    steps = whole_from("steps", training.steps, 1, CheckError)
    draws = whole_from("draws", sampling.draws, 2, CheckError)
    rng = numpy.random.default_rng(sampling.seed)
    data = training.X if training.X is not None else drawn_inputs(counting.network, rng)
    signal = training.error if training.error is not None else bounded_signal(rng)
    kept, slowed = _kept(counting), 1.0

    def trained(n: int, times: int, many: int, keep: Mapping[str, int]) -> Trained:
        return train(
            counting.network, counting.parametrization, counting.optimizer, data, signal, _times(training.lr, slowed),
            times, n, sampling.seed + n, draws=many, keep=keep, ratios=ratios,
        )  # fmt: skip

    # many networks for f before training, narrower ones where these differ
    narrow = sorted({n // max(1, min(4, sizes[0] // LEAST)) for n in sizes})
    starts = [trained(n, 0, STARTS * draws, {}) for n in (narrow if len(narrow) > 1 else sizes)]
    # Bonferroni: the level is shared by all rows
    level = sampling.level / (1 + (len(kept) + 1) * (steps + 1))
    for _ in range(1 + SLOWER):
        # a network of half the width costs a quarter: narrow ones are nearly free, and their noise is as large
        runs = [trained(n, steps, draws * min(16, sizes[-1] // n), kept) for n in sizes]
        found = replace(_compared(counting, kept, starts, runs, level), seed=sampling.seed, slowed=slowed)
        if not found.apart or found.excess <= 1:
            break
        # a change that saturates is larger than it shows
        slowed /= max(found.excess, 2.0)
    return found


def _times(rate: Any, factor: float) -> Any:
    """A rate, a function of the step, or either by name, times a factor."""
    if isinstance(rate, Mapping):
        return {name: _times(one, factor) for name, one in rate.items()}
    if factor == 1.0:
        return rate
    return (lambda t: rate(t) * factor) if callable(rate) else rate * factor


def _compared(
    counting: Counting, kept: Mapping[str, int], starts: Sequence[Trained], runs: Sequence[Trained], level: float
) -> CoordinateCheck:
    """The powers of networks beside those that are counted, on the side of ε where these fit better."""
    steps, sizes = runs[0].steps, tuple(run.n for run in runs)
    # where gradients fall, networks tell on which side of ε they are
    sides = (False, True) if replace(counting, above=True).rates != counting.rates else (False,)

    def rows_of(above: bool) -> tuple[Coordinate, ...]:
        found = _Rows(replace(counting, above=above), kept, level, steps)
        return (found.output_at_start(starts), *(row for t in range(steps + 1) for row in found.at(t, runs)))

    counted = [rows_of(above) for above in sides]
    checks = []
    for above, rows in zip(sides, counted, strict=True):
        pairs = zip(rows, counted[not above], strict=True) if len(sides) > 1 else ()
        told = tuple(replace(row, beside=other.counted) for row, other in pairs) or rows
        by_count, by_networks = (_regime(told, networks) for networks in (False, True))
        checks.append(CoordinateCheck(sizes, told, by_count, by_networks, above=above))
    return min(checks, key=lambda check: (len(check.apart), sum(abs(row.difference) for row in check.rows)))


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
    steps: int

    def output_at_start(self, runs: Sequence[Trained]) -> Coordinate:
        """f before training."""
        values = [run.f for run in runs]
        row = self._fitted("f", 0, values, runs)
        if len(runs) < 3 or not math.isfinite(row.measured):
            return row
        # deep networks are narrow: logarithms bend by depth/n, which a line through all widths takes for a power
        wider = self._fitted("f", 0, values[1:], runs[1:])
        return replace(row, measured=wider.measured, error=wider.error + abs(row.measured - wider.measured))

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
        counted = sizes[name].change if t else sizes[name].start
        moving = Moving.of([run.n for run in runs], values)
        widths, sized, certain = moving.fitted(self.level, counted == NOTHING)
        found = measured_power(widths, sized)
        freedom = sum(map(len, sized)) - len(sized)
        error = -float(stdtrit(freedom, self.level)) * found.error if found.error else 0.0
        error = error if certain else math.inf
        late = t in (0, self.steps)
        return Coordinate(
            name, t, counted, found.power, found.sizes, natural.get(name, 0.0), error, not is_scalar, late,
            found.widths, found.spread,
        )  # fmt: skip


def _regime(rows: Sequence[Coordinate], measured: bool) -> str:
    """The regime that powers stand for, next to scales; which of them are 0 is judged within `TOLERANCE`."""
    sides = [(row, row.side(measured)) for row in rows]
    if any(side > 0 or (row.t == 0 and row.is_vector and side < 0) for row, side in sides):
        return "unstable"
    moving = [row for row, side in sides if row.t and row.late and side >= 0]
    if not any(row.name == "f" for row in moving):
        return "trivial"
    return "feature" if any(row.name != "f" for row in moving) else "operator"
