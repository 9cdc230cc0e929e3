"""Parameters whose gradients are 0 in the limit at the start, and not in networks.

As those of queries and keys while logits over n vanish: their kets are products of averages that tend to zero, which
networks have of order n^(−½).  Linear updates do not see them.  Updates that keep their size however small a gradient
is follow its sign, which is random at any width.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from sympy import Expr, Integer

from tplimits.program.network.zeros import zeros
from tplimits.program.nodes.kinds import InitialScalar, InitialVector
from tplimits.program.nodes.scale import at_infinity
from tplimits.regimes.training.derivation.square_integrable import kets_of

if TYPE_CHECKING:
    from tplimits.program.network.total import TotalProgram
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.derivation.recursion import Recursion


@lru_cache(maxsize=32)
def vanishing_gradients(total: TotalProgram) -> tuple[str, ...]:
    """The parameters, or families with a member, all of whose gradients vanish as n grows; not those that are 0.

    >>> import tplimits as tp
    >>> from tplimits.program.network.total import TotalProgram
    >>> @tp.network
    ... def gated(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, g: tp.Vector, v: tp.Vector):
    ...     x = tp.sum(U * ξ, over="d")
    ...     return v * x + v * tp.tanh(x) * tp.avg(g * (W @ x))
    >>> vanishing_gradients(TotalProgram(gated))
    ('W', 'g')
    """
    program, back = total.backward.program, total.backward
    state = kets_of(total)
    at_start, found = partial(_starts_at_zero, program), list[str]()
    exact = zeros(program, at_start)
    limits = zeros(program, lambda p: at_start(p) or (p not in state.judged.unread and _is_zero(state, p)))
    for name in total.trained:
        members: dict[tuple[Expr, ...], list[set[int]]] = {}
        for use, _ in back.uses(name):
            # indices that run may be those of any member
            fixed = all(isinstance(i, Integer) for i in use.indices)
            factors = {e.source for e in (use.gradient, use.operand) if e is not None}
            members.setdefault(use.indices if fixed else (), []).append(factors)
        shared = members.pop((), [])
        for uses in members.values() or [[]]:
            all_uses = uses + shared
            if all(f & limits for f in all_uses) and not all(f & exact for f in all_uses):
                found.append(name)
                break
    return tuple(found)


def _is_zero(state: Recursion, position: int) -> bool:
    """Whether the limit of a scalar, or the body of a ket, is seen to be 0."""
    if position in state.scalars:
        return bool(at_infinity(state.scalars[position]) == 0)
    return state.nodes[position].body == 0


def _starts_at_zero(program: Program, position: int) -> bool:
    """Whether a parameter does, as all gradients behind such a readout."""
    s = program[position]
    if isinstance(s, InitialVector):
        return bool(s.law.std == 0 and s.law.mean == 0)
    return isinstance(s, InitialScalar) and s.value == 0 and position not in program.inputs
