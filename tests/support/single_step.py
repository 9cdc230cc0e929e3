"""One compiled step of a covariance SDE, by machine code or by the interpreter."""

from __future__ import annotations

from tplimits.regimes.depth.numbers import moves
from tplimits.regimes.depth.numbers.batch import room


def assembled(compiled, V, h, noises=(), interpreted=False):
    """What is added to V and what multiplies it in a step of size h, at given R."""
    m = len(V)
    at = room(compiled.simulator.source, m, compiled.coefficients(h), compiled.arrays)
    at.own["V"][...] = V
    at.responses[: len(noises)] = noises or 0.0
    moves.kernels(V, True, at.own["d"], at.own["s"], at.own["N"])
    if interpreted:
        compiled.simulator.assemble.function(m, at.flat)
    else:
        compiled.simulator.assemble(m, at.addresses)
    return at.own["D"], at.own["X"]
