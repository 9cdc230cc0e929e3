"""Whether the mean of what is returned is zero in disguise, judged by numbers.

E sigmoid(h) = ½ and E[h tanh h] = E h² · E sech² h are identities that no algebra here sees.  At generic data the mean
of the output is a number with an error, as any width limit; where it is zero within that error twice, it vanishes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Integer

from tplimits.errors import TplimitsError
from tplimits.program.nodes.entries import OWN, Entry, axis_symbol
from tplimits.program.nodes.kinds import Avg, InitialScalar
from tplimits.regimes import width

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the size of an axis that is left open, and where the two sets of data start
_SIZE, _STARTS = 2, (0.3, 1.1)
#: other widths, relative to n
_RATIO = 0.7
#: errors above this tell nothing; values below the second count as zero
_ERROR, _ZERO = 1e-8, 1e-11


def vanishes_at_generic_data(network: Program) -> bool:
    """Whether the mean of what is returned is zero within its numerical error; False where it has no number.

    >>> import tplimits as tp
    >>> @tp.network
    ... def centred(ξ: tp.Input["d"], U: tp.Vector["d"]):
    ...     return tp.sigmoid(tp.sum(U * ξ, over="d")) - 0.5
    >>> vanishes_at_generic_data(centred)
    True
    """
    if network.constants:
        return False
    bound = network.sized({a: _SIZE for a in network.all_axes if network.size(a) is None})
    end = bound.returns[0]
    s = bound[end]
    operand = Entry(Integer(end), OWN, *map(axis_symbol, s.axes))
    average = Avg("mean of the output", s.axes, operand=operand, over=s.width or "n")
    scalars = tuple(replace(i, value=None) if isinstance(i, InitialScalar) else i for i in bound)
    program = bound.replace(instructions=(*scalars, average), returns=(len(bound),), inputs=())
    program, ratios = program.released, {w: _RATIO for w in program.widths if w != "n"}
    try:
        return all(_is_zero(width.evaluation.integrated(program, ratios, _data(bound, at))) for at in _STARTS)
    except TplimitsError:
        return False


def _data(network: Program, start: float) -> dict[str, Any]:
    """Numbers without a pattern for what is given from outside."""
    found: dict[str, Any] = {}
    for s in network:
        if isinstance(s, InitialScalar):
            sizes = [int(network.size(a) or _SIZE) for a in s.axes]
            count = numpy.arange(math.prod(sizes)).reshape(sizes)
            found[s.name] = count % int(network.size(s.of) or _SIZE) if s.of else numpy.cos(start + 1.7 * count)
    return found


def _is_zero(numbers: dict[str, Any]) -> bool:
    return all(n.error < _ERROR and abs(n.value) <= max(_ZERO, 4 * n.error) for n in numbers.values())
