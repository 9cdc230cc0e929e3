"""Whether a form with constant arrays is zero: arrays satisfy identities that no normal form of products sees.

Such forms have a fixed number of tokens; they are compared with zero at random V and parameters, relative to the size
of their terms there, as conditions that data decide are judged everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, S, Symbol

from tplimits.numbers.in_digits import valued
from tplimits.program.parts import by_products
from tplimits.regimes.depth.algebra.arrays import ARRAYS, at_indices
from tplimits.regimes.depth.algebra.means import LOCAL, GaussianMean, U, definition_of, held_labels, held_symbols

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.algebra.products import Factors

_TOLERANCE = 1e-11
_DRAWS = 3
#: a part of a drift or noise that shows
_SEEN = 1e-6
#: tokens where the arrays of a form leave their number open
_ANY = 5


def vanishes(form: Form, arrays: Mapping[str, numpy.ndarray], whole: Form | None = None) -> bool:
    """Whether a form is zero; what is left of a `whole`, whether it is the rounding of its numbers.

    >>> from tplimits.regimes.depth.algebra.forms import Form
    >>> vanishes(Form({}), {})
    True
    """
    held = sorted({label for factors in form.terms for label in held_labels(factors)})
    fixed = [label for label in held if label[0] in ARRAYS]
    # without arrays and means, different canonical products are linearly independent: a form with terms is not zero
    if not form or not (whole or fixed or any(definition_of(label) for label in held)):
        return not form
    terms = [*_by_constants(form), *(_by_constants(whole) if whole else ())]
    own = len(_by_constants(form))
    m = _tokens([form.terms, whole.terms if whole else ()], arrays)
    rng = numpy.random.default_rng(0)
    inside = {s for _, factors, _ in terms for s in held_symbols(factors)}
    symbols = sorted(inside.union(*(c.free_symbols for _, _, c in terms)), key=str)
    tokens = sorted({i for _, factors, _ in terms for _, at, _ in factors for i in at if i < 0})
    unsigned = {label: numpy.abs(array) for label, array in arrays.items()}
    # a polynomial that is not zero vanishes at a random point with probability 0; three, for one may be small by
    # accident
    for _ in range(_DRAWS):
        # entries of one sign and size: no term is small by accident beside the others
        square = rng.uniform(0.5, 1.5, (m, m))
        V = square @ square.T
        values = {s: float(rng.uniform(0.3, 0.9)) for s in symbols}
        left: dict[Expr, Any] = {}
        sizes: dict[Expr, Any] = {}
        for k, (rest, factors, coefficient) in enumerate(terms):
            number = valued(coefficient, values).real
            if k < own:
                left[rest] = left.get(rest, 0.0) + number * _product(factors, tokens, V, arrays, values)
            sizes[rest] = sizes.get(rest, 0.0) + abs(number) * _product(factors, tokens, V, unsigned, values)
        # every entry by its own terms: those of other tokens may be larger by any factor that arrays hold
        if any((numpy.abs(found) > _TOLERANCE * sizes[rest]).any() for rest, found in left.items()):
            return False
    return True


def negligible(lost: Form, kept: Iterable[Form], arrays: Mapping[str, numpy.ndarray]) -> bool:
    """Whether what may be rounding is small beside what is kept, and beside 1 where V is of order 1.

    >>> from tplimits.regimes.depth.algebra.forms import Form
    >>> lost = Form({(): sympy.Float(1e-4)})
    >>> negligible(lost, [Form({(): sympy.Integer(2)})], {}), negligible(lost, [Form({(): sympy.Integer(200)})], {})
    (False, True)
    """
    several = [[lost], list(kept)]
    every = [form.terms for forms in several for form in forms]
    m = _tokens(every, arrays)
    tokens = sorted({i for terms in every for factors in terms for _, at, _ in factors for i in at if i < 0})
    inside = {s for terms in every for factors in terms for s in held_symbols(factors)}
    symbols = sorted(inside.union(*(c.free_symbols for terms in every for c in terms.values())), key=str)
    rng = numpy.random.default_rng(0)
    square = rng.uniform(0.5, 1.0, (m, m))
    V = square @ square.T / m
    values = {s: float(rng.uniform(0.3, 0.9)) for s in symbols}
    most, beside = (
        sum(
            abs(valued(c, values).real * _product(f, tokens, V, arrays, values))
            for form in forms
            for f, c in form.terms.items()
        )
        for forms in several
    )
    return bool(numpy.all(most <= _SEEN * (1.0 + beside)))


def _by_constants(form: Form) -> list[tuple[Expr, Factors, Expr]]:
    """Terms with the powers of constants in them: a sum is zero where what stands before each is, whatever its size."""
    found = [
        (rest, factors, sympy.Add(*numbers))
        for factors, c in form.terms.items()
        for rest, numbers in by_products(sympy.expand(c)).items()
    ]
    # others, as cos² and sin², are no independent functions
    powers = all(base.is_Symbol or base == 1 for rest, *_ in found for base in rest.as_powers_dict())
    return found if powers else [(S.One, factors, c) for factors, c in form.terms.items()]


def _tokens(sums: Sequence[Iterable[Factors]], arrays: Mapping[str, numpy.ndarray]) -> int:
    """The number of tokens: the size of an array at an index that a covariance has too, or any."""
    for factors in (product for products in sums for product in products):
        tokens = {i for label, at, _ in factors if label[0] not in ARRAYS and definition_of(label) is None for i in at}
        for label, at, _ in factors:
            if label[0] in ARRAYS and tokens.intersection(at):
                return int(arrays[label].shape[next(k for k, i in enumerate(at) if i in tokens)])
            definition = definition_of(label)
            if definition is not None and (held := [[f for f, _ in terms] for terms in definition.covariances]):
                found = _tokens(held, arrays)
                if found != _ANY:
                    return found
    return _ANY


def _product(
    factors: Factors,
    tokens: Sequence[int],
    V: numpy.ndarray,
    arrays: Mapping[str, numpy.ndarray],
    values: Mapping[Symbol, float],
) -> numpy.ndarray:
    """One product of a form at V, over its free tokens; kernels are replaced by generic functions of V."""
    root = numpy.sqrt(numpy.diag(V))
    known = {"V": V, "N": numpy.sin(V) + 2, "s": root, "I": numpy.eye(len(V)), **arrays}

    def value(label: str) -> numpy.ndarray:
        return known[label] if definition_of(label) is None else _generic(label, V, arrays, values)

    return at_indices(factors, value, tokens, optimize=True)


def _generic(
    label: str, V: numpy.ndarray, arrays: Mapping[str, numpy.ndarray], values: Mapping[Symbol, float]
) -> numpy.ndarray:
    """A function of the covariances of a Gaussian mean that has no symmetry which the mean does not have.

    Means of different functions differ at the same covariances: E u sin(u′) − E u tanh(u′) is not zero.
    """
    definition = definition_of(label)
    assert definition is not None
    tokens = [LOCAL + i for i in range(definition.rank)]
    own = _weights(definition.functions if isinstance(definition, GaussianMean) else (definition.power,))
    # of each function its variance, of each pair of functions their covariance: exchanged together with the functions
    # they change nothing
    weights = [own[i] if i == j else 2 * own[i] * own[j] for i in range(len(own)) for j in range(i, len(own))]
    found = numpy.zeros((1,) * definition.rank)
    for weight, terms in zip(weights, definition.covariances, strict=True):
        total = numpy.zeros((1,) * definition.rank)
        for factors, c in terms:
            total = total + valued(c, values).real * _product(factors, tokens, V, arrays, values)
        found = found + numpy.sin(weight * total) + 2
    return found


def _weights(functions: Sequence[Expr]) -> list[float]:
    """A number from ½ to 3/2 that every function has for its own: all f(u) and all f(−u) together have one mean."""
    sides = [[sympy.srepr(f.xreplace({U: side * U})) for f in functions] for side in (1, -1)]
    return [0.5 + int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12 for text in min(sides, key=sorted)]
