"""OuterNonlin: |y⟩ = E_boxes ψ(|x⟩; |x⟩^1; …; |x⟩^r; θ) (Yang & Littwin, Def. 2.6.5, OuterNonlin).

The boxes hold independent copies of the whole tuple of kets; scalars enter by their limits, which
needs ψ continuous there: a jump whose argument vanishes in the limit is refused.
"""

from __future__ import annotations

import sympy
from sympy import Expr, Symbol

from tplimits.errors import NoLimitError
from tplimits.limit.bounds import bounds
from tplimits.limit.growth import Growth, Verdict, classify
from tplimits.limit.kets import MASTER, Ket, Key, Reference, Step
from tplimits.limit.rules.powers import without_n
from tplimits.limit.state import Doubt, State
from tplimits.program.entries import OWN, Entry, GaussMean, entries
from tplimits.program.functions import JUMPS
from tplimits.program.nodes import Avg, OuterNonlin, ScalarNonlin

REFERENCE = Reference(f"{MASTER}, Def. 2.6.5 (OuterNonlin)", "yang2023tensor")
SCALARS = Reference(f"{MASTER}, Lemma 2.6.2", "yang2023tensor")


def outer(state: State, key: Key, instruction: OuterNonlin) -> None:
    """The ket of an entrywise function, averaged over its boxes."""
    body = state.unroller.at(instruction.body, instruction.axes, key[1])
    body = without_n(state, key, body)
    boxes = {slot: state.gaussians.new_box() for slot in instruction.slots}
    kets, boxed = _kets(state, body, boxes)
    value = _substituted(state, key, body, kets)
    state.engine.effort.read(value)
    growth = classify(value, state.gaussians)
    if boxed:
        value = state.engine.mean(value, over=boxed)
        if growth.kind.value > Growth.EXPONENTIAL.value:  # by Jensen the mean over boxes grows no faster, maybe slower
            growth = classify(value, state.gaussians)
    remarks = _second_moment(state, key, value, growth)
    value = state.engine.shortened(value, state.label(key))
    ket = Ket(state.label(key), value, width=instruction.over)
    state.kets[key] = ket
    premises = tuple(dict.fromkeys(state.label((e.source, _index(e))) for e in entries(body)))
    rule = f"outer nonlinearity of order {instruction.order}"
    text = lambda: f"|{ket.label}⟩ = {state.text(state.engine.lengthened(value))}"  # noqa: E731 - a sentence to be written later
    state.steps.append(Step(rule, premises, text, REFERENCE, lambda: remarks))


def scalar(state: State, key: Key, instruction: ScalarNonlin) -> None:
    """The limit of a function of scalars: the function of the limits."""
    body = state.unroller.at(instruction.body, instruction.axes, key[1])
    body = without_n(state, key, body)
    value = _substituted(state, key, body, {})
    state.scalars[key] = state.engine.named(value)
    premises = tuple(dict.fromkeys(state.label((e.source, _index(e))) for e in entries(body)))
    state.steps.append(
        Step("function of scalars", premises, lambda: f"{state.label(key)} → {state.text(value)}", SCALARS)
    )


def _index(entry: Entry) -> tuple[int, ...]:
    return tuple(int(i) for i in entry.indices)


def _kets(state: State, body: Expr, boxes: dict[Symbol, int]) -> tuple[dict[Expr, Expr], set[Symbol]]:
    """What each vector entry of the body stands for, and the boxed variables."""
    kets: dict[Expr, Expr] = {}
    boxed: set[Symbol] = set()
    for entry in entries(body):
        ket = state.kets.get((entry.source, _index(entry)))
        if ket is None:
            continue
        if entry.neuron == OWN:
            kets[entry] = ket.expr
            continue
        fresh = state.engine.rename_boxes(ket.expr)
        kets[entry], copies = state.gaussians.copied(fresh, boxes[entry.neuron])
        boxed |= copies
    return kets, boxed


