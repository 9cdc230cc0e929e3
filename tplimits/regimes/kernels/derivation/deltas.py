"""Dirac deltas of kinks: c(z) δ(z) = c(0) δ(z), which is nothing where a function is continuous."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import sympy
from sympy import DiracDelta, Expr, S, Symbol

from tplimits.law.closed_forms.integrand import Affine, Law, NotClosed, recognise
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.zero import LONG
from tplimits.law.rules.dots import NotAFunction
from tplimits.program.nodes.entries import AxisSum
from tplimits.program.nodes.functions import JUMPS, step
from tplimits.program.nodes.properties import SMOOTHLY_CROSSING, is_entire
from tplimits.program.parts import longer

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.leaves import Of
    from tplimits.regimes.kernels.derivation.recursion import Recursion

#: a value above this is certainly not zero
_SEEN = 1e-9
#: covariances of variables
Covariance = Mapping[tuple[Symbol, Symbol], Expr]


def without_vanishing_deltas(integrand: Expr, variables: Collection[Expr]) -> Expr:
    """The integrand without the deltas whose coefficient is zero at their place.

    Jumps in a coefficient are bounded: z step(z) δ(z) = 0.  The variables may be leaves of a ket.

    >>> z = Symbol("z", real=True)
    >>> without_vanishing_deltas(z * DiracDelta(z) + step(z), [z])
    step(z)
    >>> without_vanishing_deltas(sympy.exp(z) * DiracDelta(z), [z])
    exp(z)*DiracDelta(z)
    >>> without_vanishing_deltas(z**2 * DiracDelta(z**3), [z])
    z**2*DiracDelta(z**3)
    """
    if not integrand.has(DiracDelta) or _stand_apart(integrand, variables):
        return integrand
    if any(not v.is_Symbol for v in variables):
        names = {v: _stand_in(k) for k, v in enumerate(variables)}
        found = without_vanishing_deltas(integrand.xreplace(names), names.values())
        return found.xreplace({name: v for v, name in names.items()})
    gathered: dict[Expr, Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(integrand) if integrand.has(sympy.Add) else integrand):
        deltas: list[Expr] = []
        rest: list[Expr] = []
        for factor in sympy.Mul.make_args(term):
            (deltas if factor.has(DiracDelta) else rest).append(factor)
        key = sympy.Mul(*deltas)
        # coefficients of one delta together: only their sum may vanish at its place
        gathered[key] = gathered.get(key, S.Zero) + sympy.Mul(*rest)
    kept = {key: value for key, value in gathered.items() if not _vanishes(key, value, variables)}
    return integrand if len(kept) == len(gathered) else sympy.Add(*(k * v for k, v in kept.items()))


def _stand_apart(integrand: Expr, variables: Collection[Expr]) -> bool:
    """Whether a product has deltas of single variables that no other factor reads: then none vanishes."""
    factors = sympy.Mul.make_args(integrand)
    places = {f.args[0] for f in factors if isinstance(f, DiracDelta) and f.args[0] in variables}
    return all((isinstance(f, DiracDelta) and f.args[0] in places) or not f.has(DiracDelta, *places) for f in factors)


@cache
def _stand_in(place: int) -> Symbol:
    """The same for one integrand and the next, so that what SymPy remembers of one serves the other."""
    return sympy.Dummy(real=True)


def without_deltas_at_zeros(state: Recursion, limit: Expr) -> Expr:
    """A ket without the derivatives of the jump of u step(u): terms of u, taken apart, would keep a delta each."""
    deltas = dict.fromkeys(limit.atoms(DiracDelta), S.Zero)
    if not deltas:
        return limit
    sums = [total for total in limit.atoms(AxisSum) if total.has(DiracDelta)]
    limit = limit.xreplace({t: AxisSum(without_deltas_at_zeros(state, t.summand), *t.args[1:]) for t in sums})
    ways = _written_out(state, limit, {x for d in deltas for x in state.leaves(d)})
    gone = any(not without_vanishing_deltas(way, state.leaves(way)).has(DiracDelta) for way in ways)
    return limit.xreplace(deltas) if gone else limit


def _written_out(state: Recursion, limit: Expr, places: Collection[Of]) -> Iterator[Expr]:
    """A ket with what is inside of its deltas written out; and with the functions that its names stand for, step by
    step: z − y with z = exp(min(y, 0)) − 1 is zero at y = 0.
    """
    yield limit.xreplace({x: state.opened(x) for x in places if state.nodes[x.node].body is not None})
    while not longer(limit, LONG):
        names = {x: state.opened(x) for x in state.leaves(limit) if _is_map(state, x)}
        if not names:
            break
        limit = limit.xreplace(names)
        yield limit


def _is_map(state: Recursion, leaf: Of) -> bool:
    """Whether a leaf is the name of a function of others, and no tangent."""
    node = state.nodes[leaf.node]
    return node.body is not None and not node.gaussian and not state.degree_of(leaf.node)


def _vanishes(deltas: Expr, coefficient: Expr, variables: Collection[Expr]) -> bool:
    # a jump has any value between its sides there: what vanishes beside every value vanishes
    jumps = {f: sympy.Dummy(real=True) for f in coefficient.atoms(step, sympy.sign)}
    bounded = coefficient.xreplace(jumps)
    for delta in deltas.atoms(DiracDelta):
        argument = delta.args[0]
        places = argument.free_symbols & set(variables)
        if not places:  # of a scalar that stays random
            continue
        slopes = ((z, argument.diff(z)) for z in sorted(places, key=str))
        z, slope = next(((z, slope) for z, slope in slopes if not slope.free_symbols & places), (None, S.One))
        if z is not None and bounded != 0 and bounded.free_symbols.isdisjoint(places):
            continue  # as large at its place as anywhere
        if z is not None:  # an affine form, solved for one of its variables
            at_root = bounded.xreplace({z: z - argument / slope})
            if sympy.expand(sympy.expand(at_root, deep=False)) == 0:
                return True
        quotient = sympy.expand(bounded / argument)
        if not any(p.exp.could_extract_minus_sign() and p.free_symbols & places for p in quotient.atoms(sympy.Pow)):
            return True  # u δ(u), whatever u is
        if len(places) != 1:
            continue
        (z,) = places
        argument, bounded, z = _centred(argument, bounded, z)
        if _touches(argument, z):
            return True
        power = _power(argument, z)
        if power and power % 2 == 0:  # it touches zero and jumps nowhere
            return True
        if power and sympy.expand(sympy.expand(bounded / z ** (power - 1)).xreplace({z: S.Zero})) == 0:
            return True
    return False


def _centred(argument: Expr, bounded: Expr, z: Symbol) -> tuple[Expr, Expr, Symbol]:
    """A function of one form a z + b and what stands beside its delta, with the form as the variable."""
    for form in argument.atoms(sympy.Add):
        slope = form.diff(z)
        if slope.is_number and slope != 0:
            w = sympy.Dummy(real=True)
            place = {z: (w - form.xreplace({z: S.Zero})) / slope}
            return sympy.expand(argument.xreplace(place)), bounded.xreplace(place), w
    return argument, bounded, z


def _touches(argument: Expr, z: Symbol) -> bool:
    """Whether a function of z alone is of one sign but where it is 0, at single points: step(√(1 − tanh² z)) is 1."""
    low, high = bounds(argument)
    inner = argument.as_independent(z, as_Add=False)[1]
    while isinstance(inner, sympy.Abs) or (inner.is_Pow and inner.exp.is_Rational and inner.exp.is_positive):
        inner = inner.args[0]
    alone = (low >= 0 or high <= 0) and inner.free_symbols == {z} and is_entire(inner, z)
    return alone and bool(abs(inner.xreplace({z: sympy.Float(0.7)}).evalf()) > _SEEN)


def _power(argument: Expr, z: Symbol) -> int:
    """The k of a function that is zero at z = 0 alone, and there like z^k; 0 for others, such as sin z.

    δ(z³) is δ(z)/(3 z²): a coefficient z² beside it leaves a third of a delta, although it vanishes at 0.
    """
    argument = argument.as_independent(z, as_Add=False)[1]
    if isinstance(argument, SMOOTHLY_CROSSING):
        return _power(argument.args[0], z)
    if argument.is_Pow and argument.exp.is_integer and argument.exp.is_positive:
        return int(argument.exp) * _power(argument.base, z)
    if argument.is_Mul:
        powers = [_power(factor, z) for factor in argument.args]
        return sum(powers) if all(powers) else 0
    return int(argument == z)


@dataclass(frozen=True)
class Conditional:
    """E[δ(ℓ) F] = `density` · E[`integrand`] under the law of the other variables given ℓ = 0, ℓ an affine form.

    `mean` is what is added to each of them: their law is centred again.
    """

    density: Expr
    integrand: Expr
    variables: list[Symbol]
    mean: dict[Symbol, Expr]
    covariance: dict[tuple[Symbol, Symbol], Expr]


def conditional(term: Expr, variables: Sequence[Symbol], covariance: Covariance) -> Conditional:
    """The mean of a product with one delta as a mean without it.

    Raises NotAFunction where a jump stands at the place of the delta, and for deltas of nonlinear functions.

    >>> z, w = sympy.symbols("z w", real=True)
    >>> c, d, m = sympy.symbols("c d m", positive=True)
    >>> law = {(z, z): c, (z, w): m, (w, z): m, (w, w): d}
    >>> found = conditional(DiracDelta(z) * w**2, [z, w], law)
    >>> found.density, found.integrand, found.covariance[w, w]
    (sqrt(2)/(2*sqrt(pi)*sqrt(c)), w**2, d - m**2/c)
    """
    # one delta in a term: products of two were refused before
    (delta,) = term.atoms(DiracDelta)
    names: dict[Expr, Symbol] = {}
    rows = [[_named(covariance[a, b], names) for b in variables] for a in variables]
    try:
        (form,) = recognise([delta], variables).deltas
        law = Law(tuple(map(tuple, rows)))
        density, (mean, rest) = law.density(form), law.given(form)
    except (NotClosed, ValueError):
        raise NotAFunction(
            f"a mean holds the derivative {sympy.sstr(delta):.120} of a jump, at a place that is no linear form of "
            "Gaussian variables. Jump where a linear form vanishes, or smooth the jump."
        ) from None
    values = {symbol: value for value, symbol in names.items()}
    # where the form vanishes one of its variables is a function of the others
    gone = next(i for i, a in enumerate(form.slope) if a != 0)
    kept = [i for i in range(len(variables)) if i != gone]
    others = [variables[i] for i in kept]
    place = {variables[gone]: _solved(form, gone, variables)}
    return Conditional(
        density.xreplace(values),
        _at_place(term / delta, place, others),
        others,
        {variables[i]: mean[i].xreplace(values) for i in kept},
        {(variables[i], variables[j]): rest.covariance[i][j].xreplace(values) for i in kept for j in kept},
    )


def _named(value: Expr, names: dict[Expr, Symbol]) -> Expr:
    """A covariance by a short name: what is looked up in tables is too long for algebra."""
    return value if value.is_number else names.setdefault(value, Symbol(f"c′{len(names)}", real=True))


def _solved(form: Affine, gone: int, variables: Sequence[Symbol]) -> Expr:
    """The variable number `gone` where the form vanishes."""
    rest = (a * z for i, (a, z) in enumerate(zip(form.slope, variables, strict=True)) if i != gone)
    return sympy.expand(-(form.constant + sympy.Add(*rest)) / form.slope[gone])


def _at_place(beside: Expr, place: Mapping[Symbol, Expr], variables: Collection[Symbol]) -> Expr:
    """What stands beside a delta at its place, if it has a value there: at most one jump, and that elsewhere.

    Inputs may coincide, and then that jump is at the place of the delta after all: δ(z) step(z) is δ(z)/2, which is
    where the derivatives of step(z) sign(z) add up to δ(z).
    """
    jumps = beside.atoms(*JUMPS)
    if len(jumps) > 1 or any(not f.args[0].xreplace(place).free_symbols & set(variables) for f in jumps):
        raise NotAFunction
    found = beside.xreplace(place)
    if found.has(DiracDelta, sympy.zoo, sympy.nan, sympy.oo):
        raise NotAFunction
    return found.xreplace({f: (1 + sympy.sign(f.args[0])) / 2 for f in found.atoms(step)})
