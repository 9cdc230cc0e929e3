"""Paths of a covariance: where they end, which were stopped, and statistics with their standard errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array, pairs
from tplimits.errors import EvaluationError, shown
from tplimits.numbers.number import standard_error
from tplimits.numbers.roots import root
from tplimits.pages.curves import Curve, density, drawn
from tplimits.pages.report import Report, Reported, document, with_error
from tplimits.pictures.plots import plot_paths
from tplimits.program.nodes.given import real_array, seed_number, whole_from, whole_number
from tplimits.regimes.depth.numbers.influence import levels, of_deviation, of_quantile

#: entries of a covariance in the table of a report
_MOST_PAIRS = 10
#: bytes above which arrays of paths are refused
MEMORY = 8 << 30
#: independent sets of draws for means over random weights, and the degrees of freedom of their errors
REPLICATES = 8
DEGREES = REPLICATES - 1


class Estimate(NamedTuple):
    """A number, or an array of them, with standard errors: `value, error = paths.mean()`."""

    value: Any
    error: Any


def estimate(values: Array) -> Estimate:
    """The mean over the first dimension, with its standard error."""
    error = standard_error(values) if len(values) > 1 else numpy.full(values.shape[1:], numpy.nan)
    return Estimate(values.mean(axis=0), error)


@dataclass(frozen=True, eq=False)
class Paths(Reported):
    """Solutions of dV = b(V) dt + Σ(V)^(1/2) dB from V0.

    V: where the paths end, (paths, m, m).  A path that left the allowed eigenvalues stays where it was then: `stopped`
    (paths,) tells which, `stopping_time` (paths,) when, infinity where it did not.  `clipped` (paths,) counts the steps
    at which a matrix lost negative eigenvalues.  `dt` is the step that was used, T divided into equal steps.  Where
    times were recorded, `time` (times,) holds them and `history` (paths, times, m, m) the covariances, V0 first.
    Where the drift holds means over draws, V is the mean of `scrambled`, the ends by several independent sets of draws:
    errors of V, not those of other `values`, hold the spread of these.
    """

    V: Array
    T: float
    dt: float
    method: str
    stopped: NDArray[numpy.bool_]
    stopping_time: Array
    clipped: NDArray[numpy.int64]
    seed: int
    time: Array | None = None
    history: Array | None = field(default=None, repr=False)
    halved: Paths | None = field(default=None, repr=False)
    scrambled: Array | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        count, m = self.V.shape[:2]
        return (
            f"Paths: {count} of {m} × {m} covariances to T = {self.T:g} in steps of {self.dt:g} ({self.method}); "
            f"{int(self.stopped.sum())} stopped, {int(self.clipped.sum())} steps clipped"
        )

    def report(self) -> Report:
        """Where the paths end: means of covariances, and the density of the first correlation; its course in time."""
        m = self.V.shape[-1]
        mean, error = self.mean()
        shown = [(f"E V[{a}, {b}]", with_error(float(mean[a, b]), float(error[a, b]))) for a, b in pairs(m)]
        return Report(
            title=f"Paths of a covariance of {m} tokens",
            answer=repr(self),
            text=repr(self),
            numbers=tuple(shown[:_MOST_PAIRS]),
            picture="".join(_pictures(self)),
            seed=self.seed,
            document=document(
                "tplimits paths",
                **{name: getattr(self, name) for name in ("T", "dt", "method", "seed")},
                paths=len(self.V),
                stopped=int(self.stopped.sum()),
                mean=mean.tolist(),
                error=error.tolist(),
            ),
        )

    def correlation(self, a: int, b: int, recorded: bool = False) -> Array:
        """ρ = V_ab/√(V_aa V_bb) where the paths end, (paths,), or at the recorded times, (paths, times).

        NaN where a variance is zero.
        """
        V = self._recorded() if recorded else self.V
        m = V.shape[-1]
        if not all(number is not None and -m <= number < m for number in map(whole_number, (a, b))):
            raise EvaluationError(f"correlation({shown(a)}, {shown(b)}): the tokens are 0 to {m - 1}.")
        scale = numpy.sqrt(V[..., a, a] * V[..., b, b])
        with numpy.errstate(divide="ignore", invalid="ignore"):
            found = numpy.where(scale > 0, V[..., a, b] / scale, numpy.nan)
        return numpy.asarray(numpy.clip(found, -1.0, 1.0))

    def mean(self, values: Any = None) -> Estimate:
        """Mean over the paths of V, or of `values` (paths, …), with its standard error."""
        return self._estimate(lambda found: found, values)

    def std(self, values: Any = None) -> Estimate:
        """Standard deviation over the paths of V, or of `values` (paths, …), with its standard error."""
        if len(self._of_paths(values)) < 2:
            raise EvaluationError("a standard deviation needs two paths.")
        return self._estimate(of_deviation, values)

    def quantile(self, q: float | Sequence[float], values: Any = None) -> Estimate:
        """Quantiles over the paths of V, or of `values` (paths, …), first dimension those of `q`.

        The errors come from the density at the quantile, by the distance of order statistics to either side.
        """
        found, wanted = self._of_paths(values), levels(q)
        each = [self._estimate(partial(of_quantile, q=float(one)), values) for one in wanted.ravel()]
        shape = (*wanted.shape, *found.shape[1:])
        return Estimate(*(numpy.array(part).reshape(shape) for part in zip(*each, strict=True)))

    def output(self, samples: int = 1, seed: int | None = None) -> Array:
        """Outputs of the network, N(0, V ⊗ I) given each path's V: (paths, m, samples)."""
        samples = whole_from("samples", samples, 1, EvaluationError)
        if self.V.shape[0] * self.V.shape[1] * samples * 8 > MEMORY:
            raise EvaluationError(f"samples={samples} of {len(self.V)} paths take more than {MEMORY >> 30} GB.")
        seeds = [self.seed, 1] if seed is None else seed_number(seed, EvaluationError)
        rng = numpy.random.default_rng(seeds)
        return numpy.asarray(root(self.V) @ rng.standard_normal((*self.V.shape[:2], samples)))

    def eigenvalues(self, recorded: bool = False) -> Array:
        """Eigenvalues in ascending order, (paths, m) or (paths, times, m)."""
        return numpy.asarray(numpy.linalg.eigvalsh(self._recorded() if recorded else self.V))

    def step_error(self, statistic: Callable[[Paths], Any] | None = None) -> Estimate:
        """Error of the mean of a statistic (paths, …), V unless given, that comes from the size of the step.

        The same noise in steps half as long changes the mean by half of the error, for schemes of weak order 1: twice
        the difference, with its standard error.  Needs `simulate(…, halve=True)`.
        """
        if self.halved is None:
            raise EvaluationError("step_error compares with steps half as long: simulate(…, halve=True).")
        if statistic is not None and not callable(statistic):
            raise EvaluationError(f"step_error({shown(statistic)}): a statistic is a function of the paths.")
        coarse, fine = ((p.V if statistic is None else numpy.asarray(statistic(p))) for p in (self, self.halved))
        return self.mean(2 * (coarse - fine))

    def plot(self, a: int = 0, b: int = 1, path: str | Path | None = None) -> Any:
        """ρ_ab: quantiles in time where times were recorded, and a histogram where the paths end; needs Matplotlib.

        Returns the Figure; with a `path` it is saved there too.
        """
        return plot_paths(self, a, b, path)

    def _estimate(self, of: Callable[[Array], Array], values: Any) -> Estimate:
        """The mean over the paths of what some function makes of their values."""
        value, error = estimate(of(self._of_paths(values)))
        if values is not None or self.scrambled is None:
            return Estimate(value, error)
        draws = estimate(numpy.array([of(V).mean(axis=0) for V in self.scrambled])).error
        # one path of an equation without noise is all that there is to know but for the draws
        return Estimate(value, numpy.hypot(numpy.nan_to_num(error), draws))

    def _recorded(self) -> Array:
        if self.history is None:
            raise EvaluationError("no times were recorded: simulate(…, record=True).")
        return self.history

    def _of_paths(self, values: Any) -> Array:
        found = self.V if values is None else real_array("values", values, finite=False)
        if found.ndim == 0 or len(found) != len(self.V):
            raise EvaluationError(
                f"values have shape {found.shape}; the first dimension is that of {len(self.V)} paths."
            )
        return found


