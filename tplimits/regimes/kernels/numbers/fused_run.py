"""Running the fused loop: blocks of rows, Gram matrices by matrix products, nearly singular pairs once more."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.numbers.moments.inputs import residual_determinant
from tplimits.program.nodes.entries import AxisSum
from tplimits.program.nodes.evaluate import evaluate
from tplimits.regimes.kernels.derivation.leaves import Data
from tplimits.regimes.kernels.numbers.fused import Loop, NotFused, loop_for
from tplimits.regimes.kernels.numbers.moment import refuse_underflow
from tplimits.regimes.kernels.numbers.plan import alone
from tplimits.regimes.kernels.numbers.precise import precise_pairs

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.inputs import Inputs

Array = NDArray[numpy.float64]
#: entries of one Gram matrix of a block of rows
_BLOCK = 1 << 19

#: statements of all pairs up to which a loop is run without being compiled, which takes seconds
_INTERPRETED = 1 << 21

#: so many pairs of a block are done in many digits, milliseconds each; the rest keeps an error of about 1e-8
_MOST_PRECISE = 2048

_LOOPS: weakref.WeakKeyDictionary[KernelTables, dict[Any, Loop | None]] = weakref.WeakKeyDictionary()


def _loop(derivation: KernelTables, constants: Mapping[Expr, float], careful: bool) -> Loop:
    """The loop of a derivation, remembered; constants that stand inside moments are part of its text."""
    known = _LOOPS.setdefault(derivation, {})
    key = (careful, frozenset(constants.items()))
    if key not in known:
        try:
            known[key] = loop_for(derivation, constants, careful)
        except NotFused:
            known[key] = None
    if known[key] is None:
        raise NotFused
    return known[key]  # type: ignore[return-value]


def pairs(
    derivation: KernelTables,
    one: Inputs,
    other: Inputs,
    constants: Mapping[Expr, float],
    symmetric: bool,
    dtype: type[numpy.floating[Any]] = numpy.float64,
) -> tuple[Array, Array]:
    """NNGP and NTK of all pairs, (N1, N2) each.  Raises NotFused for recursions that need arrays."""
    nngp, ntk = numpy.empty((2, one.many, other.many), dtype)
    careful = _loop(derivation, constants, careful=True)
    if nngp.size * careful.statements < _INTERPRETED:
        wanted = numpy.ones(nngp.shape, dtype=numpy.bool_)
        _again(derivation, constants, one, other, numpy.triu(wanted, 1) if symmetric else wanted, nngp, ntk)
        return _with_own(derivation, constants, one, nngp, ntk) if symmetric else (nngp, ntk)
    loop = _loop(derivation, constants, careful=False)
    numbers = _numbers(loop, constants)
    columns = _rows(loop.right, derivation, other, constants)
    step = max(1, _BLOCK // max(1, other.many * max(1, len(loop.grams))))
    for start in range(0, one.many, step):
        part = slice(start, min(start + step, one.many))
        rest = slice(start if symmetric else 0, other.many)
        some, those = one.some(part), other.some(rest)
        rows = _rows(loop.left, derivation, some, constants)
        grams = _grams(loop.grams, some, those, constants)
        near = numpy.empty((some.many, those.many), dtype=numpy.bool_)
        K, T = numpy.empty((2, some.many, those.many))
        none = numpy.empty((0, 0, 0))
        loop.run(grams, none, rows, numpy.ascontiguousarray(columns[:, rest]), numbers, K, T, near, symmetric)
        if symmetric:
            near[numpy.tril_indices(some.many, 0, those.many)] = False
        _again(derivation, constants, some, those, near, K, T)
        nngp[part, rest], ntk[part, rest] = K, T
    return _with_own(derivation, constants, one, nngp, ntk) if symmetric else (nngp, ntk)


def _with_own(
    derivation: KernelTables, constants: Mapping[Expr, float], one: Inputs, nngp: Array, ntk: Array
) -> tuple[Array, Array]:
    """Symmetric kernels: the lower triangle from the upper one, inputs with themselves by their own rows."""
    own = alone(derivation, (derivation.nngp, derivation.ntk), one, constants)
    for array, value in zip((nngp, ntk), own, strict=True):
        _mirror(array)
        numpy.fill_diagonal(array, value.array)
    return nngp, ntk


def _again(
    derivation: KernelTables,
    constants: Mapping[Expr, float],
    one: Inputs,
    other: Inputs,
    near: NDArray[numpy.bool_],
    K: Array,
    T: Array,
) -> None:
    """Nearly singular pairs by the careful loop."""
    rows, columns = numpy.nonzero(near)
    if not len(rows):
        return
    loop = _loop(derivation, constants, careful=True)
    numbers = _numbers(loop, constants)
    for start in range(0, len(rows), _BLOCK):
        i, j = rows[start : start + _BLOCK], columns[start : start + _BLOCK]
        left, right = one.some(i), other.some(j)
        grams, dets = _paired_grams(loop.grams, left, right, constants)
        mine = _rows(loop.left, derivation, left, constants)
        theirs = _rows(loop.right, derivation, right, constants)
        found, singular = numpy.empty((2, len(i), 1)), numpy.empty((len(i), 1), dtype=numpy.bool_)
        arrays = (grams, dets, mine, theirs, numbers, found[0], found[1], singular, False)
        if len(i) * loop.statements < _INTERPRETED:
            with numpy.errstate(all="ignore"):
                loop.interpret(*arrays)
        else:
            loop.run(*arrays)
        K[i, j], T[i, j] = found[0, :, 0], found[1, :, 0]
        left_open = numpy.flatnonzero(singular[:, 0])[:_MOST_PRECISE]
        if len(left_open):
            places = numpy.stack([i, j], axis=1)[left_open]
            better = precise_pairs(derivation, one, other, places, constants)
            K[places[:, 0], places[:, 1]], T[places[:, 0], places[:, 1]] = better.T


def _numbers(loop: Loop, constants: Mapping[Expr, float]) -> Array:
    return numpy.array([float(evaluate(e, constants)) for e in loop.numbers] or [0.0])


def _rows(exprs: tuple[Expr, ...], derivation: KernelTables, inputs: Inputs, constants: Mapping[Expr, float]) -> Array:
    """Quantities of one input each, (number, N)."""
    rows = numpy.empty((max(1, len(exprs)), inputs.many))
    for row, value in zip(rows, alone(derivation, exprs, inputs, constants), strict=False):
        refuse_underflow(value.array)
        row[:] = value.array
    return rows


def _grams(exprs: tuple[Expr, ...], one: Inputs, other: Inputs, constants: Mapping[Expr, float]) -> Array:
    """Gram matrices of data, (number, N1, N2)."""
    found = numpy.empty((max(1, len(exprs)), one.many, other.many))
    for k, expr in enumerate(exprs):
        left, right, scale = _factors(expr, one, other, constants)
        numpy.matmul(left, right.T, out=found[k])
        if scale != 1:
            found[k] *= scale
    return found


def _paired_grams(
    exprs: tuple[Expr, ...], one: Inputs, other: Inputs, constants: Mapping[Expr, float]
) -> tuple[Array, Array]:
    """Gram entries and determinants of pairs, (number, pairs, 1)."""
    found = numpy.empty((2, max(1, len(exprs)), one.many, 1))
    for k, expr in enumerate(exprs):
        left, right, scale = _factors(expr, one, other, constants)
        found[0, k, :, 0] = scale * numpy.einsum("ij,ij->i", left, right)
        found[1, k, :, 0] = scale**2 * residual_determinant(left, right)
    return found[0], found[1]


def _factors(expr: Expr, one: Inputs, other: Inputs, constants: Mapping[Expr, float]) -> tuple[Array, Array, float]:
    """A Gram matrix Σ_d c x_d x′_d as two arrays and a number; NotFused for anything else."""
    scale, rest = 1.0, []
    for factor in sympy.Mul.make_args(expr):
        if factor.has(Data):
            rest.append(factor)
        else:
            scale *= float(evaluate(factor, constants))
    if len(rest) != 1 or not isinstance(rest[0], AxisSum):
        raise NotFused
    body, bounds = rest[0], []
    while isinstance(body, AxisSum):
        bounds.append(body.bound)
        body = body.summand
    data = sorted((f for f in sympy.Mul.make_args(body)), key=lambda f: getattr(f, "side", 0))
    if [getattr(f, "side", 0) for f in data] != [1, 2] or data[0].source != data[1].source:
        raise NotFused
    if any(set(f.indices) != set(bounds) for f in data) or data[0].indices != data[1].indices:
        raise NotFused
    left, right = (s.arrays[data[0].source].reshape(s.many, -1) for s in (one, other))
    return left, right, scale


def _mirror(array: Array) -> None:
    """The lower triangle from the upper one, block by block."""
    step = 512
    for i in range(0, len(array), step):
        a = slice(i, i + step)
        block = array[a, a]
        array[a, a] = numpy.triu(block) + numpy.triu(block, 1).T
        array[i + step :, a] = array[a, i + step :].T
