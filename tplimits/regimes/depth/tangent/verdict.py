"""What gradients do along depth: laws of the logarithms of their norms, and a verdict in words.

The tails are heavy: the typical size of a gradient and its mean differ by powers of e, so that quantiles of the
logarithm are told, and the mean only beside the share of it that a hundredth of the networks holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.pages.curves import Curve, density, drawn
from tplimits.pages.report import Report, Reported, document
from tplimits.program.nodes.given import real_number
from tplimits.regimes.depth.numbers.influence import QUANTILES, levels, of_quantile
from tplimits.regimes.depth.tangent.paths import gram

#: a typical gradient that changes by less than this factor keeps its size
_KEPT = 2.0
#: the largest networks, as a part of all, whose share of the mean is told
_LARGEST = 0.01


@dataclass(frozen=True, eq=False)
class Row:
    """log(|∂L/∂θ|²/n · n^order) of one parameter at one place along depth, one number a path.

    `ends` (paths, m) are the variances V_aa of the tokens where the paths end: given the forward path, gradients and
    responses have one law too.  `alignments` (paths, m) are C_aa²/(V_aa D_aa) there, how much of the response is along
    the state.
    """

    of: str
    layer: float
    logs: Array = field(repr=False)
    stopped: NDArray[numpy.bool_] = field(repr=False)
    #: D_ab/√(D_aa D_bb) of the first two tokens
    correlations: Array = field(repr=False)
    ends: Array = field(repr=False)
    alignments: Array = field(repr=False)
    order: int = 0

    def quantile(self, q: float) -> tuple[float, float]:
        """The quantile of level q of the log, with its standard error; infinite where stopped paths decide it.

        A path that was stopped, because V exploded, counts as above all others.
        """
        level = levels(q)
        if level.ndim:
            raise EvaluationError(f"quantile({shown(q)}): give one level; `.quantiles` are those of 5, 50 and 95 %.")
        logs = numpy.where(self.stopped, numpy.inf, self.logs)
        found = float(numpy.quantile(logs, level, method="lower"))
        if not math.isfinite(found):
            return found, math.nan
        values = of_quantile(numpy.where(numpy.isfinite(logs), logs, self.logs.max()), float(level))
        return found, float(values.std() / math.sqrt(len(values)))

    @property
    def quantiles(self) -> tuple[float, ...]:
        """5, 50 and 95 %."""
        return tuple(self.quantile(q)[0] for q in QUANTILES)

    @property
    def zero(self) -> bool:
        """Whether no path has a gradient but those that were stopped: the readout does not depend on the parameter."""
        return bool(numpy.isneginf(self.logs[~self.stopped]).all()) and not self.stopped.all()

    @property
    def mean(self) -> tuple[float, float]:
        """The mean of |∂L/∂θ|²/n over the paths that were not stopped, and the share of it that 1 % of them hold."""
        values = numpy.sort(numpy.exp(self.logs[~self.stopped]))
        if not values.size or not values.sum() > 0:
            return math.nan, math.nan
        top = values[-max(1, math.ceil(_LARGEST * len(values))) :]
        return float(values.mean()), float(top.sum() / values.sum())


@dataclass(frozen=True, eq=False)
class Gradients(Reported):
    """Laws of log gradient norms along depth: `rows`, one for each parameter and place.

    `of(name, layer)` is one of them; `verdict` says what the gradient of the input does.
    """

    name: str
    T: float
    tokens: int
    readout: Any
    rows: tuple[Row, ...] = field(repr=False)
    seed: int
    constants: Mapping[str, Any] = field(default_factory=dict)

    def of(self, name: str, layer: float = 0.0) -> Row:
        """The row of a parameter at a place along depth; EvaluationError where there is none."""
        place = real_number(layer)
        for row in self.rows:
            if isinstance(name, str) and row.of == name and place is not None and abs(row.layer - place) < 1e-9:
                return row
        known = ", ".join(f"({row.of!r}, {row.layer:g})" for row in self.rows)
        raise EvaluationError(f"no gradient of {shown(name)} at {shown(layer)} was asked for; there are {known}.")

    @property
    def _first(self) -> Row:
        return next((r for r in self.rows if r.of == "input" and r.layer == 0), self.rows[0])

    @property
    def change(self) -> tuple[float, ...]:
        """5, 50 and 95 % of the log of the input's gradient at the first layer, beside what it starts from.

        Of a matrix, or of a token that the readout does not read, there is nothing it starts from: beside 1.
        """
        size = self._began or 1.0
        return tuple(q - math.log(size) for q in self._first.quantiles)

    @property
    def _began(self) -> float:
        """|∂L/∂x|²/n at the last layer, of all tokens or of one; 0 for matrices."""
        m, token = self.tokens, token_of(self._first.of)
        read = numpy.eye(m) if self.readout is None else gram(self.readout, m, "readout")
        if self._first.of == "input":
            return float(numpy.trace(read))
        return 0.0 if token is None else float(read[token, token])

    @property
    def verdict(self) -> str:
        """What a gradient does on its way back through the whole depth, in one sentence."""
        row, (low, middle, high) = self._first, self.change
        if row.zero:
            return f"{self.name} at depth = {self.T:g} × width: the readout does not depend on {row.of}."
        lost = f"; {int(row.stopped.sum())} of {len(row.stopped)} paths exploded" if row.stopped.any() else ""
        what = f"|∂L/∂{'x' if row.of == 'input' else row.of}|²"
        span = f"5 % to 95 %: {_power(low)} to {_power(high)}{lost}"
        if not self._began:
            size = f"the median of {what}/n{f' · n^{row.order}' if row.order else ''} is {_power(middle)}"
            return f"{self.name} at depth = {self.T:g} × width: {size} ({span})."
        if high < 0:
            kind = "gradients vanish"
        elif low > 0:
            kind = "gradients explode"
        elif middle < -math.log(_KEPT):
            kind = "typical gradients shrink, while their mean need not"
        elif middle > math.log(_KEPT):
            kind = "typical gradients grow"
        else:
            kind = "typical gradients keep their size"
        start = f"the median of {what} is {_power(middle)} times its start ({span})"
        return f"{self.name} at depth = {self.T:g} × width: {kind}; {start}."

    @property
    def table(self) -> str:
        """One line for each parameter and place."""
        lines = [f"{'gradient of':<14}{'layer':>6}{'5 %':>9}{'50 %':>9}{'95 %':>9}   mean  (of it, in 1 % of networks)"]
        for row in self.rows:
            place = "all" if row.of == "total" else f"{row.layer:g}"
            if row.zero:
                lines.append(f"{row.of:<14}{place:>6}   0: the readout does not depend on it")
                continue
            mean, share = row.mean
            power = f"  of {_multiple(row.order)}" if row.order else ""
            quantiles = "".join(f"{q:9.2f}" for q in row.quantiles)
            lines.append(f"{row.of:<14}{place:>6}{quantiles}   {mean:.3g} ({share:.0%}){power}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        stopped = max(int(row.stopped.sum()) for row in self.rows)
        count = len(self.rows[0].logs)
        lines = [self.verdict, "", "log(|∂L/∂θ|²/n), quantiles over networks", self.table]
        lines += self._alike()
        lines.append(
            f"{count} paths, seed {self.seed}; {stopped} stopped because V exploded, counted as above all others"
        )
        return "\n".join(lines)

    def _alike(self) -> Iterator[str]:
        for row in self.rows:
            if row.correlations.size and row.layer == 0 and not row.zero:
                low, middle, high = numpy.quantile(row.correlations, QUANTILES)
                place = "in all layers" if row.of == "total" else "at the first layer"
                yield (
                    f"tokens 0 and 1 respond to {row.of} {place} with correlation {middle:.2f} "
                    f"({low:.2f} to {high:.2f})"
                )

    def report(self) -> Report:
        """Quantiles along depth, with a picture."""
        names = list(dict.fromkeys(row.of for row in self.rows))
        numbers_ = []
        for row in self.rows:
            value, error = row.quantile(0.5)
            if row.zero:
                numbers_.append((f"gradient of {row.of} at {row.layer:g}", "0"))
                continue
            numbers_.append((f"median log, {row.of} at {row.layer:g}", f"{value:.3f} ± {error:.1g}"))
        return Report(
            title=f"Gradients of {self.name} along depth",
            answer=self.verdict,
            text=repr(self),
            numbers=tuple(numbers_),
            picture="".join(self._pictures(names)),
            seed=self.seed,
            document=document(
                "tplimits gradients",
                program=self.name,
                T=self.T,
                seed=self.seed,
                paths=len(self.rows[0].logs),
                constants={k: float(v) for k, v in self.constants.items()},
                rows=[
                    {
                        "of": row.of,
                        "layer": row.layer,
                        "order": row.order,
                        "stopped": int(row.stopped.sum()),
                        "zero": row.zero,
                        "quantiles": [q if math.isfinite(q) else None for q in row.quantiles],
                    }
                    for row in self.rows
                ],
            ),
        )

    def _pictures(self, names: list[str]) -> Iterator[str]:
        """Medians along depth, and the density of the log at the first layer."""
        curves = []
        for name in names:
            rows = sorted((r for r in self.rows if r.of == name), key=lambda r: r.layer)
            found = [(r.layer, r.quantile(0.5)[0]) for r in rows if math.isfinite(r.quantile(0.5)[0])]
            if len(found) > 1:
                curves.append(Curve(name, tuple(x for x, _ in found), tuple(y for _, y in found)))
        if curves:
            yield drawn(curves, "place along depth; median of log(|∂L/∂θ|²/n)")
        densities = []
        for row in self.rows:
            logs = row.logs[numpy.isfinite(row.logs)]
            if row.layer == 0 and logs.size > 1 and numpy.ptp(logs) > 0:
                densities.append(density(row.of, logs))
        yield drawn(densities, "log(|∂L/∂θ|²/n), first layer")


def token_of(name: str) -> int | None:
    """The token of input[a].

    >>> token_of("input[2]"), token_of("input"), token_of("WV")
    (2, None, None)
    """
    inside = name.removeprefix("input[").removesuffix("]")
    return int(inside) if name == f"input[{inside}]" and inside.isdecimal() else None


def _multiple(order: int) -> str:
    """What a gradient smaller by a power of 1/n, or larger by one of n, is multiplied by."""
    return {1: "n times it", -1: "it over n"}.get(order, f"n^{order} times it")


def _power(log: float) -> str:
    """e^log in three digits.

    >>> _power(math.log(1.25)), _power(math.inf), _power(-math.inf)
    ('1.25', '∞', '0')
    """
    return "∞" if log == math.inf else f"{math.exp(log):.3g}"