def _pictures(paths: Paths) -> Iterator[str]:
    """The first correlation, or the variance of one token: its density at the end, its quartiles in time."""
    several = paths.V.shape[-1] > 1
    name = "ρ(0, 1)" if several else "V(0, 0)"
    if paths.history is not None and paths.time is not None:
        values = paths.correlation(0, 1, recorded=True) if several else paths.history[..., 0, 0]
        if numpy.isfinite(values).all():
            quartiles = numpy.quantile(values, (0.25, 0.5, 0.75), axis=0)
            names = ("lower quartile", "median", "upper quartile")
            times = tuple(paths.time.tolist())
            curves = [Curve(n, times, tuple(q.tolist())) for n, q in zip(names, quartiles, strict=True)]
            yield drawn(curves, f"time; {name}")
    values = paths.correlation(0, 1) if several else paths.V[:, 0, 0]
    values = values[numpy.isfinite(values)]
    if len(values) > 1:
        yield drawn([density("density", values)], f"{name} at the end")


def ended(
    V: Array,
    T: float,
    dt: float,
    method: str,
    stopped: NDArray[numpy.int64],
    clipped: NDArray[numpy.int64],
    seed: int,
    history: Array,
    every: int,
) -> Paths:
    """Paths from what a loop over steps leaves: `stopped` is the step at which a path was stopped, or −1."""
    time = numpy.arange(history.shape[1], dtype=numpy.float64) * (every * dt)
    times = numpy.where(stopped >= 0, stopped * dt, numpy.inf)
    kept = (time, history) if every else (None, None)
    return Paths(V, T, dt, method, stopped >= 0, times, clipped, seed, *kept)
