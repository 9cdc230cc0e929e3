"""Powers of n in a body: what vanishes, what is a fluctuation, what diverges.

Negative powers vanish, but not inside a kink or a jump at zero: √n·relu(S/√n) is relu(S), sign(x/√n) is sign(x).
These heads are homogeneous: powers of n come out of them first.  A positive power must be absorbed by averages
around their limits, θ = lim θ + S/√width, where S is a fluctuation scalar (its law is the business of
`fluctuation`).  What then still grows with n has no limit.
"""

from __future__ import annotations

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.limit.kets import Key
from tplimits.limit.rules.fluctuation import fluctuation_symbol, settle
from tplimits.limit.span import negligible
from tplimits.limit.state import State, in_widths_of_n, width_ratio
from tplimits.program.entries import Entry, N, entries
from tplimits.program.functions import JUMPS, leaky_relu, maximum, minimum, relu, step, where
from tplimits.program.nodes import Avg, ScalarNonlin
from tplimits.program.scale import at_infinity, in_root

#: heads that are homogeneous in their first arguments: of degree 0 the jumps, of degree 1 the others
_ARGUMENTS = {step: 1, where: 1, relu: 1, leaky_relu: 1, maximum: 2, minimum: 2, sympy.sign: 1, sympy.Abs: 1}
#: beyond this size a limit through SymPy's series is not tried
_SMALL = 120


def without_n(state: State, key: Key, body: Expr) -> Expr:
    """The body as n → ∞; fluctuation scalars appear as their Gaussian symbols."""
    body = scaled_out(in_widths_of_n(body, state.program), growing=False)
    if not body.has(N):
        return body
    try:
        return at_infinity(body)
    except ValueError:
        pass
    centred, averages = _around_limits(state, body)
    centred = scaled_out(centred)
    try:
        limit = at_infinity(centred)
    except ValueError as error:
        found = _series_limit(centred)
        if found is None:
            means = {state.scalars[k]: k for k in averages.values() if state.scalars[k] != 0}
            raise NoLimitError(_message(state, key, str(error), means)) from None
        limit = found
    for symbol, average in averages.items():
        if symbol in limit.free_symbols:
            settle(state, average)  # only now: a diverging mean is the better message
    return limit


def scaled_out(expr: Expr, growing: bool = True) -> Expr:
    """The same expression with powers of n taken out of heads with a kink or a jump at 0.

    Positive powers stay inside a jump where they are not `growing` beyond everything, but may be absorbed by a mean
    that vanishes: sign(√n·θ) is no sign(θ) before θ is written as its limit + S/√n.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> scaled_out(sympy.sqrt(N) * relu(x / sympy.sqrt(N) + y / N)), scaled_out(sympy.sign(x / N))
    (relu(x + y/sqrt(n)), sign(x))
    """
    if not expr.has(N) or not expr.args:
        return expr
    expr = expr.func(*(scaled_out(a, growing) for a in expr.args))
    count = _ARGUMENTS.get(type(expr), 0)
    arguments = [sympy.expand(a) for a in expr.args[:count]]
    scale = max((p for a in arguments for p in _powers(a)), default=S.Zero)
    if scale == 0 or (scale > 0 and not growing and isinstance(expr, JUMPS)):
        return expr
    inner = expr.func(*(sympy.expand(a / N**scale) for a in arguments), *expr.args[count:])
    return inner if isinstance(expr, JUMPS) else N**scale * inner


def _powers(expr: Expr) -> list[Expr]:
    """The powers of n in the terms of a sum; none where n stands inside a function."""
    found = []
    for term in sympy.Add.make_args(expr):
        power, rest = S.Zero, []
        for factor in sympy.Mul.make_args(term):
            base, exponent = factor.as_base_exp()
            if base == N:
                power += exponent
            else:
                rest.append(factor)
        if term == 0 or any(f.has(N) for f in rest) or not power.is_Rational:
            return []
        found.append(power)
    return found


def _around_limits(state: State, body: Expr) -> tuple[Expr, dict[Symbol, Key]]:
    """Averages written as limit + S/√width; returns also which average each S belongs to."""
    swap: dict[Expr, Expr] = {}
    averages: dict[Symbol, Key] = {}
    for entry in entries(body):
        key = (entry.source, tuple(int(i) for i in entry.indices))
        instruction = state.program[entry.source]
        if isinstance(instruction, ScalarNonlin):
            inner = state.unroller.at(instruction.body, instruction.axes, key[1])
            swap[entry], inner_averages = _around_limits(state, in_widths_of_n(inner, state.program))
            averages.update(inner_averages)
        elif isinstance(instruction, Avg):
            symbol = fluctuation_symbol(state, key)
            averages[symbol] = key
            limit = state.scalars[key]
            centre = sympy.S.Zero if negligible(limit, state.tolerance) else limit
            swap[entry] = centre + symbol / sympy.sqrt(width_ratio(instruction.over) * N)
    return body.xreplace(swap), averages


def _series_limit(expr: Expr) -> Expr | None:
    """n → ∞ through SymPy's limit, for functions of small arguments such as √n·tanh(S/√n)."""
    if sympy.count_ops(expr) > _SMALL or expr.has(Entry):
        return None
    small, root, _ = in_root(expr)
    try:
        limit = sympy.limit(small, root, 0, "+")
    except (NotImplementedError, ValueError, TypeError, AttributeError):
        return None
    return limit if limit.is_finite is not False and not limit.has(sympy.oo, sympy.zoo, sympy.nan, root) else None


def _message(state: State, key: Key, power: str, means: dict[Expr, Key]) -> str:
    where = state.program.where(key[0])
    if means:
        value, average = next(iter(means.items()))
        operand = state.program[average[0]]
        assert isinstance(operand, Avg) and operand.operand is not None
        entry = state.unroller.at(operand.operand, operand.axes, average[1])
        vector = state.label((entry.source, tuple(int(i) for i in entry.indices)))
        shown = state.text(value)
        seen = "non-zero mean diverges" if value.is_number else "a mean that is not seen to vanish may diverge"
        return (
            f"{where}: √n·Avg of a ket with {seen}: `{state.label(average)}` tends to ⟨1|{vector}⟩ = "
            f"{shown}, so the term {power} grows without bound (hypothesis: a fluctuation scalar needs ⟨1|x⟩ = 0). "
            "Subtract the mean, or drop the positive power of n."
        )
    return (
        f"{where}: the term {power} grows with n and nothing of order 1/√n absorbs it (hypothesis: bodies are O(1) in "
        "the limit). Remove the positive power of n, or let it multiply an average with mean zero."
    )
