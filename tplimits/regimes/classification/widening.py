"""What a script does when its network is widened and nothing else is changed: in words, with the powers behind them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.errors import NoLimitError
from tplimits.pages.report import Report, Reported, document
from tplimits.program.nodes.kinds import Avg
from tplimits.program.parametrization.exponents import Exponents
from tplimits.regimes.classification.derivation.counting import Counting
from tplimits.regimes.classification.derivation.nearest import nearest_maximal_update
from tplimits.regimes.classification.derivation.sizes import NOTHING, Power, saturates
from tplimits.regimes.classification.report import named, power_of_n, widening_text
from tplimits.report.written import program_graph

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.program.parametrization.table import Parametrization

#: a rate of n^(−SMALL): what is of second order in it is n^(−2 SMALL), smaller than any power that a network has
SMALL = 10**4
#: global rates n^(−c) are tried in steps of this
QUARTER = Fraction(1, 4)


@dataclass(frozen=True)
class Widening(Reported):
    """What widening does to the training of a network whose initial entries and rates are as they stand.

    Adaptive optimizers are taken without ε, which is not seen until gradients are as small as it is.  Decoupled weight
    decay multiplies weights by 1 − ηλ at every width, and moves nothing by a higher power of n than it starts with.
    """

    program: Program
    parametrization: Parametrization
    optimizer: Any

    @cached_property
    def response(self) -> Counting:
        """The powers at a rate so small that everything moves in proportion to it, or to its square."""
        return self._at_rate(Fraction(SMALL))

    def moves(self, t: int = 1) -> dict[str, Power]:
        """The power of n of the change after t steps per unit of a small rate, of each value and of f."""
        return {name: _order(power)[0] for name, power in self.response.moves(t).items()}

    def moved_by(self, name: str) -> dict[str, Power]:
        """The same changes by the updates of one parameter."""
        return {key: _order(power)[0] for key, power in self.response.moved_by(name).items()}

    @cached_property
    def by_parameter(self) -> dict[str, Power]:
        """The power of n by which the updates of each parameter alone move f per unit of a small rate."""
        return {name: self.moved_by(name)["f"] for name in self.response.exponents}

    @cached_property
    def layers(self) -> dict[str, Power]:
        """The powers of the first change of each value with a name of its own, in the order of the network."""
        first = self._first
        return {name: first[name][0] for name in first if name != "f" and first[name][0] != NOTHING}

    @property
    def f(self) -> tuple[Power, ...]:
        """The powers of n that f moves by per unit of a small rate, the largest first."""
        return tuple(sorted({p for p in self.by_parameter.values() if p != NOTHING}, reverse=True))

    def first_change(self, name: str) -> tuple[Power, int]:
        """The power of the first change of a value per unit of a small rate, and the step that it comes in."""
        return self._first[name]

    @cached_property
    def _first(self) -> dict[str, tuple[Power, int]]:
        """The power of the first change of each value, and the step it comes in."""
        found: dict[str, tuple[Power, int]] = {}
        for t in (1, 2, 3):
            for name, power in self.response.moves(t).items():
                if found.get(name, (NOTHING, 0))[0] == NOTHING:
                    found[name] = (_order(power)[0], t)
        return found

    @property
    def _orders(self) -> dict[str, tuple[Fraction, Fraction]]:
        """The power of each change in the first step, and the power of the rate that it has."""
        found = {name: _order(power) for name, power in self.response.moves(1).items()}
        return {name: (Fraction(p), k) for name, (p, k) in found.items() if p != NOTHING}

    @cached_property
    def growing_starts(self) -> dict[str, Power]:
        """What starts with a positive power of n beside what is natural, f included."""
        found = {name: now for name, now, natural in self.response.starts if now > natural}
        start = self.response.start.output.start
        return found | ({"f": start} if start > 0 else {})

    @cached_property
    def saturated(self) -> str | None:
        """The first value that is a function of what grows at the start, where the function then lets nothing pass."""
        start, network = self.response.start, self.response.network
        for position, size in start.arguments.items():
            body: Any = getattr(network[position], "body", None)  # arguments are of functions, which have one
            if size.start > 0 and body is not None and saturates(body):
                return self.response.name(position)
        return None

    @cached_property
    def averages(self) -> bool:
        """Whether the network averages over neurons: that such a mean is zero is known where symmetry tells it."""
        return any(isinstance(s, Avg) for s in self.response.network)

    @cached_property
    def vanishing_starts(self) -> dict[str, Power]:
        """Parameters that start with a negative power of n, such as biases drawn like the weights beside them."""
        names = [k for k, kind in self.response.roles.kinds.items() if kind in ("vector", "scalar")]
        starts = {name: (now, natural) for name, now, natural in self.response.starts}
        return {k: starts[k][0] for k in names if NOTHING < starts[k][0] < starts[k][1]}

    @cached_property
    def largest_rate(self) -> Fraction:
        """c of the largest rate n^(−c), one for all parameters, at which nothing grows in training."""
        # what the first steps change per unit of a small rate says where it cannot be larger
        least = max(((p - self.scales.get(name, 0)) / k for name, (p, k) in self._orders.items()), default=Fraction(0))
        c = max(Fraction(math.ceil(least / QUARTER)) * QUARTER, Fraction(0))
        while self._grows(c):
            c += QUARTER
        while c <= 0 and c > -4 and not self._grows(c - QUARTER):
            c -= QUARTER
        return c

    @cached_property
    def at_largest_rate(self) -> dict[str, Power]:
        """The powers of all changes at the largest rate, late in training."""
        counting = self._at_rate(self.largest_rate)
        return counting.moves(len(counting.steps) - 1)

    @cached_property
    def nearest(self) -> Parametrization | None:
        """The maximal update parametrization that changes least; None where none is found."""
        try:
            return nearest_maximal_update(self.program, self.parametrization, without_epsilon(self.optimizer))
        except NoLimitError:
            return None

    @property
    def grows(self) -> bool:
        """Whether something grows with n at the start or in training, with the rates as they stand."""
        return bool(self.growing_starts) or self._grows(Fraction(0))

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.grows:
            moving = [n for n, p in self.at_largest_rate.items() if n != "f" and p >= self.scales.get(n, 0)]
            return f"`{self.program.name}` can be widened as it is: nothing grows, " + (
                "and features are learned." if moving and self.largest_rate >= 0 else "and features stay as they start."
            )
        cause, bound = "", " at most" if self.saturated or self.averages else ""
        if self.growing_starts:
            name, power = next(iter(named(self.growing_starts).items()))
            cause = f"{_called(name)} starts like {power_of_n(power)}"
        else:
            name, power, t = self.first_to_grow
            cause = f"{_called(name)} moves like {power_of_n(power)}{bound} in step {t}"
        c = self.largest_rate
        return f"`{self.program.name}` cannot be widened as it is: {cause}" + (
            f"; the largest stable rate falls like {power_of_n(-c)}{bound}." if c > 0 else "."
        )

    @cached_property
    def first_to_grow(self) -> tuple[str, Power, int]:
        """The first value, in the order of the network, that grows at a fixed rate: its power, and the step."""
        found = [(name, *self._first[name]) for name in self._first]
        growing = [x for x in found if x[1] > self.scales.get(x[0], 0)]
        return next((x for x in growing if not x[0].startswith("_")), growing[0] if growing else ("f", NOTHING, 1))

    @cached_property
    def scales(self) -> dict[str, Fraction]:
        """The size of each feature where everything nonlinear is of order 1."""
        return self.response.scales

    def report(self) -> Report:
        """What happens when the network is widened, and the powers behind it."""
        powers = {name: power_of_n(p) for name, p in self.layers.items()}
        rate = power_of_n(-self.largest_rate)
        return Report(
            title=f"Widening {self.program.name}",
            answer=self.sentence,
            text=str(self),
            numbers=(
                ("largest rate at which nothing grows", rate),
                *((f"change of {n}", p) for n, p in powers.items()),
            ),
            graph=program_graph(self.program),
            program=str(self.program),
            document=document(
                "tplimits widening",
                program=self.program.name,
                sentence=self.sentence,
                grows=self.grows,
                largest_rate=str(-self.largest_rate),
                f=[str(p) for p in self.f],
                layers={name: str(p) for name, p in self.layers.items()},
                text=str(self).splitlines(),
            ),
        )

    def __str__(self) -> str:
        return widening_text(self)

    def __repr__(self) -> str:
        return str(self)

    def _at_rate(self, c: Fraction) -> Counting:
        """The powers with all rates multiplied by n^(−c)."""
        found = self.parametrization.of(self.program)
        rate = sympy.Rational(c.numerator, c.denominator)
        slower = {k: Exponents(e.a, e.b, e.c + rate, e.d) for k, e in found.items()}
        return Counting(self.program, self.parametrization.with_names(slower), without_epsilon(self.optimizer))

    def _grows(self, c: Fraction) -> bool:
        counting = self._at_rate(c)
        scales = self.scales  # of the program and its start, which no rate changes
        return any(
            any(power > scales.get(name, 0) for name, power in counting.moves_in(found.step).items())
            or any(size.change > 0 for size in found.step.arguments.values())
            for found in counting.counted()
        )


def without_epsilon(optimizer: Any) -> Any:
    """An optimizer, or several by name, with ε = 0."""
    if isinstance(optimizer, Mapping):
        return {name: _without_epsilon(o) for name, o in optimizer.items()}
    return _without_epsilon(optimizer)


@lru_cache(maxsize=32)
def _without_epsilon(optimizer: Optimizer) -> Optimizer:
    """One of them; the same object each time, since it remembers what was found out about it."""
    if any(f.name == "eps" for f in fields(optimizer)) and getattr(optimizer, "eps", 0) != 0:
        with warnings.catch_warnings():  # that ε = 0 is no hypothesis of a theorem: powers alone are counted
            warnings.simplefilter("ignore")
            return replace(optimizer, eps=0)  # type: ignore[call-arg]
    return optimizer


def _order(power: Power) -> tuple[Power, Fraction]:
    """A power at the rate n^(−SMALL) as the power per rate, and the power of the rate: a half behind a jump.

    >>> _order(Fraction(1, 2) - SMALL), _order(Fraction(1, 4) - Fraction(SMALL, 2))
    ((Fraction(1, 2), Fraction(1, 1)), (Fraction(1, 4), Fraction(1, 2)))
    """
    if power == NOTHING:
        return NOTHING, Fraction(0)
    order = Fraction(round(-power / (SMALL * QUARTER))) * QUARTER
    return power + order * SMALL, order


def _called(name: str) -> str:
    return "f" if name == "f" else f"`{name}`"
