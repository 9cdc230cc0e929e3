"""Kernels of single pairs without finite axes: all pairs of few inputs, and those that a compiled plan is unsure of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.regimes.kernels.numbers.fused.arrays import FusedArrays, Places, fused_arrays
from tplimits.regimes.kernels.numbers.fused.statements import NotFused
from tplimits.regimes.kernels.numbers.inputs import Inputs, keyed
from tplimits.regimes.kernels.numbers.precise import precise_pairs

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables

#: statements of all pairs, of all calls so far, from which on a plan is compiled
_INTERPRETED = 1 << 28
#: the same of one call from which on a second one tells that more will follow
_REPEATED = 1 << 19
#: so many pairs of a block are done in many digits, milliseconds each; the rest keeps an error of about 1e-8
_MOST_PRECISE = 2048


class _Fused:
    """The functions of one recursion with its constants, and the statements that they have done for all pairs."""

    def __init__(self, derivation: KernelTables, constants: Mapping[Expr, float]) -> None:
        self.arrays: FusedArrays = fused_arrays(derivation, constants)
        self.worth = 0


def _fused(derivation: KernelTables, constants: Mapping[Expr, float]) -> _Fused:
    """The functions of a derivation, remembered; constants that stand inside moments are part of their text."""
    known: dict[Any, _Fused | None] = derivation.remembered["fused"]
    key = keyed(constants)
    if key not in known:
        try:
            known[key] = _Fused(derivation, constants)
        except NotFused:
            known[key] = None
    found = known[key]
    if found is None:
        raise NotFused
    return found


def are_many_by_now(derivation: KernelTables, constants: Mapping[Expr, float], pairs: int) -> bool:
    """Whether calls so far were so much work that compiling costs no more, or there were some and this one is much."""
    found = derivation.remembered["fused"].get(keyed(constants))
    if found is None or not found.worth:
        return False
    return bool(found.worth >= _INTERPRETED or pairs * found.arrays.statements >= _REPEATED)


def pairs(
    derivation: KernelTables,
    one: Inputs,
    other: Inputs,
    constants: Mapping[Expr, float],
    symmetric: bool,
    dtype: type[numpy.floating[Any]] = numpy.float64,
) -> tuple[Array, Array]:
    """NNGP and NTK of all pairs, (N1, N2) each.  Raises NotFused for recursions that need arrays with axes."""
    fused = _fused(derivation, constants)
    *left, own = fused.arrays.own(one)
    rows = left[0], left[1] if symmetric else fused.arrays.own(other)[1]
    found = numpy.empty((2, one.many, other.many), dtype)
    fused.worth += found[0].size * fused.arrays.statements
    places = _triangle(one.many) if symmetric else tuple(i.ravel() for i in numpy.indices(found[0].shape))
    for array, values, mine in zip(found, _at(fused.arrays, one, other, rows, places), own, strict=True):
        array[places] = values
        if symmetric:
            array[places[::-1]] = values
            array.reshape(-1)[:: one.many + 1] = mine
    return found[0], found[1]


def careful_pairs(
    derivation: KernelTables, one: Inputs, other: Inputs, constants: Mapping[Expr, float], places: Places
) -> tuple[Array, Array]:
    """NNGP and NTK of the pairs at some places, which are nearly singular.  Raises NotFused."""
    arrays = _fused(derivation, constants).arrays
    return _at(arrays, one, other, (arrays.own(one)[0], arrays.own(other)[1]), places)


@lru_cache(maxsize=16)
def _triangle(many: int) -> Any:
    return numpy.triu_indices(many, 1)


def _at(
    arrays: FusedArrays, one: Inputs, other: Inputs, rows: tuple[list[Array], list[Array]], places: Places
) -> tuple[Array, Array]:
    """Both kernels of some pairs by the statements that keep determinants."""
    with numpy.errstate(all="ignore"):
        K, T, singular = arrays.of(one, other, rows, places)
    if singular.any():
        # what determinants of data do not settle: laws whose rule is missing
        open_ = numpy.flatnonzero(singular)[:_MOST_PRECISE]
        these = numpy.stack([places[0][open_], places[1][open_]], axis=1)
        K[open_], T[open_] = precise_pairs(arrays.derivation, one, other, these, arrays.constants).T
    return K, T
