"""OuterNonlin: |y⟩ = E_boxes ψ(|x⟩; |x⟩^1; …; |x⟩^r; θ) (Yang & Littwin, Def. 2.6.5, OuterNonlin).

The boxes hold independent copies of the whole tuple of kets; scalars enter by their limits, which
needs ψ continuous there: a jump whose argument vanishes in the limit is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses import jump, pole, root
from tplimits.law.hypotheses.constants import constant_mean, opened, outermost
from tplimits.law.hypotheses.displaced import shifts
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.reader import Doubt
from tplimits.law.hypotheses.sharp import refuse_sharp
from tplimits.law.hypotheses.shells import diverging_pole
from tplimits.law.hypotheses.tails import Growth, InfiniteMoment, Tail, infinite_moment
from tplimits.law.hypotheses.zero import cancelled, is_nothing_by_halves, without_rounding
from tplimits.law.kets import MASTER, Ket, Key, Reference, Step, key_of
from tplimits.law.rules.powers import fluctuation_of, smoothed, without_n
from tplimits.law.rules.reading import BodyReader
from tplimits.law.state import Derivation, in_widths_of_n
from tplimits.program.nodes.domains import PARTIAL, ends_of_domains, real_where, singular_places
from tplimits.program.nodes.entries import OWN, Entry, GaussMean, N, entries
from tplimits.program.nodes.scale import at_infinity
from tplimits.program.parts import found, holds, longer, put_in, symbols

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import OuterNonlin, ScalarNonlin

REFERENCE = Reference(f"{MASTER}, Def. 2.6.5 (OuterNonlin)", "yang2023tensor")
#: nodes of what the tail of a later ket is judged from; a longer one gets a name
_LONG = 100
#: a body without any of these is continuous wherever it is finite: its hypotheses need not be asked
_SINGULAR = (*jump.HEADS, *PARTIAL)
SCALARS = Reference(f"{MASTER}, Lemma 2.6.2", "yang2023tensor")


def outer(state: Derivation, key: Key, instruction: OuterNonlin) -> None:
    """The ket of an entrywise function, averaged over its boxes."""
    # `whole` runs at width n, `body` at n → ∞: hypotheses about what is lost between them are asked of both
    whole = body = state.unroller.at(instruction.body, instruction.axes, key[1])
    if not state.widths.isdisjoint(found(instruction.body, Symbol)):
        whole = in_widths_of_n(whole, state.program)
        refuse_sharp(state.program, key[0], whole)
        body = without_n(state, key, whole)
        _judge_hidden(state, key, whole, body)
    # before poles are judged: log(1 + s)/s with s → 0 has none
    read, body = body, smoothed(state, body)
    boxes = {slot: state.gaussians.new_box() for slot in instruction.slots}
    kets, boxed = _kets(state, body, boxes, lambda ket: ket.expr)
    value, scalars = _substituted(state, key, body, kets, body if whole == read else whole)
    state.engine.effort.read(value)
    # a power of n was dropped: constants alone do not make it exact any more
    if whole != read:  # off its limit at every width
        state.exact.discard(key)
    # tails come from the form before means were closed: a closed form hides of what it was the mean
    judged = kets
    if any(state.kets[key_of(entry)].expr in state.judged for entry in kets):
        judged, _ = _kets(state, body, boxes, lambda ket: state.judged.get(ket.expr, ket.expr))
    inner = value if judged == kets else put_in(body, {**scalars, **judged}, {})
    growth = _tail(state, inner, value)
    # 1/√n moves a pole as scalars do, and is gone from `body`; where the limit itself has a doubt that one is enough
    moved = whole if whole is not read and shifts(whole) else read
    beside = _beside_limits(state, key, moved, boxes, scalars) if growth.established else ()
    if boxed:
        value = state.engine.mean(value, over=boxed)
        if not growth.established:  # by Jensen the mean over boxes grows no faster, maybe slower
            growth = _tail(state, value, value)
    remarks = (*_second_moment(state, key, value, growth), *beside)
    # after the mean over boxes: no row of the table of closed forms sees through a name
    value = state.engine.shortened(value, state.label(key))
    ket = Ket(state.label(key), value, width=instruction.over)
    state.kets[key] = ket
    if growth.established and (boxed or inner != value):
        state.judged[value] = _judged(state, key, value if boxed else inner, value, growth) if symbols(value) else value
    rule = f"outer nonlinearity of order {instruction.order}"
    text = lambda: f"|{ket.label}⟩ = {state.text(state.engine.lengthened(value))}"  # noqa: E731 - a sentence to be written later
    state.steps.append(Step(rule, lambda: _labels(state, read), text, REFERENCE, lambda: remarks))


def scalar(state: Derivation, key: Key, instruction: ScalarNonlin) -> None:
    """The limit of a function of scalars: the function of the limits."""
    whole = body = state.unroller.at(instruction.body, instruction.axes, key[1])
    if not state.widths.isdisjoint(found(instruction.body, Symbol)):
        whole = in_widths_of_n(whole, state.program)
        refuse_sharp(state.program, key[0], whole)
        body = without_n(state, key, whole)
        _judge_hidden(state, key, whole, body)
    smooth = smoothed(state, body)
    value, _ = _substituted(state, key, smooth, {}, smooth if whole == body else whole)
    if whole != body:  # off its limit at every width
        state.exact.discard(key)
    state.scalars[key] = state.engine.named(value)
    text = lambda: f"{state.label(key)} → {state.text(value)}"  # noqa: E731 - as above
    state.steps.append(Step("function of scalars", lambda: _labels(state, body), text, SCALARS))


def _judge_hidden(state: Derivation, key: Key, whole: Expr, body: Expr) -> None:
    """Ask for the poles and roots that a power of n is stronger than: 1/(√n s) is 0 for s ≠ 0 alone."""
    whole = smoothed(state, whole, order=1)
    # only of what does not hold a width itself: there the limit is another argument, which the body shows
    places = (*singular_places(whole), *ends_of_domains(whole))
    hidden = [(node, a) for node, a in places if state.widths.isdisjoint(symbols(a)) and not body.has(node)]
    # 1/(√n s) with s → 0 is the pole of a Gaussian, which the body shows as well
    shown = [a for _, a in (*singular_places(body), *ends_of_domains(body))] if hidden else []
    left = ((node, a, fluctuation_of(state, a)) for node, a in hidden)
    lost = sympy.Add(*(_on_its_scale(whole, node, a, f) for node, a, f in left if not _is_multiple(f, shown)))
    if lost != 0:
        lost = smoothed(state, lost)
        kets = {e: state.kets[key_of(e)].expr for e in entries(lost) if key_of(e) in state.kets}
        _substituted(state, key, lost, kets, lost)


def _on_its_scale(whole: Expr, node: Expr, argument: Expr, fluctuation: Expr) -> Expr:
    """A pole that a body loses, of √n s where it stands as 1/(√n s)ᵏ alone: what that multiplies may vanish."""
    # another scale than 1/√n has another power of n beside it
    if fluctuation == 0 or not node.is_Pow or not node.exp.is_number or not isinstance(argument, Entry):
        return node
    beside = [p for p in found(whole, sympy.Mul) if node in p.args]
    powers = [p.as_powers_dict().get(N, S.Zero) for p in beside]
    bare = put_in(whole, dict.fromkeys(beside, S.Zero), {}).has(node)
    if bare or not all(power.is_number and power <= node.exp / 2 for power in powers):
        return node
    return node.xreplace({argument: fluctuation})


def _is_multiple(argument: Expr, others: list[Expr]) -> bool:
    """Whether an argument vanishes only where one of the others does, by its factors."""
    bases = [b for f in sympy.Mul.make_args(argument) if not (b := f.as_base_exp()[0]).is_number]
    return bool(bases) and all(any(sympy.cancel(b / other).is_number for other in others) for b in bases)


def _labels(state: Derivation, body: Expr) -> list[str]:
    """What a body reads, by name."""
    return [state.label(key_of(e)) for e in entries(body)]


def _tail(state: Derivation, inner: Expr, value: Expr) -> Tail:
    """The tail of a ket: from the tails of what its body reads, or else from its closed form."""
    first = tail(inner, state.gaussians)
    if first.established or inner == value:
        return first
    closed = tail(value, state.gaussians)
    return closed if closed.established else first


def _judged(state: Derivation, key: Key, inner: Expr, value: Expr, growth: Tail) -> Expr:
    """What stands for a ket where the tails of later ones are judged: a name that carries its own."""
    # short enough to be followed again by every later ket; else its tail is kept under a name, judged once
    if inner != value and not longer(inner, _LONG):
        return inner
    name = state.gaussians.name_long(f"|{state.label(key)}|", value, key in state.nonnegative)
    state.gaussians.growths[name] = growth
    return name


def _kets(
    state: Derivation, body: Expr, boxes: dict[Symbol, int], read: Callable[[Ket], Expr]
) -> tuple[dict[Expr, Expr], set[Symbol]]:
    """What each vector entry of the body stands for, and the boxed variables."""
    kets: dict[Expr, Expr] = {}
    boxed: set[Symbol] = set()
    for entry in entries(body):
        ket = state.kets.get(key_of(entry))
        if ket is None:
            continue
        if entry.neuron == OWN:
            kets[entry] = read(ket)
            continue
        # box means inside of the copied ket get boxes of their own, or two neurons would share them
        fresh = state.engine.rename_boxes(read(ket))
        kets[entry], copies = state.gaussians.copied(fresh, boxes[entry.neuron])
        boxed |= copies
    return kets, boxed


def _substituted(
    state: Derivation, key: Key, body: Expr, kets: dict[Expr, Expr], finite: Expr
) -> tuple[Expr, dict[Expr, Expr]]:
    """The body with limits and kets put in, and the limits; refuses jumps and poles that the limit lands on.

    `finite` is what runs at width n, of which signs are remembered.
    """
    limits = ((e, state.scalars.get(key_of(e))) for e in entries(body))
    scalars = {e: limit for e, limit in limits if limit is not None}
    means = set(outermost(body))
    scalars |= {node: _constant_mean(state, key, node) for node in means}
    swap = {**scalars, **kets}
    boxed = any(e.neuron != OWN for e in kets)
    # limits of parts are shared by bodies, but means over Gaussians and boxed kets are put in for this one alone
    ends = _domains(finite)
    reader = BodyReader(state, swap, ends, {} if means or boxed else state.limits)
    if holds(body, *_SINGULAR):
        for hypothesis in (jump.jumps, pole.poles, root.roots):
            state.judge(hypothesis, reader, body, key)
    # √(y² − 1/n) tends to |y|, which has no root
    if lost := ends.keys() - {a for _, a in real_where(body)}:
        state.judge(root.roots, reader, sympy.Add(*(sympy.Pow(a, S.Half, evaluate=False) for a in lost)), key)
    if finite.has(N):
        state.judge(jump.shifted, reader, finite, key)
    if reader.is_exact(body):
        state.exact.add(key)
    # remembered at finite width, for roots of it later on: a limit 0 reached from above is harmless there
    # by what it reads, each once: a body that is asked about is written out
    least = reader.own_bounds(finite)[0]
    if least.is_extended_nonnegative:
        state.nonnegative.add(key)
        if least.is_positive:
            state.above[key] = least
    if is_nothing_by_halves(body):
        state.exact.add(key)
        body = S.Zero
    value = cancelled(reader.limit(without_rounding(reader, body)))
    pole.insist_finite(reader, body, value, state.program.where(key[0]))
    return value, scalars


def _domains(finite: Expr) -> dict[Expr, Expr]:
    """What stands under roots and in logarithms at width n, by what it tends to: θ − 1/√n is negative for θ = 0."""
    moving = [a for _, a in real_where(finite) if a.has(N)] if finite.has(N) else []
    ends: dict[Expr, Expr] = {}
    for argument in moving:
        with contextlib.suppress(ValueError):  # what grows is no end of a domain
            ends[at_infinity(argument)] = argument
    return ends


def _beside_limits(
    state: Derivation, key: Key, body: Expr, boxes: dict[Symbol, int], scalars: dict[Expr, Expr]
) -> tuple[str, ...]:
    """The doubt where a ket has a second moment only as long as no scalar is beside its limit."""

    def established(moved: Expr) -> bool:
        limits = {e: state.scalars[key_of(e)] for e in entries(moved) if key_of(e) in state.scalars}
        reads: tuple[Callable[[Ket], Expr], ...] = (lambda k: state.judged.get(k.expr, k.expr), lambda k: k.expr)
        inner, value = (put_in(moved, {**scalars, **limits, **_kets(state, moved, boxes, r)[0]}, {}) for r in reads)
        return _tail(state, inner, value).established

    if all(map(established, state.around.bodies(body))):
        return ()
    reason = state.around.why(body, BodyReader(state, {}).shown)
    state.doubts.append((key, Doubt("moment", state.label(key), state.program.where(key[0]), reason)))
    return (f"second moment not established symbolically: {reason}",)


def _constant_mean(state: Derivation, key: Key, node: GaussMean) -> Expr:
    """tp.expect: the mean over a standard normal of its own."""
    doubt = constant_mean(state.program.where(key[0]), node, state.gaussians)
    if doubt is not None:
        state.doubts.append((key, doubt))
    own = opened(node, state.gaussians, lambda inner: _constant_mean(state, key, inner))
    return state.engine.named(state.engine.mean(own))


def _second_moment(state: Derivation, key: Key, value: Expr, growth: Tail) -> tuple[str, ...]:
    if growth.kind is Growth.INFINITE:
        shown = f"{state.label(key)}⟩ = {state.text(value)}"
        raise InfiniteMoment(infinite_moment(state.program.where(key[0]), shown, growth.reason))
    if growth.kind is Growth.EXPONENTIAL:
        return (
            "not pseudo-Lipschitz, but all needed moments are finite: the Master Theorem is used beyond its hypothesis",
        )
    # a pole that provably diverges gives the better reason, though it stays a doubt: terms may cancel elsewhere
    if growth.kind is Growth.UNKNOWN:
        reason = diverging_pole(value, state.gaussians) or growth.reason
        state.doubts.append((key, Doubt("moment", state.label(key), state.program.where(key[0]), reason)))
        return (f"second moment not established symbolically: {reason}",)
    return ()
