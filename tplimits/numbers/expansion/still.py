"""Poles and roots where nothing moves: they need moments of a function alone, and none of its derivatives.

    u(λ ℓ) = λᵏ u(ℓ) > 0 for ℓ ≠ 0,   d = O(|ℓ|) for the derivatives d of all ℓ_i   ⇒   ∂u = Σ u_i d_i = O(u)

so that uᵖ, its first and its second derivatives by averages are all O(uᵖ), and in L² with it; those of log u are
bounded.  x²/√(x² + y²), |W x|^(−1/4) and log |W x| have an expansion on nodes, and
|W x + s|^(−1/4) has derivatives that are not integrable.  Vectors that are the same at every width move nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

import numpy
from sympy import Dummy, Expr, Integer, Mul, Symbol

from tplimits.law.gaussians import Gaussians, independent
from tplimits.law.hypotheses.vanishing import FORM, function_of, integrable, locus
from tplimits.law.hypotheses.zero import vanishes
from tplimits.numbers.expansion.fields import mapped
from tplimits.numbers.expansion.jets import Jet, summed
from tplimits.program.nodes.entries import Entry, entries
from tplimits.program.parts import found, remembered

if TYPE_CHECKING:
    from tplimits.numbers.expansion.kinks import Kinks

#: values this small are at their zero, and nothing moves by so little
_AT_ZERO = 1e-9
#: so many times ½ are degrees that are looked at
_MOST = 16


def is_still(body: Expr, place: tuple[Expr, Expr], jet: Callable[[Expr], Jet], kinks: Kinks) -> bool:
    """Whether the forms that an argument is 0 with do not move there, and a body is in L² beside its pole or root.

    `place` is (part of the body, argument), `jet` gives the jet of a function of vectors.  On a grid nodes are laid out
    for the place.
    """
    node, argument = place
    if not _in_square_mean(body, node):
        return False
    jets = [jet(form) for form in _forms(argument)]
    for x in jets if kinks.frame.divides else ():
        # a form that crosses 0 with a slope, as at a kink, is of the size of the distance from there: d = 0 is O(|ℓ|)
        if kinks.delta(x) is None:
            return False
        kinks.frame.grades(x.value)
    moves = [d for x in jets for d in (*x.slopes.values(), *(() if x.shift is None else (x.shift,)))]
    if not jets or not moves:
        return bool(jets)
    square = reduce(summed, (mapped(numpy.square, x.value) for x in jets))
    at_zero = mapped(lambda v: numpy.where(v < _AT_ZERO**2, 1.0, 0.0), square)
    # where no node stands nothing is seen
    return at_zero.size > 0 and all(mapped(numpy.multiply, at_zero, d).size < _AT_ZERO for d in moves)


@remembered(1 << 10)
def _in_square_mean(body: Expr, node: Expr) -> bool:
    """Whether a negative power, beside what it is multiplied with, has a square with a mean; other parts have."""
    if not node.is_Pow or not node.exp.could_extract_minus_sign():
        return True
    names = {e: Dummy(str(e), real=True) for e in entries(body)}
    products = [p.args for p in found(body, Mul) if node in p.args] or [(node,)]
    orders = [
        integrable(node.base.xreplace(names), -node.exp, [f.xreplace(names) for f in factors if f != node], _law(names))
        for factors in products
    ]
    return all(q is not None and q > 2 for q in orders)


def _law(names: Mapping[Entry, Symbol]) -> Gaussians:
    return independent(names.values())


@remembered(1 << 10)
def _forms(argument: Expr) -> tuple[Expr, ...]:
    """The linear forms that an argument vanishes with, and is homogeneous in; none where it is of another kind."""
    names = {e: Dummy(str(e), real=True) for e in entries(argument)}
    body, law = argument.xreplace(names), _law(names)
    zeros = locus(body, law)
    forms = [] if zeros is None else [f for f, _ in zeros.forms]
    if len(forms) == 1:
        alone = function_of(body, forms[0], law)
        homogeneous = alone is not None and _is_homogeneous(alone, (FORM,))
    else:
        homogeneous = set(forms) == set(names.values()) and _is_homogeneous(body, tuple(forms))
    return tuple(f.xreplace({name: e for e, name in names.items()}) for f in forms) if homogeneous else ()


def _is_homogeneous(body: Expr, variables: tuple[Expr, ...]) -> bool:
    doubled = body.xreplace({v: 2 * v for v in variables})
    return any(vanishes(doubled - 2 ** (Integer(k) / 2) * body) for k in range(1, _MOST))
