"""Layers of finite width against the Gaussian means of functions of scalars and of activations; wrong ones rejected."""

from __future__ import annotations

import bent
import numpy as np
import pytest
from bent import V

import tplimits as tp

LEVEL = 1e-3
ATTENTION = {"γ": 0.7, "τ0": 0.8}


def root():
    return tp.sqrt(tp.n)


BLOCKS = {
    "relu²": (bent.attention(lambda Y: tp.relu(Y) ** 2), ATTENTION, "drift"),
    "relu/√n": (bent.attention(lambda Y: 3 * tp.relu(Y) / root()), ATTENTION, "drift"),
    "sign/√n": (bent.attention(lambda Y: tp.sign(Y) / root()), ATTENTION, "diffusion"),
    "max": (bent.two_logits(lambda Y, Z: 3 * tp.maximum(Y, Z) / root()), ATTENTION, "drift"),
    "heads": (bent.heads(lambda Y: tp.relu(Y) ** 2), {**ATTENTION, "head": 2}, "drift"),
    "shared": (bent.shared, ATTENTION, "drift"),
    "gate": (bent.gate(lambda Y: tp.relu(Y) ** 2), {"γ": 0.7}, "drift"),
    "gelu": (bent.branch(tp.gelu), {"g": 0.8}, "drift"),
    "tanh": (bent.branch(tp.tanh), {"g": 0.8}, "drift"),
}
#: the part of a drift that a Taylor series sees: none of a kink; of an activation its linear part
SMOOTH = {"gelu": lambda: 0.64 * V / 4, "tanh": lambda: 0.64 * V}


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("name", BLOCKS)
def test_gaussian_means_are_where_layers_of_finite_width_point(name, seed):
    block, constants, part = BLOCKS[name]
    sde = tp.derive(block, tp.Proportional())
    sampled = (
        {"widths": (64, 128, 256, 512), "draws": 1600} if name == "gate" else {"widths": (64, 128, 256), "draws": 800}
    )
    options = {"V0": V, "seed": seed, "level": LEVEL, "progress": False, **sampled}
    verdict = tp.check(sde, **options, **constants)
    assert verdict.accepted, verdict
    if part == "drift":
        wrong = SMOOTH.get(name, lambda: np.zeros((3, 3)))()
    else:
        smooth = tp.derive(bent.attention(lambda Y: 0 * Y), tp.Proportional())
        wrong = smooth.diffusion_at(V, **constants, ratios={"k": 1.0})
    assert not tp.check(sde, **options, claims={part: wrong}, **constants).accepted
