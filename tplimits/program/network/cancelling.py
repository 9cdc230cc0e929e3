"""Outputs that are 0 at every width, whatever the parameters are: Σ_α (x_α − Avg(x)), or Σ_α (Wᵀy)_α x_α − y_α (W x)_α.

An identity holds for all parameters and data, or fails for almost all of them: the program is run on random ones, at a
few small widths.  What is there nothing but rounding error is zero.  Functions with kinks may be zero at all of these
without being zero: runs at parameters many times as large, or as small, find them out.  Where nothing subtracts nothing
is run: all is positive at positive parameters and data.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import networkx
import numpy
import sympy
from sympy import Expr

from tplimits.errors import NoLimitError, TplimitsError
from tplimits.program.network.parameters import places_of_neurons
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import AxisSum, Entry
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.kinds import Initial, InitialMatrix, InitialScalar, InitialVector, Instruction, Nonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: widths of runs; how large parameters are in the last ones, of which some may run away; by which part of them, and how
#: often, they are moved
_WIDTHS, _SIZES, _MOVED, _TIMES = (5, 6, 7), (30.0, 5.0, 2.0, 0.2), 1e-9, 3
#: those of more runs where all is 0: a jump of one random number is 0 in half of them
_MORE = range(8, 30)
#: other widths, relative to n; the size of an axis that is left open
_RATIO, _SIZE = 0.7, 2
#: next to the largest number on the way: what may be rounding error, and what is none at another size of parameters
_ROUNDING, _CERTAIN = 1e-12, 1e-9
#: rounding errors differ by more than this part of them
_ALIKE = 1e-3
#: entries of arrays in one run; programs that hold more are left as they are
_MOST_ENTRIES = 10**7
#: sums, products and functions that are positive where all of their arguments are
_POSITIVE = (
    sympy.Add, sympy.Mul, functions.relu, functions.leaky_relu, functions.maximum, functions.minimum, functions.sigmoid,
    functions.softplus, functions.gelu, functions.step, sympy.Abs, sympy.sign, sympy.exp, sympy.tanh, sympy.erf,
    sympy.atan, sympy.asinh, sympy.sinh, sympy.cosh,
)  # fmt: skip


def refuse_output_that_cancels(program: Program) -> None:
    """NoLimitError for a network whose readout sums to 0 over the neurons."""
    if sums_to_zero(program, program.returns[0]):
        raise NoLimitError(
            f"{program.where(program.returns[0])}: what is read out sums to 0 over its neurons at every width: the "
            "output is 0 whatever the parameters are. Multiply what is read out by a vector of its own."
        )


def sums_to_zero(program: Program, position: int, instead: Instruction | None = None) -> bool:
    """Whether a scalar, or the sum of a vector's entries, is 0 at every width; `instead` is read in its place."""
    bound = program.sized(dict.fromkeys(program.all_axes, _SIZE))
    last = bound[position] if instead is None else instead
    # an index of −1 stands for a 0
    if not any((t.values < 0).any() for t in program.tables) and _is_positive_somewhere(bound, position, last):
        return False
    before = (replace(s, value=None) if isinstance(s, InitialScalar) else s for s in bound.instructions[:position])
    instructions = (*before, last)
    names = {name: p for name, p in bound.names.items() if p <= position}
    bound = bound.replace(instructions=instructions, returns=(position,), inputs=(), names=names).released
    if sum(math.prod(int(bound.size(a) or 1) for a in s.axes) for s in bound) * max(_WIDTHS) ** 2 > _MOST_ENTRIES:
        return False
    try:
        return _is_rounding(bound) and not any(_is_certain(bound, size) for size in _SIZES)
    except (TplimitsError, FloatingPointError):
        return False


def _is_positive_somewhere(program: Program, position: int, last: Instruction) -> bool:
    """Whether what is read up to an instruction is positive where all that is given is."""
    read = (*(program[p] for p in networkx.ancestors(program.graph, position)), last)
    return all(_is_positive(s.body) for s in read if isinstance(s, Nonlin))


