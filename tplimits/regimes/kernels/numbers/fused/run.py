"""Running the fused loop: blocks of rows, Gram matrices by matrix products, nearly singular pairs once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.arrays import Array
from tplimits.program.nodes.evaluate import evaluate
from tplimits.regimes.kernels.numbers.fused.arrays import Gram, Places, fused_arrays
from tplimits.regimes.kernels.numbers.fused.loops import Loop, loop_for
from tplimits.regimes.kernels.numbers.fused.statements import NotFused
from tplimits.regimes.kernels.numbers.inputs import Inputs, keyed
from tplimits.regimes.kernels.numbers.precise import precise_pairs

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables

#: entries of one Gram matrix of a block of rows
_BLOCK = 1 << 19
#: statements of all pairs, of all calls so far, up to which they are done by arrays: compiling a loop takes seconds
_INTERPRETED = 1 << 28
#: the same of one call from which on a second one tells that more will follow
_REPEATED = 1 << 19
#: the same where the loop is compiled already and only has to be read, or where bits must not depend on earlier calls
_FEW = 1 << 22
#: so many pairs of a block are done in many digits, milliseconds each; the rest keeps an error of about 1e-8
_MOST_PRECISE = 2048


class _Fused:
    """The forms of one recursion with its constants: arrays, and loops for much work."""

    def __init__(self, derivation: KernelTables, constants: Mapping[Expr, float]) -> None:
        self.derivation, self.constants = derivation, constants
        self.arrays = fused_arrays(derivation, constants)
        self.worth = 0

    @cached_property
    def fast(self) -> Loop:
        """The loop over all pairs."""
        return loop_for(self.derivation, self.constants, careful=False)

    @cached_property
    def careful(self) -> Loop:
        """The loop over pairs that are nearly singular."""
        return loop_for(self.derivation, self.constants, careful=True)

    def by_arrays(self, pairs: int, settled: bool) -> bool:
        """Whether so many pairs more are done without a loop; `settled`: whatever came before."""
        work = pairs * self.arrays.statements
        self.worth += work
        return work < _FEW or (not settled and self.worth < _INTERPRETED and not self.fast.is_kept)


def _fused(derivation: KernelTables, constants: Mapping[Expr, float]) -> _Fused:
    """The forms of a derivation, remembered; constants that stand inside moments are part of their text."""
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
    settled: bool = False,
) -> tuple[Array, Array]:
    """NNGP and NTK of all pairs, (N1, N2) each.  Raises NotFused for recursions that need arrays.

    `settled`: whether a loop is compiled does not depend on earlier calls, so that a tile has the same bits everywhere.
    """
    fused = _fused(derivation, constants)
    *left, own = fused.arrays.own(one)
    rows = left[0], left[1] if symmetric else fused.arrays.own(other)[1]
    nngp, ntk = numpy.empty((2, one.many, other.many), dtype)
    if fused.by_arrays(nngp.size, settled):
        places = _triangle(one.many) if symmetric else tuple(i.ravel() for i in numpy.indices(nngp.shape))
        K, T = _careful(fused, one, other, rows, places)
        for array, values in ((nngp, K), (ntk, T)):
            array[places] = values
            if symmetric:
                array[places[::-1]] = values
    else:
        _by_loops(fused, one, other, rows, symmetric, (nngp, ntk))
        if symmetric:
            _mirror(nngp)
            _mirror(ntk)
    if symmetric:
        for array, values in ((nngp, own[0]), (ntk, own[1])):
            array.reshape(-1)[:: one.many + 1] = values
    return nngp, ntk


def careful_pairs(
    derivation: KernelTables, one: Inputs, other: Inputs, constants: Mapping[Expr, float], places: Places
) -> tuple[Array, Array]:
    """NNGP and NTK of the pairs at some places, which are nearly singular.  Raises NotFused."""
    fused = _fused(derivation, constants)
    return _careful(fused, one, other, (fused.arrays.own(one)[0], fused.arrays.own(other)[1]), places)


@lru_cache(maxsize=16)
def _triangle(many: int) -> Any:
    return numpy.triu_indices(many, 1)


def _by_loops(
    fused: _Fused,
    one: Inputs,
    other: Inputs,
    rows: tuple[list[Array], list[Array]],
    symmetric: bool,
    into: tuple[Array, Array],
) -> None:
    """Block by block of rows; of symmetric kernels what is not below the diagonal."""
    loop = fused.fast
    numbers = _numbers(loop, fused.constants)
    mine, theirs = _stacked(rows[0], one.many), _stacked(rows[1], other.many)
    step = max(1, _BLOCK // max(1, other.many * max(1, len(loop.grams))))
    for start in range(0, one.many, step):
        part = slice(start, min(start + step, one.many))
        rest = slice(start if symmetric else 0, other.many)
        some, those = one.some(part), other.some(rest)
        grams = _grams(fused.arrays.grams, some, those)
        near = numpy.empty((some.many, those.many), dtype=numpy.bool_)
        K, T = numpy.empty((2, some.many, those.many))
        left, right = (numpy.ascontiguousarray(r) for r in (mine[:, part], theirs[:, rest]))
        loop.run(grams, numpy.empty((0, 0, 0)), left, right, numbers, K, T, near, symmetric)
        if symmetric:
            # below the diagonal are copies, on it the kernels of inputs with themselves, which are put in afterwards
            near[numpy.tril_indices(some.many, 0, those.many)] = False
        places = numpy.nonzero(near)
        if len(places[0]):
            sides = [r[part] for r in rows[0]], [r[rest] for r in rows[1]]
            K[places], T[places] = _careful(fused, some, those, sides, places)
        into[0][part, rest], into[1][part, rest] = K, T


def _careful(
    fused: _Fused, one: Inputs, other: Inputs, rows: tuple[list[Array], list[Array]], places: Places
) -> tuple[Array, Array]:
    """Both kernels of some pairs by the statements that keep determinants."""
    if len(places[0]) * fused.arrays.statements < _INTERPRETED:
        with numpy.errstate(all="ignore"):
            K, T, singular = fused.arrays.of(one, other, rows, places)
    else:
        K, T, singular = _compiled_pairs(fused, one, other, rows, places)
    if singular.any():
        # what determinants of data do not settle: laws whose rule is missing
        open_ = numpy.flatnonzero(singular)[:_MOST_PRECISE]
        these = numpy.stack([places[0][open_], places[1][open_]], axis=1)
        K[open_], T[open_] = precise_pairs(fused.derivation, one, other, these, fused.constants).T
    return K, T


def _compiled_pairs(
    fused: _Fused, one: Inputs, other: Inputs, rows: tuple[list[Array], list[Array]], places: Places
) -> tuple[Array, Array, NDArray[numpy.bool_]]:
    """The same by the compiled loop, for many pairs."""
    loop, many = fused.careful, len(places[0])
    found, singular = numpy.empty((2, many, 1)), numpy.empty((many, 1), dtype=numpy.bool_)
    numbers = _numbers(loop, fused.constants)
    for start in range(0, many, _BLOCK):
        part = slice(start, start + _BLOCK)
        i, j = places[0][part], places[1][part]
        both = [
            g.paired(*(s.arrays[g.source].reshape(s.many, -1)[k] for s, k in ((one, i), (other, j))))
            for g in fused.arrays.grams
        ]
        grams, dets = (_stacked([b[k] for b in both], len(i))[:, :, None] for k in (0, 1))
        mine, theirs = _stacked([r[i] for r in rows[0]], len(i)), _stacked([r[j] for r in rows[1]], len(i))
        loop.run(grams, dets, mine, theirs, numbers, found[0, part], found[1, part], singular[part], False)
    return found[0, :, 0], found[1, :, 0], singular[:, 0]


def _stacked(rows: list[Array], many: int) -> Array:
    return numpy.stack(rows) if rows else numpy.empty((1, many))


def _numbers(loop: Loop, constants: Mapping[Expr, float]) -> Array:
    return numpy.array([float(evaluate(e, constants)) for e in loop.numbers] or [0.0])


def _grams(grams: Sequence[Gram], one: Inputs, other: Inputs) -> Array:
    """Gram matrices of data, (number, N1, N2)."""
    found = numpy.empty((max(1, len(grams)), one.many, other.many))
    for k, gram in enumerate(grams):
        left, right = (s.arrays[gram.source].reshape(s.many, -1) for s in (one, other))
        numpy.matmul(left, right.T, out=found[k])
        if gram.scale != 1:
            found[k] *= gram.scale
    return found


def _mirror(array: Array) -> None:
    """The lower triangle from the upper one, block by block."""
    step = 512
    for i in range(0, len(array), step):
        a = slice(i, i + step)
        block = array[a, a]
        array[a, a] = numpy.triu(block) + numpy.triu(block, 1).T
        array[i + step :, a] = array[a, i + step :].T
