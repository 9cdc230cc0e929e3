"""Functions of a dense layer with a jump at zero: at zero itself they are not what both sides say."""

from __future__ import annotations

from collections.abc import Iterable

import sympy
from sympy import Expr, S

from tplimits.program.nodes.functions import elementary, step
from tplimits.regimes.depth.derivation.activations import Basis, U, shown
from tplimits.regimes.depth.derivation.algebra import EPS
from tplimits.regimes.depth.derivation.forms import Form


def jumps(function: Expr, parts: Iterable[tuple[Expr, Basis]], where: str) -> dict[str, Form]:
    """The variance that must not be zero, V_αα, where at u = 0 a function is not what its components say.

    There a sign is 0, and a step with it a half.

    >>> from tplimits.regimes.depth.derivation.activations import components
    >>> [len(jumps(f, components(f, 2)[0], "line 1")) for f in (step(U), step(U) - step(-U), step(U) * sympy.cos(U))]
    [1, 0, 0]
    """
    body, at_zero = elementary(function), {U: S.Zero}
    if not body.has(step):
        return {}
    off = sympy.simplify(body.xreplace(at_zero) - sum(c * b.expr.xreplace(at_zero) for c, b in parts))
    # what is left of a series in ε is no jump
    if not off.xreplace({EPS: S.Zero}).is_nonzero:
        return {}
    return {f"`{shown(function)}` in {where}": Form({(("V", (-4, -4), 0),): S.One})}
