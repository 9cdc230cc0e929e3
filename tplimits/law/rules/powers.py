"""Powers of n in a body: what vanishes, what is a fluctuation, what diverges.

Negative powers vanish, but not inside a kink or a jump at zero: √n·relu(S/√n) is relu(S), sign(x/√n) is sign(x).
These heads are homogeneous: powers of n come out of them first.  A positive power must be absorbed by averages
around their limits, θ = lim θ + S/√width, where S is a fluctuation scalar (its law is the business of
`fluctuation`).  What then still grows with n has no limit.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.fluctuation import diverging, growing
from tplimits.law.hypotheses.spread import is_spread
from tplimits.law.hypotheses.zero import cancelled, without_rounding
from tplimits.law.kets import key_of
from tplimits.law.rules.fluctuation import fluctuation_symbol, settle
from tplimits.law.rules.magnified import brought_out, brought_up, divides_fluctuations, is_magnified
from tplimits.law.rules.reading import BodyReader
from tplimits.law.rules.removable import continued, smooth
from tplimits.law.rules.small import in_powers_of_n, led_in_powers_of_n, refuse_unexpanded, smoothed_out
from tplimits.law.span import negligible
from tplimits.law.state import Derivation, in_widths_of_n, width_ratio
from tplimits.law.unroll import indices
from tplimits.program import parts
from tplimits.program.nodes import properties
from tplimits.program.nodes.entries import OWN, Entry, N, entries
from tplimits.program.nodes.functions import JUMPS, elementary, leaky_relu, maximum, minimum, relu, step, where
from tplimits.program.nodes.kinds import Avg, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.scale import (
    at_infinity,
    in_root,
    is_infinite,
    multiplied_out,
    outgrown,
    powers_of_n,
    without_factor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tplimits.law.kets import Key
    from tplimits.program.nodes.program import Program

#: heads that are homogeneous in some arguments: (first, beyond the last, degree)
_HOMOGENEOUS: dict[type, tuple[tuple[int, int, int], ...]] = {
    **{head: ((0, 1, degree),) for head, degree in properties.DEGREES.items()},
    **dict.fromkeys((maximum, minimum), ((0, 2, 1),)),
    where: ((0, 1, 0), (1, 3, 1)),
    sympy.DiracDelta: ((0, 1, -1),),
}
#: functions whose one-sided slopes SymPy's series loses
KINKED = (*JUMPS, relu, leaky_relu)
#: beyond this size a limit through SymPy's series is not tried
_SMALL = 120


def without_n(state: Derivation, key: Key, body: Expr) -> Expr:
    """A body in widths of n as n → ∞; fluctuation scalars appear as their Gaussian symbols."""

    def tends(entry: Entry) -> Expr | None:
        return state.scalars.get(key_of(entry))

    raised = brought_up(body, tends)
    if raised != body or divides_fluctuations(body, tends):
        return _with_fluctuations(state, key, raised)
    # first without averages around their limits: most bodies have negative powers alone and end here
    body = scaled_out(body, growing=False)
    if N not in parts.found(body, Symbol):
        return _with_fluctuations(state, key, raised) if is_magnified(raised, tends) else body
    # 1 + n s² is divided by n as it stands unless averages in s absorb it
    if any(key_of(entry) in state.scalars for part in outgrown(body) for entry in entries(part)):
        return _with_fluctuations(state, key, body)
    # at_infinity refuses positive powers with ValueError; only then may fluctuations have to absorb them
    with contextlib.suppress(ValueError):
        found = at_infinity(body)
        # a jump at what still holds n and tends to 0 would be read at 0, where its value is a convention
        _refuse_scales(state, key, body, JUMPS)
        return found
    return _with_fluctuations(state, key, body)


def _with_fluctuations(state: Derivation, key: Key, body: Expr) -> Expr:
    """The body as n → ∞ with averages around their limits, which absorb its positive powers of n."""
    order = brought_out([body], (N,))
    centred, averages = _around_limits(state, body, order)
    centred = scaled_out(smoothed_out(centred, Entry, order))
    _refuse_scales(state, key, centred, JUMPS)
    try:
        limit = at_infinity(centred)
    except ValueError as error:
        # SymPy's series takes a kink for a smooth point: the one-sided slopes are lost
        _refuse_scales(state, key, centred, (relu, leaky_relu))
        found = series_limit(centred)
        if found is None:
            means = {state.scalars[k]: k for k in averages.values() if state.scalars[k] != 0}
            opened = _opened(state, body)
            if opened != body:
                return _with_fluctuations(state, key, opened)
            refuse_unexpanded(state.program.where(key[0]), centred, unexpanded=body)
            term = BodyReader(state, {}).shown(error.args[0])
            raise _refused(state, key, term, means) from None
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
    if not expr.args or N not in parts.found(expr, Symbol):
        return expr
    if growing and isinstance(expr, (maximum, minimum)):  # 1 + S/√n and 1: the kink is where the difference vanishes
        x, y = expr.args
        expr = y + relu(x - y) if isinstance(expr, maximum) else y - relu(y - x)
    # inside out: a power that comes out of an inner head is seen by the outer one
    expr = expr.func(*(scaled_out(a, growing) for a in expr.args))
    if growing and isinstance(expr, JUMPS):
        expr = expr.func(without_factor(expr.args[0]), *expr.args[1:])
    if growing and isinstance(expr, (*JUMPS, *properties.KINKED)):
        expr = _on_its_side(expr)
    for first, last, degree in _HOMOGENEOUS.get(type(expr), ()):
        arguments = [multiplied_out(a) for a in expr.args[first:last]]
        # the largest power of all homogeneous arguments together: after it the leading term is O(1), the others vanish
        powers = [powers_of_n(a) for a in arguments]
        known = all(found or not a.has(N) for a, found in zip(arguments, powers, strict=True))
        scale = max(itertools.chain(*powers), default=S.Zero) if known else S.Zero
        if scale != 0 and (scale < 0 or growing or degree):
            inner = (sympy.expand(a / N**scale) for a in arguments)
            expr = expr.func(*expr.args[:first], *inner, *expr.args[last:])
            return scaled_out(expr, growing) if degree == 0 else N ** (degree * scale) * expr
    return expr


def _on_its_side(expr: Expr) -> Expr:
    """A kinked or jumping function on the side of 0 where its argument ends: relu(1 + S/√n) is 1 + S/√n."""
    argument = expr.args[0]
    small, root, _ = in_root(argument)
    limit = small.xreplace({root: S.Zero}) if argument.has(N) else S.Zero
    # at 0 itself both sides are met: the kink stays, and is asked about by `_refuse_scales`
    if not (limit.is_comparable and limit != 0):
        return expr
    # through steps, of arguments that are of one sign: a step is decided, the rest and its kinks stay exact
    names: dict[Expr, Expr] = {a: a if a.is_number else sympy.Dummy(real=True) for a in expr.args}
    written = elementary(expr.func(*names.values())).xreplace({name: a for a, name in names.items()})
    return written.xreplace({step(argument): S(int(bool(limit > 0))), step(-argument): S(int(bool(limit < 0)))})


def _refuse_scales(state: Derivation, key: Key, expr: Expr, heads: tuple[type, ...]) -> None:
    """NoLimitError where a kink or a jump is met at its place on a scale of n that does not come out of it."""
    for node in sorted(expr.atoms(*heads), key=str):
        argument = node.args[0]
        if not argument.has(N):
            continue
        small, root, _ = in_root(argument)
        # 1/√n beside what is 0 at every width is on one side of it, which 0 does not show; what moves is asked later
        if sympy.expand(cancelled(small.xreplace({root: S.Zero, **_exact_numbers(state, small)}))) == 0:
            raise NoLimitError(
                f"{state.program.where(key[0])}: the argument of `{type(node).__name__}` tends to 0, where it has a "
                f"kink or a jump, as `{BodyReader(state, {}).shown(argument)}` (hypothesis: a function is smooth where "
                "it is expanded in 1/√n). Take the function inside first: on the scale 1/√n it is linear."
            )


def _exact_numbers(state: Derivation, expr: Expr) -> dict[Expr, Expr]:
    """The limits of what is the same number at every width."""
    exact = {e: key_of(e) for e in entries(expr) if key_of(e) in state.exact}
    limits = {e: state.scalars[k] if k in state.scalars else state.kets[k].expr for e, k in exact.items()}
    return {e: limit for e, limit in limits.items() if limit.is_number}


def _opened(state: Derivation, body: Expr) -> Expr:
    """A body with the functions of vectors that it reads written out: in √n (z − tanh y) z may be tanh(y + s)."""
    swap: dict[Expr, Expr] = {}
    for entry in entries(body):
        instruction = state.program[entry.source]
        if isinstance(instruction, OuterNonlin) and not instruction.slots:
            inner = state.unroller.at(instruction.body, instruction.axes, key_of(entry)[1])
            swap[entry] = in_widths_of_n(inner, state.program).xreplace({OWN: entry.neuron})
    return body if sympy.count_ops(body) > _SMALL else parts.put_in(body, swap, {})


def smoothed(state: Derivation, body: Expr, order: int = 0) -> Expr:
    """A body without poles that are removable at the limits of scalars, which are beside these before."""

    def moves(argument: Expr) -> bool:
        return not state.exact.issuperset(map(key_of, entries(argument))) and is_spread(state.program, argument)

    def opened(body: Expr) -> Expr:
        return in_widths_of_n(state.around.opened(body), state.program)

    return continued(body, lambda entry: state.scalars.get(key_of(entry)), moves, order, opened)


def fluctuation_of(state: Derivation, argument: Expr) -> Expr:
    """What is left of a function of scalars on the scale on which it is not at its limit; 0 where it has none."""
    near = sympy.expand(scaled_out(led_in_powers_of_n(_around_limits(state, argument, 0)[0], 0)))
    scale = max(powers_of_n(near), default=S.Zero)
    return sympy.Add(*(t for t in sympy.Add.make_args(sympy.expand(near / N**scale)) if not t.has(N)))


def without_removable_poles(state: Derivation, program: Program, order: int) -> Program:
    """The program of a state, with constants put in, and with Taylor polynomials in place of removable poles."""

    def keys(entry: Entry) -> list[Key]:
        return [(entry.source, index) for index in indices(program, program[entry.source].axes)]

    def tends(entry: Entry) -> Expr | None:
        first, *others = {state.scalars.get(key) for key in keys(entry)}
        return None if others else first

    def moves(argument: Expr) -> bool:
        exact = all(state.exact.issuperset(keys(e)) for e in entries(argument))
        return not exact and is_spread(program, argument)

    return smooth(program, tends, moves, order)


def _around_limits(state: Derivation, body: Expr, order: int) -> tuple[Expr, dict[Symbol, Key]]:
    """Averages written as limit + S/√width, to an order in S; returns also which average each S belongs to."""
    limits = {e: state.scalars[key_of(e)] for e in entries(body) if key_of(e) in state.scalars}
    body, swap = without_rounding(BodyReader(state, limits), smoothed(state, body, order)), {}
    averages: dict[Symbol, Key] = {}
    for entry in entries(body):
        key = key_of(entry)
        instruction = state.program[entry.source]
        # functions of averages fluctuate with them: opened down to the averages, whose fluctuations have a law
        if isinstance(instruction, ScalarNonlin):
            inner = state.unroller.at(instruction.body, instruction.axes, key[1])
            swap[entry], inner_averages = _around_limits(state, in_widths_of_n(inner, state.program), order)
            averages.update(inner_averages)
        elif isinstance(instruction, Avg):
            symbol = fluctuation_symbol(state, key)
            averages[symbol] = key
            limit = state.scalars[key]
            # rounding times √n would diverge: what counts as zero is judged here as where the step says so
            centre = sympy.S.Zero if negligible(limit, state.tolerance) else limit
            swap[entry] = centre + symbol / sympy.sqrt(width_ratio(instruction.over) * N)
    return cancelled(body.xreplace(swap)), averages


def series_limit(expr: Expr, vectors: type[Expr] = Entry, fluctuations: type[Expr] | None = None) -> Expr | None:
    """n → ∞ through SymPy's limit, for functions of small arguments such as √n·tanh(S/√n); what has no n stands apart.

    Nodes of type `fluctuations` are symbols to it.

    >>> S_, x = sympy.Symbol("S", real=True), Entry(S.Zero, S.Zero)
    >>> series_limit(x * sympy.sqrt(N) * sympy.sin(S_ / sympy.sqrt(N)))
    S*Entry(0, 0)
    """
    if fluctuations is not None:
        names: dict[Expr, Expr] = {g: sympy.Dummy(real=True) for g in expr.atoms(fluctuations)}
        limit = series_limit(expr.xreplace(names), vectors)
        return None if limit is None else limit.xreplace({name: g for g, name in names.items()})
    series = in_powers_of_n(expr)
    if series is not None:
        with contextlib.suppress(ValueError):
            return at_infinity(series)
    # SymPy's limits take minutes on long ones
    if sympy.count_ops(expr) > _SMALL:
        return None
    terms = sympy.Add.make_args(sympy.expand_multinomial(sympy.expand_mul(expr)))
    halves = ((term.as_independent(N, as_Add=False), term.as_independent(vectors, as_Add=False)) for term in terms)
    without_width, without_vectors = zip(*halves, strict=True)
    found = _limits_apart(((*apart.as_coeff_Mul(), rest) for apart, rest in without_width), vectors)
    # n log(1 + S/√n) and −√n S diverge each with what stands before them, and together they do not
    if found is None:
        found = _limits_apart(((S.One, apart, rest) for rest, apart in without_vectors), vectors)
    return found


def _limits_apart(terms: Iterable[tuple[Expr, Expr, Expr]], vectors: type[Expr]) -> Expr | None:
    """A sum of (number, factor without n, rest), the rests of one factor together."""
    by_factor: dict[Expr, list[Expr]] = {}
    for number, apart, rest in terms:
        by_factor.setdefault(apart, []).append(number * rest)
    limits = []
    for apart, rests in by_factor.items():
        limit = None if apart.has(N) else _in_series(sympy.Add(*rests), vectors)
        if limit is None:
            return None
        limits.append(apart * limit)
    return sympy.Add(*limits)


def _in_series(expr: Expr, vectors: type[Expr]) -> Expr | None:
    # entries of vectors are random, no constants of a series
    if expr.has(vectors):
        return None
    small, root, _ = in_root(expr)
    # a softmax of what diverges has a limit too, but its mean is to be told: functions have finite arguments here
    if any(
        a.xreplace({root: S.Zero}).has(S.ComplexInfinity, S.NaN) for f in small.atoms(sympy.Function) for a in f.args
    ):
        return None
    try:
        # root stands for 1/√n, so from above
        limit = sympy.limit(small, root, 0, "+")
    except (NotImplementedError, ValueError, TypeError, AttributeError):
        return None
    return limit if limit.is_finite is not False and not is_infinite(limit) and not limit.has(root) else None


def _refused(state: Derivation, key: Key, power: str, means: dict[Expr, Key]) -> NoLimitError:
    where = state.program.where(key[0])
    if not means:
        return growing(where, power)
    value, average = next(iter(means.items()))
    operand = state.program[average[0]]
    assert isinstance(operand, Avg)
    entry = state.unroller.at(operand.operand, operand.axes, average[1])
    vector = state.label((entry.source, tuple(int(i) for i in entry.indices)))
    mean = f"⟨1|{vector}⟩ = {state.text(value)}"
    return diverging(where, state.label(average), mean, power, bool(value.is_number))
