"""A body of a program with the limits of what it reads: the width engine's side of `hypotheses.reader.Reader`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.law.hypotheses.bounds import bounds, bounds_through
from tplimits.law.hypotheses.displaced import shifts, vanishing_inside
from tplimits.law.hypotheses.reader import Question, Value
from tplimits.law.hypotheses.zero import LONG, cancels_on_a_side, has_flat, may_cancel, vanishes
from tplimits.law.kets import key_of
from tplimits.law.moments import NamedValue
from tplimits.program.nodes.entries import Entry, N, entries
from tplimits.program.parts import longer, put_in, remembered

if TYPE_CHECKING:
    from tplimits.law.hypotheses.displaced import Surroundings
    from tplimits.law.state import Derivation


@remembered(1 << 14)
def nonnegative(entry: Entry) -> sympy.Dummy:
    """What stands for an entry that is negative at no width."""
    return sympy.Dummy(nonnegative=True)


@dataclass(frozen=True)
class BodyReader:
    """`swap` gives the limit of every entry of the body: of a scalar a number, of a vector its random variable."""

    state: Derivation
    swap: Mapping[Expr, Expr]
    #: what runs at width n where the body holds what it tends to, 1/√n left out
    finite: Mapping[Expr, Expr] = field(default_factory=dict)
    #: parts with these limits put in, as far as they are known
    done: dict[Expr, Expr] = field(default_factory=dict, compare=False, repr=False)

    @property
    def around(self) -> Surroundings:
        """What is known of the entries of the program."""
        return self.state.around

    def tolerance(self, expr: Expr) -> float:
        """1e-12 where rounded numbers take part."""
        return self.state.rounded.tolerance(expr)

    def limit(self, expr: Expr) -> Expr:
        """The value of a part of the body."""
        return put_in(expr, self.swap, self.done)

    def moves(self, expr: Expr) -> bool:
        """Whether it reads what is not at its limit at finite width: no given scalars, nor functions of them."""
        if not self.is_exact(expr):
            return True
        return any(s in self._fluctuations or s in self.state.engine.moments for s in expr.free_symbols)

    def is_exact(self, expr: Expr) -> bool:
        """Whether it is made of given scalars, constants and functions of these, which are at their limit anywhere."""
        exact = {e for e in entries(expr) if key_of(e) in self.state.exact}
        # 0 at every width, whatever it is multiplied by: an entry of data, or a vector that starts there
        zeros = {e: sympy.S.Zero for e in exact if self.swap.get(e) == 0}
        return exact.issuperset(entries(expr.xreplace(zeros) if zeros else expr))

    def settled(self, expr: Expr) -> bool:
        """No open mean in it; and nothing that vanishes beside a function with a flat part."""
        own = self.limit(expr)
        if self._has_free_part(own):
            return True
        # a name hides that what is random vanishes by an identity, or for S < 0, as relu(S) times what is long
        limit = self._visible(own)
        if longer(limit, LONG) or (limit != own and vanishes(limit)):
            return False
        if self._may_cancel(limit) or self.state.rests_on_open_means(limit):
            return False
        # a fluctuation of variance 0 is no free Gaussian: what it is added to may vanish after all
        if any(self.state.covariances[s, s] == 0 for s in self._fluctuations & limit.free_symbols):
            return False
        if self._is_random_switch(limit) or any(map(self._is_switched, self.state.gaussians.everywhere(limit))):
            return False
        return not (has_flat(limit) and vanishing_inside(expr, self._vanishes, self.within))

    def _vanishes(self, entry: Entry) -> bool:
        return bool(self.swap.get(entry, self._known(entry)) == 0)

    def values(self, expr: Expr) -> Sequence[Value]:
        """The expression at points of its random variables, by the numerical stage."""
        swap, held = dict(self.swap), {}
        for entry in entries(expr):
            if entry not in swap and (known := self._known(entry)) is not None:
                swap[entry] = known
            value = swap.get(entry)
            # deterministic limits get places of their own, so that it is seen whether the value moves with them
            if value is not None and key_of(entry) not in self.state.exact and (value == 0 or not self._random(value)):
                place = sympy.Dummy(real=True)
                swap[entry], held[place] = place, value
        for power in shifts(expr):
            swap[power] = place = sympy.Dummy(real=True)
            held[place] = sympy.S.Zero
        limit = self._visible(expr.xreplace(swap))
        variables = self.state.gaussians.everywhere(limit)
        # the image of x·S, S a fluctuation, has a variance that is random itself
        variances = [self._covariance(v, v) for v in variables]
        for read in (limit, *variances):
            variables |= self._fluctuations & read.free_symbols
        ordered = sorted(variables, key=lambda s: s.name)
        return self.state.numbers(Question(limit, held, ordered, self._covariance, self._fluctuations))

    def within(self, expr: Expr) -> Expr:
        """Through the maps that it reads, but for √n avg(…), whose law does not show in what it is made of."""
        around, fluctuations = self.state.around, self._fluctuations
        random = {e: known for e in entries(expr) if (known := self._known(e)) is not None} if fluctuations else {}
        kept = {e for e, known in random.items() if known.free_symbols & fluctuations and around.inside(e).has(N)}
        return around.opened(expr, kept)

    def _known(self, entry: Entry) -> Expr | None:
        """The limit of what the body does not read itself."""
        ket = self.state.kets.get(key_of(entry))
        return self.state.scalars.get(key_of(entry)) if ket is None else ket.expr

    def bounds(self, expr: Expr) -> tuple[Expr, Expr]:
        """By interval arithmetic, with what is negative at no width, and through the maps that it reads."""
        return bounds_through(self.finite.get(expr, expr), self.own_bounds, self.around.opened)

    def shown(self, expr: Expr) -> str:
        """With the names of the program, as it runs at width n."""
        expr = expr.xreplace(self.finite) if self.finite else expr
        return sympy.sstr(expr.xreplace({e: Symbol(self.state.label(key_of(e))) for e in entries(expr)}))

    def written(self, expr: Expr) -> str:
        """With means written out."""
        return self.state.text(self.limit(expr))

    def _has_free_part(self, limit: Expr) -> bool:
        """Whether a Gaussian variable of its own is added, which nothing can cancel; of a product, to each factor."""
        gaussians = self.state.gaussians
        for term in sympy.Add.make_args(limit):
            # a variance that rests on an open mean may be 0, then the variable is none
            _, variable = term.as_coeff_Mul()
            if (
                variable in gaussians
                and not self.state.rests_on_open_means(variable)
                and not self._is_switched(variable)
            ):
                others = gaussians.everywhere(limit - term)
                if variable not in others and gaussians.family(variable) not in map(gaussians.family, others):
                    return True
        return limit.is_Mul and all(f.is_Rational or self._has_free_part(f) for f in limit.args)

    def _may_cancel(self, limit: Expr) -> bool:
        """Whether kinks in it may add up to 0: of independent variables alone it is seen on their sides."""
        if not may_cancel(limit):
            return False
        gaussians, read = self.state.gaussians, limit.free_symbols
        families = {gaussians.family(s) for s in read if s in gaussians}
        return len(families) < len(read) or cancels_on_a_side(limit)

    def _is_switched(self, variable: Symbol) -> bool:
        """Whether a variance may vanish with positive probability: of W(x·relu(S)), S = √n·Avg, it does for S < 0."""
        return bool(self._fluctuations) and self._is_random_switch(self._covariance(variable, variable))

    def _is_random_switch(self, limit: Expr) -> bool:
        return bool(self._fluctuations) and has_flat(limit) and bool(self._fluctuations & limit.free_symbols)

    def own_bounds(self, expr: Expr) -> tuple[Expr, Expr]:
        """Bounds of a part of a body, of what it reads the signs alone."""
        signed = self.state.nonnegative
        others = {e: self._signed(e) for e in entries(expr) if e not in self.swap and key_of(e) in signed}
        known = put_in(expr, self._least, self.state.least) if self._least else expr
        return bounds(known.xreplace(others) if others else known)

    @cached_property
    def _least(self) -> dict[Expr, Expr]:
        # entries that are negative at no width, as signs that interval arithmetic can read
        known = self.state.nonnegative
        return {e: self._signed(e) for e in self.swap if isinstance(e, Entry) and key_of(e) in known}

    def _signed(self, entry: Entry) -> Expr:
        return nonnegative(entry) + self.state.above.get(key_of(entry), sympy.S.Zero)

    @cached_property
    def _fluctuations(self) -> set[Symbol]:
        return {f.symbol for f in self.state.fluctuations.values()}

    def _random(self, value: Expr) -> bool:
        visible = self._visible(value)
        return any(self.state.gaussians.is_random(s) or s in self._fluctuations for s in visible.atoms(Symbol))

    def _covariance(self, a: Symbol, b: Symbol) -> Expr:
        return self._visible(self.state.covariance(a, b))

    def _visible(self, value: Expr) -> Expr:
        """With the names that hide a fluctuation scalar written out."""
        if not self._fluctuations:
            return value
        opened: dict[Expr, Expr] = {}
        for symbol in value.free_symbols:
            moment = self.state.engine.moments.get(symbol)
            if isinstance(moment, NamedValue):
                written = self._visible(moment.value)
                if self._fluctuations & written.free_symbols:
                    opened[symbol] = written
        return value.xreplace(opened)
