"""The kernel of sign descent with one training input in a batch (Yang & Littwin, Sec. 2.4.4, indices put right).

sign(χ dz_α x_β) is a product of signs, so that 𝒦 = sign(χ) K_sign with, b the trained and a the evaluated input,

    K_sign(b, a) = Σ_W E[sign(dz^b) dz^a] E[sign(x^b) x^a] + Σ_v E|dv| dv^a sign(dv^b).

It is not symmetric.  A matrix with several uses has no such product: the sign of a sum is no product of signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.state import width_ratio
from tplimits.program.network.growing import Growing
from tplimits.program.network.tangent import Tangent
from tplimits.program.nodes.entries import Entry, axis_symbol
from tplimits.program.nodes.functions import relu, step
from tplimits.program.nodes.kinds import OuterNonlin, standing
from tplimits.program.nodes.properties import SIGNED
from tplimits.regimes.kernels.derivation.derivation import KernelTables
from tplimits.regimes.kernels.derivation.leaves import Of
from tplimits.regimes.kernels.derivation.recursion import Recursion
from tplimits.regimes.kernels.derivation.terms import axis_sum

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.derivation.operator import TangentOperator


def sign_kernel(operator: TangentOperator) -> KernelTables:
    """K_sign as a kernel from the trained to the evaluated input, without output biases.

    Raises NoLimitError for a parameter that is used more than once, and for a network with several outputs.
    """
    if operator.network[operator.network.returns[0]].axes:
        raise NoLimitError(f"`{operator.network.name}` has several outputs; K_sign is offered for one.")
    growing = Growing(operator.backward.program)
    found = []
    for name in operator.trained:
        use = _only_use(operator, name)
        entries = [e for e in (use.gradient, use.operand) if e is not None]
        found.append((use, [(_signed(growing, operator.backward.program, e), e) for e in entries]))
    program = growing.finished()
    state = Recursion(program, Tangent(program, {}, len(program)), operator.infinite, assumed=operator.assumed)
    total: Expr = S.Zero
    for use, pairs in found:
        total += _term(state, operator, use, pairs)
    return KernelTables(program, (), tuple(state.tables), total, S.Zero, (), operator.infinite, state)


def _only_use(operator: TangentOperator, name: str) -> Use:
    uses = operator.backward.gradients[name]
    if len(uses) != 1 or {axis_symbol(a) for a in uses[0].axes} - set(uses[0].indices):
        raise NoLimitError(
            f"`{name}` of `{operator.network.name}` is used more than once: the sign of a sum is no product of "
            "signs, and there is no K_sign. `evaluate` draws particles."
        )
    return uses[0]


def _signed(growing: Growing, program: Program, entry: Entry) -> Entry:
    """The sign of an entry as a vector of its own, factor by factor where the entry is a product."""
    s = program[entry.source]
    body: Expr = entry
    # the sign of a product is the product of the signs, and that of φ′(h) is often 1: integrals that have closed forms
    if isinstance(s, OuterNonlin) and not s.slots:
        body = standing(s, entry)
    value = sympy.Mul(*map(_sign, sympy.Mul.make_args(body)))
    axes = [i.name for i in entry.indices if isinstance(i, Symbol)]
    return growing.body(value, axes, s.width, s.line, f"sign({s.name})")


def _sign(factor: Expr) -> Expr:
    """The sign of one factor in its simplest form.

    >>> x = Symbol("x", real=True)
    >>> _sign(1 - sympy.tanh(x) ** 2), _sign(sympy.atan(sympy.tanh(x))), _sign(relu(x))
    (1, sign(x), step(x))
    >>> _sign(3 * x * sympy.tanh(x) ** 2 - 3 * x), _sign(x**-3)
    (-sign(x), sign(x))
    """
    if isinstance(factor, SIGNED):
        return _sign(factor.args[0])
    if isinstance(factor, (relu, step)):
        return step(factor.args[0])
    # odd powers, negative ones too, have the sign of their base
    if isinstance(factor, sympy.Pow) and factor.exp.is_Integer and factor.exp % 2:
        return _sign(factor.base)
    if isinstance(factor, sympy.Add):
        # 3 − 3 tanh², of tanh³, is 3 (1 − tanh²)
        parts = sympy.Mul.make_args(sympy.factor_terms(factor))
        if len(parts) > 1:
            return sympy.Mul(*map(_sign, parts))
        for t in factor.atoms(sympy.tanh):
            if factor in (1 - t**2, t**2 - 1):
                return S.One if factor == 1 - t**2 else S.NegativeOne
    return sympy.sign(factor)


def _term(state: Recursion, operator: TangentOperator, use: Use, pairs: list[tuple[Entry, Entry]]) -> Expr:
    """⟨sign dz^b|dz^a⟩⟨sign x^b|x^a⟩, summed over the members of a family."""
    program = operator.backward.program
    value: Expr = S.One
    for signed, entry in pairs:
        # the sign is that of the trained input, first; the other factor that of the evaluated one
        trained = Of(Integer(signed.source), Integer(1), *signed.indices)
        value *= state.inner(trained, Of(Integer(entry.source), Integer(2), *entry.indices))
    for axis in use.axes:
        value = axis_sum(value, axis_symbol(axis), Symbol(axis))
    over = program[pairs[0][1].source].width or "n"
    readout = operator.whole.output_width
    # a sum over neurons of this width, in a readout that divides by its own
    return value * width_ratio(over) / width_ratio(readout)
