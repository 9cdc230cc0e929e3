"""Functions of scalars by their Taylor series around what is fixed: softmax weights, normalisations.

A scalar is s + y with s a number or a constant array and y of size ε or less; f(s + y) = Σ f⁽ʲ⁾(s) yʲ/j!, up to the
order that is kept.  Nothing is known about the softmax beforehand: it is exp, a sum and a quotient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.fluctuation import diverging
from tplimits.program.nodes.domains import ends_of_domains
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, with_names
from tplimits.program.parts import found as parts_of
from tplimits.regimes.depth.algebra.arrays import ARRAYS, Arrays
from tplimits.regimes.depth.algebra.expansions import ARGUMENT, told
from tplimits.regimes.depth.algebra.products import (
    SPAN,
    Factor,
    Poly,
    ProductTerm,
    has_kinks,
    lowest,
    lowest_of_all,
    multiplied,
    total,
)
from tplimits.regimes.depth.algebra.settling import added
from tplimits.regimes.depth.algebra.tables import without_background
from tplimits.regimes.depth.algebra.vanishing import vanishes
from tplimits.regimes.depth.algebra.writing import defined
from tplimits.regimes.depth.derivation.not_covered import NO_CLOSED_FORM
from tplimits.regimes.depth.derivation.scalars.leading import SEVERAL
from tplimits.regimes.depth.derivation.scalars.limits import NotSmall
from tplimits.regimes.depth.derivation.scalars.sides import at_array, at_number
from tplimits.regimes.depth.derivation.scalars.sizes import mean_and_covariance, variance

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering

#: why functions of constant arrays hold no symbolic constants
SYMBOLIC = "a function of a constant array times a symbolic constant; give the constant a number by .bind."
#: what is no number of the program
_VARYING = (Entry, ArrayEntry, AxisSum)


def series(lowering: Lowering, expr: Expr, env: Mapping[Expr, int]) -> Poly:
    """A function of one scalar, expanded."""
    if isinstance(expr, sympy.Pow) and not expr.exp.has(sympy.Function) and expr.exp.is_number:
        inner, function = expr.base, ARGUMENT**expr.exp
    elif isinstance(expr, sympy.Function) and len(varying := [a for a in expr.args if a.has(*_VARYING)]) == 1:
        inner, function = varying[0], expr.func(*(ARGUMENT if a is varying[0] else a for a in expr.args))
    elif isinstance(expr, SEVERAL):
        whole = lowering.lower(expr.definition(), env)
        return Poly(tuple(lowering.arrays.gathered(whole.terms, tuple(dict.fromkeys(env.values())))), whole.cut)
    else:
        lowering.fail(f"`{type(expr).__name__}` of several scalars is not covered; use functions of one scalar.")
    fixed, small = parts(lowering, lowering.lower(inner, env))
    lifted = small.terms and lowest(small) <= 0
    # single terms may be of order 1 while their sum is small: softmax logits minus their mean
    if lifted:
        insist_on_small(lowering, expr, small, env)
    elif isinstance(expr, sympy.exp) and _invisible(small):
        little = f"by {size(lowest(small))} only" if small.terms else "by less than 1/n"
        lowering.remarks[
            f"the argument of exp in {lowering.where} fluctuates {little}: its fluctuations leave no trace in drift "
            "and noise. They would with the temperature τ0·sqrt(n·k)."
        ] = None
    random = any(f[0][0] == "F" for t in small.terms for f in t.factors)
    if random and lowest(small) <= 1 and not has_kinks(small):
        _measure(lowering, expr, fixed, small, env)
    least = max(1, lowest_of_all(small))
    found = []
    power = Poly((ProductTerm(S.One, lowering.model.zero_powers, 0, ()),))
    derivative = function
    for j in range(lowering.limit // least + 1):
        if j:
            # each factor lowered anew, with summed indices of its own
            _, again = parts(lowering, lowering.lower(inner, env))
            if lifted:  # small in their sum alone: all of them are kept, or none
                again = Poly(tuple(t._replace(pert=max(1, t.pert)) for t in again.terms), again.cut)
            power = multiplied(power, again, lowering.limit)
            # with 1/j! built in step by step
            derivative = derivative.diff(ARGUMENT) / j
        found.append(multiplied(_at(lowering, derivative, fixed, env, expr), power, lowering.limit))
    known = lowering.limit if small.cut is None else min(lowering.limit, small.cut)
    cut = known if small.terms or small.cut is not None else None
    return lowering.arranged(total([*found, Poly((), cut)]))


def with_one_array(lowering: Lowering, poly: Poly, env: Mapping[Expr, int]) -> Poly:
    """A sum with one array before each product of averages: rotated logits have eight products of four."""
    found: dict[bool, list[ProductTerm]] = {True: [], False: []}
    for t in poly.terms:
        kinds = {f[0][0] for f in t.factors}
        found["F" in kinds and not kinds.isdisjoint(ARRAYS)].append(t)
    if len(found[True]) < 2:
        return poly
    return Poly((*found[False], *lowering.arrays.gathered(found[True], tuple(dict.fromkeys(env.values())))), poly.cut)


def _measure(lowering: Lowering, expr: Expr, fixed: Poly, small: Poly, env: Mapping[Expr, int]) -> None:
    """Keep n times the variance of an argument that is expanded: how wide networks have to be for it to be small.

    What is taken to a power is measured by what it fluctuates around, a number.
    """
    name = f"the argument of {expr.func.__name__} in `{lowering.program[lowering.here].name}`"
    around = S.One
    if isinstance(expr, sympy.Pow):
        name = f"what is taken to the power {expr.exp} in `{lowering.program[lowering.here].name}`"
        if not fixed.terms or any(t.factors for t in fixed.terms):
            return
        # (s + y)^p depends on y/s alone
        around = sympy.Add(*_numbers(lowering, fixed))
    spread = variance(small, lowering.model, lowering.arrays, frozenset(env.values())).scaled(around**-2)
    known = [form for other, form in lowering.model.expanded.items() if other.startswith(name)]
    if spread not in known:  # another argument of the same function
        lowering.model.expanded[f"{name}, {len(known) + 1}" if known else name] = spread


def _invisible(small: Poly) -> bool:
    """Whether an argument is random by less than what shows in drift and noise, or is cut off altogether."""
    if not small.terms:
        return small.cut is not None
    random = [t.pert for t in small.terms if any(label[0] == "F" for label, _, _ in t.factors)]
    return bool(random) and min(random) > 1


def insist_on_small(lowering: Lowering, expr: Expr, small: Poly, env: Mapping[Expr, int]) -> None:
    """Refuse an argument that moves by more than n^(−1/2), judged by the mean and covariance of its sum."""
    what = f"the argument of {expr.func}" if isinstance(expr, sympy.Function) else f"the argument y of `{expr}`"
    if isinstance(expr, sympy.Pow):
        what = f"what is taken to the power {expr.exp}"
    if has_kinks(small):
        refused = NotSmall if lowest(small) == 0 else NoLimitError
        raise refused(
            f"{lowering.where}: not perturbative: {what} holds a function of scalars with a kink or jump at order "
            f"{size(lowest(small))}, which makes the noise of a layer one of order 1; divide it by sqrt(n)."
        )
    # an average of what weights of order 1 multiply
    for label in lowering.model.weights_in(small):
        raise NotSmall(lowering.model.weights[label].refusal)
    mean, covariance = mean_and_covariance(small, lowering.model, lowering.arrays, frozenset(env.values()))
    known = lowering.arrays.values
    if any(label[0] == "Q" for orders in (mean, covariance) for f in orders.opaque for label, _, _ in f):
        lowering.fail(
            f"not closed: {what} holds averages over the neurons of the state, such as tp.avg(x), that are no "
            "functions of V, so that V is not Markov; leave them out, or put a matrix between, as in tp.avg(W @ x)."
        )
    spread = [(o, f) for o, f in covariance.forms.items() if o < 2 and not vanishes(f, known)]
    moved = [(o, f) for o, f in mean.forms.items() if o < 1 and not vanishes(f, known)]
    refused = NotSmall if any(o <= 0 for o, _ in spread) else NoLimitError  # what is random may be so on a small branch
    # what fluctuates by as much as its mean, as 1 + n y², is no function of the state
    if moved and not any(o <= 2 * moved[0][0] for o, _ in spread):
        shown, where = defined(moved[0][1], known)
        if moved[0][0] < 0:
            inner = with_names(expr.args[0], lambda entry: lowering.program[entry.source].name)
            tends = f"{shown} of order {size(moved[0][0])}{where}"
            raise NotSmall(str(diverging(lowering.where, inner, tends, inner)))
        state = f"{what} is {shown} of order {size(moved[0][0])}, a function of the state{where}"
        if isinstance(expr, sympy.Pow):
            raise NotSmall(
                f"{lowering.where}: {state}: a normalisation by the state, as in layer norm, makes the leading map "
                "V → V′ nonlinear in V: it needs the Itô rule for that map, and has no formula here. Divide by "
                "a number, such as the size that is expected (tp.expect), or leave the normalisation out and normalise "
                "V along the paths."
            )
        raise NotSmall(
            f"{lowering.where}: {state}; the next covariance would not be a polynomial in V. Subtract its mean, or "
            "scale it by 1/n: V may change by 1/n in a layer."
        )
    if spread:
        shown, where = defined(spread[0][1], known)
        raise refused(
            f"{lowering.where}: not perturbative: {what} has fluctuations of order {size(spread[0][0] // 2)}, with "
            f"variance {shown}{where}. A function of it that is of order 1 makes drift and noise of one layer of order "
            "1, without a limit of depth proportional to width; one of size n^(-1/2), or a product of that size, is "
            "covered where such functions are all that is added to the state. Give it the temperature τ0·sqrt(n·k): "
            "divide an average of keys times queries by τ0·sqrt(n/k)."
        )
    if any(order < 1 for order in mean.opaque.values()) or any(order < 2 for order in covariance.opaque.values()):
        lowering.fail(f"the size of {what} is not known: it holds {NO_CLOSED_FORM}.")


def size(order: int) -> str:
    """n to the power −order/2, as a message writes it."""
    return "1" if order == 0 else f"n^({sympy.Rational(-order, 2)})"


def parts(lowering: Lowering, poly: Poly) -> tuple[Poly, Poly]:
    """What is fixed (of order 1 exactly, and no function of the state), and the rest."""
    fixed = [
        t
        for t in poly.terms
        if lowering.model.order_of(t.powers) == 0 and all(f[0][0] in ARRAYS or f[0] == "I" for f in t.factors)
    ]
    # functions of the state, however large, are no point to expand around: it would be another one in every layer
    rest = [t for t in poly.terms if t not in fixed]
    return Poly(tuple(fixed)), Poly(tuple(rest), poly.cut)


def _numbers(lowering: Lowering, fixed: Poly) -> list[Expr]:
    dimensions = lowering.model.dimensions
    return [
        t.coeff * sympy.Mul(*(d.size ** sympy.Rational(p, 2) for d, p in zip(dimensions, t.powers, strict=True)))
        for t in fixed.terms
    ]


def fixed_number(lowering: Lowering, fixed: Poly) -> Expr | None:
    """The fixed part of a scalar where it is a number; None where it is a constant array."""
    if any(t.factors for t in fixed.terms):
        return None
    return added(_numbers(lowering, fixed))


def fixed_table(lowering: Lowering, fixed: Poly, env: Mapping[Expr, int]) -> tuple[tuple[int, ...], numpy.ndarray]:
    """The indices of the fixed part of a scalar, a constant array, and its values."""
    numbers = _numbers(lowering, fixed)
    if any(not number.is_number for number in numbers):
        lowering.fail(SYMBOLIC)
    held = {i for t in fixed.terms for f in t.factors for i in f[1]}
    at = tuple(i for i in dict.fromkeys(env.values()) if i in held)
    arrays = Arrays(dict(lowering.arrays.values))
    terms = [t._replace(factors=tuple(_undone(lowering, arrays, f) for f in t.factors)) for t in fixed.terms]
    return at, arrays.total(terms, list(map(float, numbers)), at)


def array_at(lowering: Lowering, values: numpy.ndarray, at: tuple[int, ...]) -> Poly:
    """A constant array at indices, what is one number off its diagonal as that number and a δ."""
    terms = []
    for part in without_background(values):
        scale, factors = lowering.arrays.factor(part, at)
        if scale:
            number = sympy.Rational(scale.numerator, scale.denominator)
            terms.append(ProductTerm(number, lowering.model.zero_powers, 0, factors))
    return Poly(tuple(terms))


def _undone(lowering: Lowering, arrays: Arrays, factor: Factor) -> Factor:
    """A factor, δ of two indices as the array of the size that their axis has."""
    label, at, copy = factor
    if label != "I":
        return factor
    return arrays.label(numpy.eye(lowering.data.size(lowering.model.dimensions[at[0] // SPAN].name))), at, copy


def _keep_domain(lowering: Lowering, function: Expr, number: Expr) -> None:
    """What open constants may not make negative: of (√−c)² = −c nothing shows that it is no number."""
    logarithms = [(node, node.args[0]) for node in parts_of(function, sympy.log)]
    for node, end in (*ends_of_domains(function), *logarithms) if number.free_symbols else ():
        lowering.model.domains[str(node.xreplace({ARGUMENT: number}))] = end.xreplace({ARGUMENT: number})


def _at(lowering: Lowering, function: Expr, fixed: Poly, env: Mapping[Expr, int], written: Expr) -> Poly:
    """A function, or a derivative of what is `written`, at the fixed part of its argument."""
    number = fixed_number(lowering, fixed)
    name = written.func.__name__ if isinstance(written, sympy.Function) else ""
    if number is not None:
        _keep_domain(lowering, function, number)
        try:
            value = at_number(function, ARGUMENT, number, name)
        except NoLimitError as error:
            lowering.fail(str(error))
        if value.has(sympy.zoo, sympy.nan, sympy.oo):
            lowering.fail(f"a division by zero or a singular value: `{told(function)}` at y = {number}.")
        return lowering.number(value)
    if function.free_symbols - {ARGUMENT}:
        lowering.fail(SYMBOLIC)
    at, table = fixed_table(lowering, fixed, env)
    try:
        values = at_array(function, ARGUMENT, table, name)
    except NoLimitError as error:
        lowering.fail(str(error))
    if (singular := ~numpy.isfinite(values)).any():
        lowering.fail(
            f"`{told(function)}` is not finite at y = {table[singular][0]:.6g}, where the argument settles by a "
            "constant array. Where y is the sum of a row of a mask, let every token see a key."
        )
    return array_at(lowering, values, at)