def _substituted(state: State, key: Key, body: Expr, kets: dict[Expr, Expr]) -> Expr:
    """The body with limits and kets put in; refuses jumps and poles that the limit lands on."""
    scalars = {e: state.scalars[(e.source, _index(e))] for e in entries(body) if (e.source, _index(e)) in state.scalars}
    swap = {**scalars, **kets, **{node: _constant_mean(state, key, node) for node in body.atoms(GaussMean)}}
    where = state.program.where(key[0])
    for node in body.atoms(*JUMPS):
        argument = node.args[0]
        if argument.has(Entry) and sympy.expand(argument.xreplace(swap)) == 0:
            raise NoLimitError(
                f"{where}: the limit lands on a jump of `{type(node).__name__}`; its argument tends to 0, where "
                "the function is not continuous (hypothesis of Def. 2.6.5: ψ continuous at the limits of its "
                "arguments), so the value keeps fluctuating. Use a continuous function, or multiply the "
                "argument by tp.sqrt(tp.n)."
            )
    _refuse_vanishing_roots(state, where, body, swap)
    value = body.xreplace(swap)
    if value.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo, sympy.I):
        shown = sympy.sstr(body.xreplace({e: Symbol(state.label((e.source, _index(e)))) for e in entries(body)}))
        limits = ", ".join(f"{state.label((e.source, _index(e)))} → {v}" for e, v in scalars.items())
        raise NoLimitError(
            f"{where}: `{shown}` is not finite at the limit of its arguments ({limits or 'constants'}); hypothesis: ψ "
            "continuous at the limits of its scalars. Keep the denominator or the logarithm away from zero."
        )
    return value


def _refuse_vanishing_roots(state: State, where: str, body: Expr, swap: dict[Expr, Expr]) -> None:
    """A root of a scalar that tends to 0 with either sign is not real at finite width, however large."""
    for node in body.atoms(sympy.Pow):
        if not node.exp.is_Rational or node.exp.is_Integer or not node.base.has(Entry):
            continue
        least = {e: Symbol("averaged", nonnegative=True) for e in entries(node.base) if _averages_nonnegative(state, e)}
        if bounds(node.base.xreplace(least))[0] < 0 and sympy.expand(node.base.xreplace(swap)) == 0:
            raise NoLimitError(
                f"{where}: what stands under the root of `{node.exp}` tends to 0 and is negative at finite width with "
                "positive probability (hypothesis: ψ is real and continuous near the limits of its scalars). Take the "
                "root of a square or of a mean of squares, or multiply by tp.sqrt(tp.n) and look at the fluctuation."
            )


def _averages_nonnegative(state: State, entry: Entry) -> bool:
    """Whether an entry is an average of a vector that is nowhere negative."""
    instruction = state.program[entry.source]
    if not isinstance(instruction, Avg) or instruction.operand is None:
        return False
    ket = state.kets.get((instruction.operand.source, _index(entry)))
    return ket is not None and bool(bounds(ket.expr)[0] >= 0)


def _constant_mean(state: State, key: Key, node: GaussMean) -> Expr:
    """tp.expect: the mean over a standard normal of its own."""
    integrand, variable = node.args
    fresh = state.gaussians.copy(variable, state.gaussians.new_box())
    own = integrand.xreplace({variable: fresh})
    growth, where, shown = classify(own, state.gaussians), state.program.where(key[0]), f"tp.expect of {integrand}"
    if growth.kind is Growth.INFINITE:
        raise NoLimitError(
            f"{where}: {shown} has no finite second moment: {growth.reason} (hypothesis of tp.expect: a square "
            "integrable function of a standard normal). Bound the function, or keep it away from its pole."
        )
    if growth.kind is Growth.UNKNOWN:
        state.doubts.append(Doubt(shown, where, growth.reason))
    return state.engine.named(state.engine.mean(own))


def _second_moment(state: State, key: Key, value: Expr, growth: Verdict) -> tuple[str, ...]:
    if growth.kind is Growth.INFINITE:
        raise NoLimitError(
            f"{state.program.where(key[0])}: |{state.label(key)}⟩ = {state.text(value)} has no "
            f"finite second moment: {growth.reason} (hypothesis: ψ pseudo-Lipschitz, or at least square integrable). "
            "Bound the function, or keep it away from its pole."
        )
    if growth.kind is Growth.EXPONENTIAL:
        return (
            "not pseudo-Lipschitz, but all needed moments are finite: the Master Theorem is used beyond its hypothesis",
        )
    if growth.kind is Growth.UNKNOWN:
        state.doubts.append(Doubt(f"|{state.label(key)}⟩", state.program.where(key[0]), growth.reason))
        return (f"second moment not established symbolically: {growth.reason}",)
    return ()
