"""Whether a form with constant arrays is zero: arrays satisfy identities that no normal form of products sees.

Such forms have a fixed number of tokens; they are compared with zero at random V and parameters, relative to the size
of their terms, as conditions that data decide are judged everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from tplimits.limit.depth.arrays import ARRAYS
from tplimits.limit.depth.forms import Form
from tplimits.limit.depth.numbers import valued

_TOLERANCE = 1e-11
_DRAWS = 3
#: tokens where the arrays of a form leave their number open
_ANY = 4
#: free indices a form can have
_FREE = 10


def vanishes(form: Form, arrays: Mapping[str, numpy.ndarray]) -> bool:
    """Whether a form is zero.

    >>> vanishes(Form({}), {})
    True
    """
    held = [f[0] for factors in form.terms for f in factors if f[0][0] in ARRAYS]
    if not form or not held:
        return not form
    m = _tokens(form, arrays)
    rng = numpy.random.default_rng(0)
    symbols = sorted(set().union(*(c.free_symbols for c in form.terms.values())), key=str)
    for _ in range(_DRAWS):
        square = rng.uniform(0.5, 1.5, (m, m))
        V = square @ square.T
        values = {s: float(rng.uniform(0.3, 0.9)) for s in symbols}
        total, size = numpy.zeros(()), 0.0
        for factors, coefficient in form.terms.items():
            term = valued(coefficient, values).real * _product(factors, V, arrays)
            total, size = total + term, max(size, float(numpy.abs(term).max()))
        if float(numpy.abs(total).max()) > _TOLERANCE * size:
            return False
    return True


def _tokens(form: Form, arrays: Mapping[str, numpy.ndarray]) -> int:
    """The number of tokens: the size of an array at an index that a covariance has too, or any."""
    for factors in form.terms:
        tokens = {i for label, at, _ in factors if label[0] not in ARRAYS for i in at}
        for label, at, _ in factors:
            if label[0] in ARRAYS and tokens.intersection(at):
                return int(arrays[label].shape[next(k for k, i in enumerate(at) if i in tokens)])
    return _ANY


def _product(factors: tuple, V: numpy.ndarray, arrays: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
    """One product of a form at V, over all free indices; kernels are replaced by generic functions of V."""
    root = numpy.sqrt(numpy.diag(V))
    known = {"V": V, "N": numpy.sin(V) + 2, "s": root, "I": numpy.eye(len(V)), **arrays}
    place = {-1 - k: k for k in range(_FREE)}
    operands: list = [] if factors else [numpy.ones(()), []]
    for label, at, _ in factors:
        operands += [known[label], [place.setdefault(i, len(place)) for i in at]]
    free = sorted({place[i] for _, at, _ in factors for i in at if i < 0})
    value = numpy.einsum(*operands, free)
    shape = iter(value.shape)
    return value.reshape([next(shape) if axis in free else 1 for axis in range(_FREE)])