def _is_positive(node: Expr) -> bool:
    """Whether an expression is positive where everything that it reads is."""
    if isinstance(node, (Entry, *_POSITIVE)):
        return isinstance(node, Entry) or all(map(_is_positive, node.args))
    if isinstance(node, AxisSum):
        return _is_positive(node.summand)
    if isinstance(node, sympy.Pow):
        return _is_positive(node.base) and bool(node.exp.is_real)
    return bool(node.is_positive)


def _is_rounding(program: Program) -> bool:
    """Whether sums are nothing but rounding: what is small for another reason hardly moves with what it is of."""
    differ, zero = False, True
    for n in _WIDTHS:
        first, largest = _sum(program, n)
        for moved in range(1, _TIMES + 1):
            value, _ = _sum(program, n, moved=moved)
            size = numpy.maximum(numpy.abs(first), numpy.abs(value))
            if not (size <= _ROUNDING * largest).all():
                return False
            zero = zero and not size.any()
            differ = differ or bool((numpy.abs(first - value) > _ALIKE * size).any())
    return differ or (zero and not any(_sum(program, n)[0].any() for n in _MORE))


def _is_certain(program: Program, times: float) -> bool:
    """Whether a sum is no rounding error where parameters have another size, and finite there."""
    try:
        (first, largest), (value, _) = (_sum(program, _WIDTHS[0], times, moved) for moved in (0, 1))
    except FloatingPointError:
        return False
    if not (numpy.isfinite(first) & numpy.isfinite(value)).all():
        return False
    size = numpy.minimum(numpy.abs(first), numpy.abs(value))
    same = numpy.abs(first - value) <= _ALIKE * size
    return bool(numpy.isfinite(largest) and (same & (size > _CERTAIN * largest)).any())


class _Exact(Execution):
    """An execution that stops where something is smaller than all numbers: a zero there may be none."""

    def read(self, s: Instruction) -> Any:
        with numpy.errstate(under="raise", invalid="ignore"):
            return super().read(s)


def _sum(program: Program, n: int, size: float = 1.0, moved: int = 0) -> tuple[Any, float]:
    """The sums over the neurons of what a program returns, and a bound on the numbers on the way."""
    rng = numpy.random.default_rng(n)
    ratios = dict.fromkeys(program.other_widths, _RATIO)
    given: dict[str, Any] = {name: rng.uniform(0.2, 0.8) for name in program.constants}
    shapes = Execution(program, n, 1, rng, ratios, given)
    for s in program:
        if isinstance(s, Initial) and s.name not in places_of_neurons(program):
            given[s.name] = _drawn(s, shapes, size, rng)
    if moved:
        names = [s.name for s in program if s.name in given and not (isinstance(s, InitialScalar) and s.of)]
        rng = numpy.random.default_rng((n, moved))
        given |= {k: given[k] * (1 + _MOVED * rng.standard_normal(numpy.shape(given[k]))) for k in names}
    run = _Exact(program, n, 1, rng, ratios, given).run()
    end = run.arrays[-1]
    largest = max(float(numpy.abs(a).max(initial=1.0)) for a in run.arrays)
    with numpy.errstate(invalid="ignore"):  # what has run away is no number, and told by its size
        return (end if program[len(program) - 1].width is None else end.sum(axis=-1)), largest * n


def _drawn(s: Initial, run: Execution, size: float, rng: numpy.random.Generator) -> Any:
    """Random values for initial data, of any law: training takes them everywhere."""
    shape = run.shape(s.axes)
    if isinstance(s, InitialScalar) and s.of is not None:
        return rng.integers(run.size(s.of), size=shape)
    if isinstance(s, InitialMatrix):
        rows, columns = run.width[s.rows], run.width[s.columns]
        return rng.standard_normal((*shape, rows, columns)) * size / math.sqrt(columns)
    return rng.standard_normal((*shape, run.width[s.over]) if isinstance(s, InitialVector) else shape) * size
