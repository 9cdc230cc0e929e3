"""Means of tp.expect that depend on n: they tend to means of the limits, and how fast is not looked for.

    E 1/(1 + g²/n) → 1     and not   n (E 1/(1 + g²/n) − 1) → −1,   E g tanh(n g) → √(2/π)

(hypothesis: no positive power of n stays inside or beside such a mean.)
"""

from __future__ import annotations

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import GaussMean, N
from tplimits.program.nodes.functions import BENT
from tplimits.program.nodes.scale import at_infinity, is_infinite
from tplimits.program.parts import found


def moving_mean(body: Expr, smooth: bool = False) -> str | None:
    """What is told where powers of n stand inside or beside a mean that depends on n, and do not cancel.

    E √n g tanh(g/√n) → 1 and n (E exp(g/√n) − 1) → ½ need a bound of the remainder for all g, which is not looked for.
    Those in `smooth` functions are seen before anything is scaled: √n relu(g/√n) and sign(n g) are relu(g) and sign(g).
    """
    for term in sympy.Add.make_args(body):
        for mean in found(term, GaussMean):
            integrand, variable = mean.args
            moves = integrand.has(N) and variable in integrand.free_symbols
            beside = not smooth and term.xreplace({mean: sympy.Dummy()}).has(N)
            if moves and (beside or not _settles(integrand, smooth)):
                return (
                    f"tp.expect of `{integrand}` depends on n, and has its limit only where no positive power of n "
                    "stays inside or beside it: how fast such means tend to their limits is not looked for. Write what "
                    "they tend to, or leave the power of n out."
                )
    return None


def _settles(integrand: Expr, smooth: bool) -> bool:
    """Whether it is seen to have a limit at a fixed value of its variable; of those that are not `smooth`, always."""
    reads = [node for node in found(integrand, sympy.Function) if node.has(N)]
    if smooth and (not reads or any(isinstance(node, BENT) for node in reads)):
        return True
    try:
        return not is_infinite(at_infinity(integrand))
    except ValueError:
        return False
