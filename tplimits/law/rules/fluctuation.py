"""Fluctuation scalars S = √n·Avg(x) with ⟨1|x⟩ = 0: Gaussian, of the class that `hypotheses.fluctuation` states.

Cov(S, S') → ⟨x|x'⟩ in the safe class, Cov(F, F') for functions of initial vectors alone; others are refused.
"""

from __future__ import annotations

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.fluctuation import OTHER_WIDTH, SHARED, initial_only, is_apart, is_safe, refused
from tplimits.law.kets import MASTER, Key, Reference, Step
from tplimits.law.span import negligible
from tplimits.law.state import Derivation, Fluctuation
from tplimits.program.nodes.kinds import Avg

REFERENCE = Reference(
    f"central limit theorem given everything but the fresh factors; {MASTER}, Thm 2.9.19", "yang2023tensor"
)


def fluctuation_symbol(state: Derivation, key: Key) -> Symbol:
    """The Gaussian variable that stands for √width·(Avg − limit)."""
    average = state.program[key[0]]
    assert isinstance(average, Avg)
    return Symbol(f"√{average.over}·{state.label(key)}", real=True)


def settle(state: Derivation, key: Key) -> None:
    """Find the covariances of a fluctuation with itself and all earlier ones, or refuse it."""
    if key in state.fluctuations:
        return
    average = state.program[key[0]]
    assert isinstance(average, Avg)
    new = Fluctuation(fluctuation_symbol(state, key), key, average.over)
    # among the others before they are gone through, so that its own variance is one of the covariances
    state.fluctuations[key] = new
    for other in list(state.fluctuations.values()):
        value = _covariance(state, new, other)
        state.covariances[new.symbol, other.symbol] = state.covariances[other.symbol, new.symbol] = value
    own = state.covariances[new.symbol, new.symbol]
    text = lambda: f"{new.symbol} ~ Gaussian, variance {state.text(own)}"  # noqa: E731 - written when read
    mean = state.scalars[key]
    # √n times a mean that is only nearly 0 diverges: whoever reads the limit is told that the data's rounding was
    # judged
    judged = mean != 0 and negligible(mean, state.tolerance)
    remarks = (
        (f"⟨1|x⟩ = {float(mean):.1e}, judged zero at {state.tolerance:g}: array constants are data",) if judged else ()
    )
    state.steps.append(Step("fluctuation", (state.label(key),), text, REFERENCE, lambda: remarks))


def _ket(state: Derivation, fluctuation: Fluctuation) -> Expr:
    """F: the averaged ket minus its mean."""
    average = state.program[fluctuation.key[0]]
    assert isinstance(average, Avg)
    place = state.unroller.at(average.operand, average.axes, fluctuation.key[1])
    ket = state.kets[(place.source, tuple(int(i) for i in place.indices))]
    return ket.expr - state.scalars[fluctuation.key]


def _covariance(state: Derivation, a: Fluctuation, b: Fluctuation) -> Expr:
    if a.over != b.over:
        if not is_apart(state.program, a.key[0], b.key[0]):
            raise refused(state.program, a.key[0], state.label(a.key), OTHER_WIDTH)
        return S.Zero
    f, g = _ket(state, a), _ket(state, b)
    # each pair is judged together: two that are safe alone may need different sources as the fresh ones
    # given the other one it is Gaussian with a random variance, a mixture, whose law is no table of covariances
    if any(s in {x.symbol for x in state.fluctuations.values()} for s in f.free_symbols | g.free_symbols):
        why = "its covariance depends on another fluctuation scalar"
        raise refused(state.program, a.key[0], state.label(a.key), why)
    positions = [s.key[0] for s in (a, b)]
    if not all(initial_only(state.program, p) for p in positions) and not is_safe(state.program, positions):
        raise refused(state.program, a.key[0], state.label(a.key), SHARED)
    return state.engine.named(sympy.expand(state.engine.inner(f, g)), positive=a is b)
