"""Functions of one entry of a dense layer, as sums of basis functions of it.

With a kink or jump at zero they are not at zero itself what both sides say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import OWN, Entry, N, axis_symbol
from tplimits.program.nodes.functions import elementary, step
from tplimits.regimes.depth.algebra.activations import CONSTANT, LINEAR, Basis, U, components, shown
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.named import moves_too_far
from tplimits.regimes.depth.algebra.products import EPS, Poly, multiplied, total
from tplimits.regimes.depth.derivation import neurons
from tplimits.regimes.depth.derivation.not_covered import need_fresh
from tplimits.regimes.depth.derivation.scalars.expected import mean_series
from tplimits.regimes.depth.derivation.scalars.growth import apart, insist_on_all

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.model import Model
    from tplimits.regimes.depth.derivation.lowering import Lowering


#: V_αα
OWN_VARIANCE = Form({(("V", (-4, -4), 0),): S.One})


def activation(lowering: Lowering, entry: Entry, body: Expr, env: Mapping[Expr, int]) -> Poly:
    """A function of one entry, `body` in U."""
    position, axes = entry.source, lowering.program[entry.source].axes
    inside: dict[Expr, int] = {OWN: env[entry.neuron]}
    inside |= {axis_symbol(a): lowering.index(i, env) for a, i in zip(axes, entry.indices, strict=True)}
    if body == U:
        return lowering.dense(position, LINEAR, inside)
    if (weighed := neurons.of_layer(lowering, entry, body, env)) is not None:
        return weighed
    function = lowering.with_means(body)
    try:
        parts, cut = components(function, lowering.limit, mean_series, apart)
        insist_on_all(parts)
    except NoLimitError as error:
        lowering.fail(str(error))
    if any(basis != Basis(basis.power, False) for _, basis in parts):
        need_fresh(lowering, position)
    _note_jump(lowering.model, function, parts, lowering.where)
    if cut is not None and cut < lowering.limit:
        lowering.short = moves_too_far(lowering.where, function, cut)
    found = [Poly((), cut)]
    for coefficient, basis in parts:
        dense = lowering.one() if basis == CONSTANT else lowering.dense(position, basis, inside)
        found.append(multiplied(lowering.number(coefficient.xreplace({EPS: N**-S.Half})), dense, lowering.limit))
    return total(found)


def _note_jump(model: Model, function: Expr, parts: Sequence[tuple[Expr, Basis]], where: str) -> None:
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
