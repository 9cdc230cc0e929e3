"""Initial vectors and scalars: |x⁰⟩ ~ N(0, I) (Yang & Littwin, Def. 2.6.5, Init).

|x⟩ = mean + std · ζ(g),   g ~ N(0, 1), a fresh variable for every index of the axes; ζ(g) = g unless entries have
another law (`tplimits.program.nodes.laws`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.law.gaussians import InitialSource
from tplimits.law.kets import MASTER, Ket, Key, Reference, Step
from tplimits.program.language.render import number_text
from tplimits.program.nodes.entries import constant_symbol

if TYPE_CHECKING:
    from tplimits.law.state import Derivation
    from tplimits.program.nodes.kinds import InitialScalar, InitialVector

REFERENCE = Reference(f"{MASTER}, Def. 2.6.5 (Init)", "yang2023tensor")


def initial_vector(state: Derivation, key: Key, vector: InitialVector) -> None:
    """The ket of an initial vector."""
    name = state.label(key)
    if vector.law.std == 0:
        ket = Ket(name, vector.law.mean, width=vector.over)
        # a constant vector is at its limit at every width: a jump or a pole there is where the user put it
        state.exact.add(key)
        if vector.law.mean.is_nonnegative:
            state.nonnegative.add(key)
    else:
        symbol = state.gaussians.add(name, InitialSource(*key))
        ket = Ket(name, vector.law.image(symbol), width=vector.over)
    state.kets[key] = ket
    law = vector.law.described(number_text) if vector.law.std != 0 else f"the constant {vector.law.mean}"
    state.steps.append(Step("initial vector", (), lambda: f"|{name}⟩ ~ {law}", REFERENCE))


def initial_scalar(state: Derivation, key: Key, scalar: InitialScalar) -> None:
    """The limit of a given scalar: its value, or a symbol with its name."""
    name = state.label(key)
    state.scalars[key] = scalar.value if scalar.value is not None else constant_symbol(name)
    # given, not averaged: no hypothesis on continuity is asked of what does not move
    state.exact.add(key)
    state.steps.append(Step("given scalar", (), lambda: f"{name} → {state.text(state.scalars[key])}", REFERENCE))
