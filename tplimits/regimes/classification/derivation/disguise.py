"""Whether the mean of what is returned, an average or a scalar is zero in disguise, judged by numbers.

E sigmoid(h) = ½ and E[h tanh h] = E h² · E sech² h are identities that no algebra here sees.  At generic data the mean
of the output is a number with an error, as any width limit; where it is zero within that error twice, it vanishes.
So are averages and scalars inside, where they subtract.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import networkx
import numpy
import sympy
from sympy import Expr, Integer

from tplimits.errors import TplimitsError
from tplimits.program.nodes.entries import OWN, AxisSum, Entry, axis_symbol
from tplimits.program.nodes.kinds import Avg, InitialScalar, Instruction, Nonlin, ScalarNonlin
from tplimits.program.nodes.properties import CROSSING, POSITIVE
from tplimits.program.parts import heads
from tplimits.regimes import width

if TYPE_CHECKING:
    from tplimits.numbers.number import Number
    from tplimits.program.nodes.program import Program

#: the size of an axis that is left open, and where sets of data start, and how large they are
_SIZE, _DATA = 2, ((0.3, 1.0), (1.1, 1.0), (0.7, 5.0))
#: other widths, relative to n
_RATIO = 0.7
#: errors above this tell nothing; values below the second count as zero
_ERROR, _ZERO = 1e-8, 1e-11
#: fractions that limits are taken for, where they are they within their errors
_DENOMINATOR = 64


def disguised(network: Program, positions: Iterable[int]) -> frozenset[int]:
    """Those of some averages and scalars that may vanish, read no other of these zeros, and do at generic data."""
    found: set[int] = set()
    for p in sorted(positions):
        s = network[p]
        may = subtracts(network, s) or (isinstance(s, ScalarNonlin) and elsewhere(s.body))
        if may and not found & networkx.ancestors(network.graph, p) and vanishes_at_generic_data(network, p):
            found.add(p)
    return frozenset(found)


def subtracts(network: Program, s: Instruction) -> bool:
    """Whether a scalar, or what is averaged, holds a difference; powers of n would make it random."""
    source = network[s.operand.source] if isinstance(s, Avg) else s
    body = source.body if isinstance(source, Nonlin) else sympy.S.One
    if body.free_symbols & network.known.width_symbols:
        return False
    # the mean of a square vanishes where what is squared is zero, and with it all that is made of it
    body = body.xreplace({p: sympy.Dummy(positive=True) for p in body.atoms(sympy.Pow) if p.exp.is_even})
    return any(map(is_difference, body.atoms(sympy.Add)))


def elsewhere(body: Expr) -> tuple[type, ...]:
    """The heads of functions in a body that may vanish where their argument does not, as log does at 1."""
    known = (Entry, AxisSum, *CROSSING, *POSITIVE)
    return tuple(head for head in heads(body) if issubclass(head, sympy.Function) and not issubclass(head, known))


def is_difference(total: Expr) -> bool:
    """Whether a sum has terms of either sign."""
    return len({term.could_extract_minus_sign() for term in total.args}) == 2


@lru_cache(maxsize=512)
def vanishes_at_generic_data(network: Program, position: int, instead: Instruction | None = None) -> bool:
    """Whether a scalar, or the mean of a vector, is zero within its numerical error; False where it has no number.

    It is what the instruction at a position gives, or another one `instead` of it.
    """
    if network.constants:
        return False
    s = network[position] if instead is None else instead
    place, inside = (s.operand.source, network[s.operand.source]) if isinstance(s, Avg) else (position, s)
    # one set of data may hit a zero by chance, and small ones the side on which relu(|ξ|² − 3) is 0
    for data in _DATA:
        numbers = _at_generic_data(network, position, s, data)
        if not numbers and data[1] > 1:  # where large ones overflow
            continue
        if not numbers or not all(_is_zero(n, 1.0) for n in numbers):
            return False
        # beside what it is made of: exp(x − 80) has a small mean, and none that vanishes
        if isinstance(inside, Nonlin) and any(n.value != 0 for n in numbers):
            sizes = _at_generic_data(network, place, replace(inside, body=_size(inside.body)), data)
            if not all(_is_zero(n, size.value) for n, size in zip(numbers, sizes, strict=False)):
                return False
    return True


def number_at_generic_data(network: Program, position: int, s: ScalarNonlin) -> Expr | None:
    """The fraction that a scalar is within its numerical error, whatever data are; None where it is none of few."""
    if network.constants:
        return None
    numbers = _at_generic_data(network, position, s, _DATA[0])
    found = {Fraction(n.value).limit_denominator(_DENOMINATOR) for n in numbers if math.isfinite(n.value)}
    value = sympy.Rational(found.pop()) if len(found) == 1 else None
    if value is not None and vanishes_at_generic_data(network, position, replace(s, body=s.body - value)):
        return value
    return None


@lru_cache(maxsize=512)
def _at_generic_data(network: Program, position: int, s: Instruction, data: tuple[float, float]) -> tuple[Number, ...]:
    """The limits of a scalar, or of the mean of a vector, at all indices, and a set of data; () where it has none."""
    bound = network.sized(dict.fromkeys(network.all_axes, _SIZE))
    # values of scalars may be special, as 0: numbers without a pattern take their place
    before = (replace(i, value=None) if isinstance(i, InitialScalar) else i for i in bound.instructions[:position])
    instructions: list[Instruction] = [*before, s]
    names = {name: p for name, p in bound.names.items() if p < position}
    if s.width is not None:
        operand = Entry(Integer(position), OWN, *map(axis_symbol, s.axes))
        instructions.append(Avg("mean of the output", s.axes, operand=operand, over=s.width))
    program = bound.replace(instructions=tuple(instructions), returns=(len(instructions) - 1,), inputs=(), names=names)
    # what is beside it on the way, as a fluctuation, is not asked for a limit
    program, ratios = program.returned.released, dict.fromkeys(program.other_widths, _RATIO)
    try:
        return tuple(width.evaluation.integrated(program, ratios, _data(bound, *data)).values())
    except TplimitsError:
        return ()


def _size(body: Expr) -> Expr:
    """What the terms and factors of a body are in size: beside it a number tells whether they cancel."""
    if isinstance(body, Entry) or type(body) in elsewhere(body):
        inside = sympy.Add(*map(_size, () if isinstance(body, Entry) else body.args))
        return sympy.Abs(body) if isinstance(body, Entry) else sympy.tanh(inside)
    if isinstance(body, (sympy.Add, sympy.Mul)):
        return body.func(*map(_size, body.args))
    if isinstance(body, sympy.Pow) and body.exp.is_number:
        return _size(body.base) ** body.exp
    return body if isinstance(body, POSITIVE) else sympy.Abs(body)


def _data(network: Program, start: float, large: float) -> dict[str, Any]:
    """Numbers without a pattern for what is given from outside."""
    found: dict[str, Any] = {}
    for s in network:
        if isinstance(s, InitialScalar):
            sizes = [int(network.size(a) or _SIZE) for a in s.axes]
            count = numpy.arange(math.prod(sizes)).reshape(sizes)
            found[s.name] = count % int(network.size(s.of) or _SIZE) if s.of else large * numpy.cos(start + 1.7 * count)
    return found


def _is_zero(number: Number, size: float) -> bool:
    within = max(_ZERO * size, 4 * number.error)
    return number.variance == 0 and number.error < _ERROR * size and abs(number.value) <= within
