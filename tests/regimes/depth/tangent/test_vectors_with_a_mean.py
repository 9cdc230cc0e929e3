"""Tangents of blocks with a bias around a mean: those of a centred bias beside a number."""

from __future__ import annotations

import tplimits as tp

AROUND, CENTRED = tp.init(mean=1, std=2), tp.init(mean=0, std=2)


@tp.block
def around(x: tp.State["token"], U: tp.Matrix, W: tp.Matrix, b: tp.Vector = AROUND):
    return x + U @ ((W @ x + b + 1) ** 2) / tp.sqrt(tp.n)


@tp.block
def beside(x: tp.State["token"], U: tp.Matrix, W: tp.Matrix, b: tp.Vector = CENTRED, *, shift):
    return x + U @ ((W @ x + b + shift) ** 2) / tp.sqrt(tp.n)


def test_a_bias_around_a_mean_has_the_gradients_of_one_beside_a_number():
    """∂L/∂b of (h + b + 1)² starts at 4 E (h + b + 1)(h′ + b + 1) = 4 (V + 4 + 2²)."""
    found, known, other = (
        tp.derive(block, tp.Proportional(tangent=True))
        for block in (around, beside.bind(shift=2), beside.bind(shift=0))
    )
    assert str(found.start("b")) == "4*V[α, β] + 32"
    for name in ("U", "W", "b"):
        assert found.start(name) == known.start(name)
    assert found.drift == known.drift and found.drift != other.drift
