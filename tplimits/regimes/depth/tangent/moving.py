"""Derivatives of forms in the tokens of one sequence: V^αβ → V^αβ + t C + …, term by term.

A sequence k moves to x + t δx.  With C_ab = (1/n) x_a·δx_b and D_ab = (1/n) δx_a·δx_b, for i in sequence k and j not,

    ∂V_ij = C_ji,    ∂V_ji = C_ji,    ∂C_ij = D_ij,    ∂V_ii = 2 C_ii,

and functions of V follow by the chain rule: by Price's theorem ∂E f(u) h(u′)/∂C(u, u′) = E f′(u) h′(u′) and
∂/∂C(u, u) = E f″(u) h(u′)/2.  Every sequence is moved once, so that nothing is of second order in one t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import sympy
from sympy import DiracDelta, Expr, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.functions import kinks
from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.means import (
    LOCAL,
    Definition,
    Deviation,
    GaussianMean,
    Terms,
    U,
    definition_of,
    mean_label,
)
from tplimits.regimes.depth.algebra.products import COPIES, SPAN, Factor, Factors, next_number, renamed
from tplimits.regimes.depth.derivation.copies import sequence_of

#: a product with its coefficient
Term = tuple[Factors, Expr]
#: R with one of its tokens moved, or both; a vector R is called as one whose first token is none
RESPONSES = {"R": ("Rδ·", "R·δ"), "Rδ·": (None, "Rδδ"), "R·δ": ("Rδδ", None), "Rδδ": (None, None)}


def moved(form: Form, *sequences: int) -> Form:
    """The derivative of a form of several sequences along some of them."""
    return collected(moved_terms(form.terms.items(), *sequences))


def moved_terms(terms: Iterable[Term], *sequences: int) -> list[Term]:
    """The same of products that keep the numbers of their indices."""
    found = list(terms)
    for sequence in sequences:
        found = [new for term in found for new in _moved(term, sequence)]
    return found


def _moved(term: Term, sequence: int) -> Iterator[Term]:
    """The product rule."""
    factors, coefficient = term
    for place, factor in enumerate(factors):
        rest = (*factors[:place], *factors[place + 1 :])
        for found, number in _of_factor(factor, lambda i: sequence_of(i) == sequence, next_number(factors), sequence):
            yield (*rest, *found), coefficient * number


def _of_factor(factor: Factor, here: Callable[[int], bool], beyond: int, sequence: int) -> Iterator[Term]:
    """The derivative of one factor; `here` tells the tokens that move."""
    label, at, _ = factor
    definition = definition_of(label)
    if definition is not None:
        yield from _of_definition(definition, at, beyond, sequence)
    elif label == "V":
        # both places of V_ii move, which is where 2 C_ii comes from
        for i, j in (at, at[::-1]):
            if here(i):
                yield (("C", (j, i), 0),), S.One
    elif label == "C" and here(at[0]):
        yield (("D", at, 0),), S.One
    elif label == "N":
        # N is symmetric, A is not: its first token is the one that moved
        for i, j in (at, at[::-1]):
            if here(i):
                yield (("A", (i, j), 0),), S.One
    elif label == "A" and here(at[1]):
        yield (("B", at, 0),), S.One
    elif label == "s" and here(at[0]):
        yield (("C", at * 2, 0), ("r", at, 0)), S.One
    elif label in RESPONSES:
        for place, new in enumerate(RESPONSES[label][-len(at) :]):
            if new is not None and here(at[place]):
                yield ((new, at, 0),), S.One


def _of_definition(definition: Definition, at: tuple[int, ...], beyond: int, sequence: int) -> Iterator[Term]:
    """The chain rule through the covariances of a Gaussian mean, or through a variance."""
    change = {LOCAL + k: i for k, i in enumerate(at)}
    for outer, number, terms in _partial(definition):
        for inner, coefficient in terms:
            held = {i for _, held, _ in inner for i in held if i >= 0}
            # indices of sums inside the definition are numbered behind those of the product it stands in
            placed = renamed(inner, {**change, **{i: i + beyond for i in held}})
            for found, c in _moved((placed, coefficient), sequence):
                yield (((mean_label(outer), at, 0), *found) if outer is not None else found), number * c


def _partial(definition: Definition) -> Iterator[tuple[Definition | None, Expr, Terms]]:
    """The derivatives of a definition by its covariances, with numbers and these covariances."""
    if isinstance(definition, Deviation):
        # ∂ v^(p/2)/∂v = (p/2) v^((p−2)/2)
        lower = replace(definition, power=definition.power - 2)
        yield (lower if lower.power != 0 else None), definition.power / 2, definition.variance
        return
    assert isinstance(definition, GaussianMean)
    functions = definition.functions
    pairs = [(a, b) for a in range(len(functions)) for b in range(a, len(functions))]
    for (a, b), terms in zip(pairs, definition.covariances, strict=True):
        slopes = list(functions)
        for k in (a, b):
            slopes[k] = _slope(slopes[k])
        # the derivative of a constant factor: the whole mean drops out
        if 0 not in slopes:
            yield replace(definition, functions=tuple(slopes)), S.Half if a == b else S.One, terms


def _slope(function: Expr) -> Expr:
    """f′; refused where f has a kink or a jump, so that f″ or f′ is no function."""
    if kinks(function) or function.has(DiracDelta, sympy.Abs, sympy.sign):
        raise NoLimitError(
            f"the tangent of `{sympy.sstr(function)}` is not derived: second derivatives of its Gaussian mean are "
            "singular at its kink or jump. Piecewise linear functions with their kink at zero have a closed form; "
            "else take a smooth one."
        )
    return sympy.diff(function, U)


def together(form: Form) -> Form:
    """A form of several sequences at one: all tokens are those of the state."""
    return collected(together_terms(form.terms.items()))


def together_terms(terms: Iterable[Term]) -> Iterator[Term]:
    """The same of products that are not in their canonical form."""
    return ((_together(factors), c) for factors, c in terms)


def _together(factors: Iterable[Factor]) -> Factors:
    factors = tuple(factors)
    held = sorted({i for _, at, _ in factors for i in at if i >= 0 and i // SPAN >= COPIES})
    own = {i % SPAN for _, at, _ in factors for i in at if 0 <= i < SPAN}
    first = max(own, default=-1) + 1
    change = {i: first + k for k, i in enumerate(held)}
    return tuple((_plain(label), at, copy) for label, at, copy in renamed(factors, change))


def _plain(label: str) -> str:
    """The label of a definition whose sums are over the tokens of one sequence."""
    definition = definition_of(label)
    if definition is None:
        return label
    covariances = tuple(tuple((_together(f), c) for f, c in terms) for terms in definition.covariances)
    if isinstance(definition, Deviation):
        return mean_label(replace(definition, variance=covariances[0]))
    return mean_label(replace(definition, covariances=covariances))
