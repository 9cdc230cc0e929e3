"""Avg: θ → E|x⟩ = ⟨1|x⟩ (Yang & Littwin, Def. 2.6.5, Avg, and Theorem 2.6.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.law.kets import MASTER, Ket, Key, Reference, Step

if TYPE_CHECKING:
    from tplimits.law.state import Derivation

REFERENCE = Reference(f"{MASTER}, Thm 2.6.10 (Master Theorem)", "yang2023tensor")


def average(state: Derivation, key: Key, ket: Ket, operand: Key | None = None) -> None:
    """The limit of an average: the mean of the ket; an average of what is never negative is not."""
    for kept in (state.nonnegative, state.exact):
        if operand in kept:
            kept.add(key)
    if operand in state.above:
        state.above[key] = state.above[operand]
    # a long mean gets a name: written out, scalars of scalars would grow exponentially with the depth
    value = state.engine.mean(ket.expr)
    state.scalars[key] = state.engine.named(value)
    name = state.label(key)
    state.steps.append(
        Step("average", (ket.label,), lambda: f"{name} → ⟨1|{ket.label}⟩ = {state.text(value)}", REFERENCE)
    )
