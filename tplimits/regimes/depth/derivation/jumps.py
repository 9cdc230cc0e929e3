"""Functions of a dense layer with a kink or jump at zero: at zero itself they are not what both sides say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.program.nodes.functions import elementary, step
from tplimits.regimes.depth.algebra.activations import Basis, U, shown
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import EPS

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.model import Model


#: V_αα
OWN_VARIANCE = Form({(("V", (-4, -4), 0),): S.One})


def note_jump(model: Model, function: Expr, parts: Sequence[tuple[Expr, Basis]], where: str) -> None:
    """Note where at u = 0 a function is not what its components say, or not differentiable.

    There a sign is 0, and a step with it a half.
    """
    body, at_zero = elementary(function), {U: S.Zero}
    if not body.has(step):
        return
    off = sympy.simplify(body.xreplace(at_zero) - sum(c * b.expr.xreplace(at_zero) for c, b in parts))
    # what is left of a series in ε is no jump
    if off.xreplace({EPS: S.Zero}).is_nonzero:
        model.note(f"`{shown(function)}` in {where}", OWN_VARIANCE, 0)
    elif any(basis.sign and basis.power <= 1 for _, basis in parts):
        model.note(f"`{shown(function)}` in {where}", OWN_VARIANCE, None)
