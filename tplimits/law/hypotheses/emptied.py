"""Averages over other neurons that are exactly 0: of relu(y_α + b_β) nothing is left where y_α is below every −b_β.

    (1/n) Σ_β relu(y_α + b_β) = 0   ⇔   y_α ≤ −max_β b_β          while   E_b relu(y + b) > 0 for every y

Of n neurons some y_α are as low as −σ √(2 log n), and the largest b_β is τ √(2 log n).  So for standard deviations
σ > τ there are such neurons at every large width, for σ < τ there are none from some width on, and for σ = τ there are
if the sum of the means is negative; if it is positive they are found with a probability that decreases more slowly
than any power of n, and no limit is told.  What divides by the average, or takes its logarithm, is no number there,
0/0, and one such entry leaves the mean without a number, which the limit does not show (hypothesis: entries are in the
domain of ψ).

None is left empty where for every α a share of all β is not 0 that is bounded below: where y is bounded below and b
not above, where the neuron's own term is positive, as of step(1 − (x_α − x_β)²), and where what is bent is linear in
the other neurons with a part of its own that is not negative, as relu(x_α x_β).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds, never_negative
from tplimits.law.hypotheses.displaced import mixes_neurons
from tplimits.law.hypotheses.linear import covariance_of
from tplimits.law.hypotheses.reader import Doubt
from tplimits.law.hypotheses.signs import Signs, without_names
from tplimits.law.hypotheses.vanishing import almost_never_zero
from tplimits.law.hypotheses.zero import LONG, has_flat, vanishes
from tplimits.program.nodes.branches import SIDES, Branch, on_sides
from tplimits.program.nodes.digits import value_of
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, entries
from tplimits.program.nodes.kinds import OuterNonlin
from tplimits.program.parts import found, longer, put_in

if TYPE_CHECKING:
    from tplimits.law.hypotheses.displaced import Surroundings
    from tplimits.law.hypotheses.reader import Reader


def are_left(reader: Reader, node: Expr, argument: Expr, told: str, where: str) -> list[Doubt]:
    """NoLimitError where an argument that is divided by is 0 for neurons of which an average is empty; the doubts."""
    around = reader.around
    assert around is not None and around.gaussians is not None
    gaussians = around.gaussians
    empty: dict[Entry, bool | None] = {}
    left = _with_empty(around, argument, empty)
    if not empty or longer(left, LONG):
        return []
    kets = _of_one_neuron(left, around.ket)
    if sympy.expand(left) != 0 and (not has_flat(left) or almost_never_zero(kets, gaussians)):
        return []
    names = ", ".join(dict.fromkeys(f"`{reader.shown(e)}`" for e in empty))
    certain = len(empty) == 1 and True in empty.values()
    reason = (
        f"`{told}` is not finite where {names}, an average over other neurons of what is flat on one side, is 0: "
        f"{'at every large width it is' if certain else 'it may be'} for some of n neurons, for which all terms are on "
        "that side, and the limit does not show it"
    )
    if certain:
        raise NoLimitError(f"{where}: {reason}. Keep it away from zero, as by adding a constant to it.")
    return [Doubt("pole", reader.shown(node), where, reason)]


def _with_empty(around: Surroundings, expr: Expr, empty: dict[Entry, bool | None]) -> Expr:
    """An expression where averages that may be empty are 0, through functions of the same neuron."""
    swap: dict[Expr, Expr] = {}
    for entry in entries(expr):
        if entry.source in around.may_be_empty and entry.neuron != NO_NEURON:
            if entry not in empty and (verdict := _is_empty(around, entry)) is not False:
                empty[entry] = verdict
            if entry in empty:
                swap[entry] = S.Zero
        elif isinstance(s := around.program[entry.source], OuterNonlin) and not s.slots:
            inner = around.inside(entry) if entry.source in around.beside_empty else S.Zero
            other = inner if longer(inner, LONG) else _with_empty(around, inner, empty)
            if other != inner:
                swap[entry] = other.xreplace({OWN: entry.neuron})
    return put_in(expr, swap, {}) if swap else expr


def _is_empty(around: Surroundings, entry: Entry) -> bool | None:
    """Whether an average is 0 for some of n neurons at every large width; None where that is not decided."""
    body = around.inside(entry)
    sides = list(on_sides(body, mixes_neurons))
    nothing = [vanishes(side.value) for side in sides]
    if not any(nothing) or all(nothing):
        return False
    met = [_is_met(around, side) for side, none in zip(sides, nothing, strict=True) if not none]
    if True in met:
        return False
    return True if len(sides) == 2 and met == [False] else None


def _is_met(around: Surroundings, side: Branch) -> bool | None:
    """Whether for every neuron, from some width on, others are on this side; None where that is not decided."""
    own = all(bounds(_of_one_neuron(c))[0].is_extended_positive for c in side.conditions)
    if own and not vanishes(_of_one_neuron(side.value)):
        return True
    if len(side.conditions) != 1:
        return None
    condition = _Condition(around, side.conditions[0])
    # another factor may be 0 where the condition holds
    bent = any(e.neuron != OWN for f in found(side.value, *SIDES) for e in _vectors(f))
    return None if bent or longer(condition.expr, LONG) else condition.is_met()


class _Condition:
    """What is positive on a side, as a function of variables of the neuron and of copies of them for the others."""

    def __init__(self, around: Surroundings, condition: Expr) -> None:
        assert around.gaussians is not None
        self.gaussians = around.gaussians
        #: copies, by neuron, of the variables that they are copies of
        self.copies: dict[Symbol, dict[Symbol, Symbol]] = {}
        self.kets = {e: self._copied(around, e) for e in _vectors(condition)}
        limits = {e: around.limit(e) for e in entries(condition) if e.neuron == NO_NEURON}
        self.expr: Expr = condition.xreplace({**self.kets, **limits})
        self.others = {copy for neuron, of in self.copies.items() if neuron != OWN for copy in of.values()}

    def _copied(self, around: Surroundings, entry: Entry) -> Expr:
        ket = without_names(_of_one_neuron(entry, around.ket), self.gaussians)
        mine = self.copies.setdefault(entry.neuron, {})
        random = sorted((s for s in ket.free_symbols if self.gaussians.is_random(s)), key=lambda s: str(s.name))
        return ket.xreplace({s: mine.setdefault(s, sympy.Dummy(str(s), real=True)) for s in random})

    def is_met(self) -> bool | None:
        """Whether for every value of the neuron's own variables it is positive for others; None: not decided."""
        own, rest = sympy.expand(self.expr).as_independent(*self.others, as_Add=True)
        slopes = {v: rest.diff(v) for v in self.others}
        is_linear = not any(self.others & s.free_symbols for s in slopes.values())
        if is_linear and never_negative(own) and self._has_spread(slopes):
            return True
        low = bounds(own)[0]
        if low.is_finite and not rest.free_symbols & self._of(OWN) and self._takes_positive(low + rest):
            return True
        return self._by_largest(own, slopes) if is_linear else None

    def _of(self, neuron: Symbol) -> set[Symbol]:
        return set(self.copies.get(neuron, {}).values())

    def _has_spread(self, slopes: dict[Symbol, Expr]) -> bool:
        """Whether one of the others has a slope that is almost never 0, in variables that are independent."""
        names = {copy: s for of in self.copies.values() for s, copy in of.items()}
        pairs = (p for n, of in self.copies.items() if n != OWN for p in itertools.combinations(of, 2))
        if any(self.gaussians.covariance(x, y) != 0 for x, y in pairs):
            return False
        return any(almost_never_zero(s.xreplace(names), self.gaussians) for s in slopes.values())

    def _takes_positive(self, rest: Expr) -> bool:
        """Whether a function of one other neuron is seen to be positive somewhere."""
        neurons = [n for n in self.copies if n != OWN and rest.free_symbols & self._of(n)]
        if len(neurons) != 1:
            return False
        back = {copy: s for s, copy in self.copies[neurons[0]].items()}
        return Signs(self.gaussians).takes_negative(-rest.xreplace(back))

    def _by_largest(self, own: Expr, slopes: dict[Symbol, Expr]) -> bool | None:
        """Of Gaussian forms: the largest of n others beside the lowest of n own ones."""
        mine = {v: sympy.diff(own, v) for v in self._of(OWN)}
        if not all(s.is_number for s in (*mine.values(), *slopes.values())):
            return None
        spread = sympy.Add(*(self._deviation(n, slopes) for n in self.copies if n != OWN))
        mean = own.xreplace(dict.fromkeys(mine, S.Zero))
        wider, above = (value_of(d) if d.is_number else None for d in (spread - self._deviation(OWN, mine), mean))
        if wider is None or above is None or (wider == 0 and above >= 0):
            return None
        return bool(wider > 0)

    def _deviation(self, neuron: Symbol, slopes: dict[Symbol, Expr]) -> Expr:
        """The standard deviation of a form in the variables of one neuron."""
        form = {s: slopes[copy] for s, copy in self.copies.get(neuron, {}).items() if copy in slopes}
        return sympy.sqrt(covariance_of(form, form, self.gaussians))


def _of_one_neuron(expr: Expr, read: Callable[[Entry], Expr] = lambda entry: entry) -> Expr:
    """A function of several neurons where they are one."""
    return expr.xreplace({e: read(e.xreplace({e.neuron: OWN})) for e in _vectors(expr)})


def _vectors(expr: Expr) -> set[Entry]:
    return {e for e in entries(expr) if e.neuron != NO_NEURON}
