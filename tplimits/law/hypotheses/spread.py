"""Whether networks are beside a pole at which the limit of a scalar stands: what is continued there is their function.

A scalar that is at its limit at every width, as what algebra does not see to be 0, is never beside it, relu(avg(x)) in
half of the networks, and a count of signs with probability ~1/√n.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import networkx
import numpy
from sympy import Expr

from tplimits.errors import TplimitsError
from tplimits.program.nodes.entries import entries, free_axes
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import InitialScalar, Nonlin, ScalarNonlin
from tplimits.program.nodes.laws import NORMAL
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the width of drawn networks, and how many: a scalar that is 0 in every second one is seen to be
_WIDTH, _DRAWS = 60, 16
#: other widths, relative to n; the size of an axis that is left open
_RATIO, _SIZE = 0.7, 2
#: next to the largest number on the way: what may be rounding error
_ROUNDING = 1e-12
#: entries of arrays in one run; of programs that hold more nothing is drawn
_MOST_ENTRIES = 10**7


def is_spread(program: Program, argument: Expr) -> bool:
    """Whether an expression of scalars that tends to 0 is 0 with probability 0 before, as none that counts signs is."""
    above = program.behind(e.source for e in entries(argument))
    makers = (program[p] for p in above)
    # counts of signs sit on a lattice
    if any(found(s.body, *JUMPS) for s in makers if isinstance(s, Nonlin)):
        return False
    return not may_be_zero(program, argument)


@lru_cache(maxsize=512)
def may_be_zero(program: Program, argument: Expr) -> bool:
    """Whether an expression of scalars is 0, but for rounding, in any of a few networks that are drawn at random.

    Of what is tried in so many, a zero with a probability that vanishes as n grows is not seen.

    >>> import sympy
    >>> import tplimits as tp
    >>> from tplimits.program.nodes.entries import NO_NEURON, Entry
    >>> @tp.program
    ... def halves(x: tp.Vector):
    ...     s = tp.avg(x)
    ...     return s, tp.relu(s), tp.avg(tp.relu(x) - tp.relu(-x) - x)
    >>> [may_be_zero(halves, Entry(sympy.Integer(p), NO_NEURON)) for p in halves.returns]
    [False, True, True]
    """
    bound = program.sized(dict.fromkeys(program.all_axes, _SIZE))
    end = max(e.source for e in entries(argument)) + 1
    last = ScalarNonlin("argument", tuple(str(a) for a in free_axes(argument)), body=argument)
    every = {str(p): p for p in range(end + 1)}
    bound = bound.replace(
        instructions=(*bound.instructions[:end], last), returns=(end,), arguments=(), inputs=(), names=every
    ).released
    if sum(math.prod(int(bound.size(a) or 1) for a in s.axes) for s in bound) * _WIDTH**2 > _MOST_ENTRIES:
        return False
    behind = [str(p) for p in networkx.ancestors(bound.graph, end)]
    try:
        runs = [_run(bound, seed) for seed in range(_DRAWS)]
    except TplimitsError:
        return False
    largest = [max((float(numpy.abs(run[p]).max(initial=1.0)) for p in behind), default=1.0) for run in runs]
    return any((numpy.abs(run[str(end)]) <= _ROUNDING * size).any() for run, size in zip(runs, largest, strict=True))


def _run(program: Program, seed: int) -> dict[str, Any]:
    """One network; what is given from outside has numbers without a pattern, what has a value or a law keeps it."""
    rng = numpy.random.default_rng(seed)
    given: dict[str, Any] = {name: rng.uniform(0.2, 0.8) for name in program.constants}
    for s in program:
        if isinstance(s, InitialScalar) and s.value is None and s.law == NORMAL:
            shape = [int(program.size(a) or _SIZE) for a in s.axes]
            size = int(program.size(s.of) or _SIZE) if s.of is not None else None
            given[s.name] = rng.standard_normal(shape) if size is None else rng.integers(size, size=shape)
    ratios = dict.fromkeys(program.other_widths, _RATIO)
    return program.run(n=_WIDTH, seed=seed, ratios=ratios, constants=given)
