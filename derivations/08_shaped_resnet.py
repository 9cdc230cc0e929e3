"""A shaped ReLU residual network, depth proportional to width.

X′ = λX + γ √c σ_s(X W₁) W₂ with slopes 1 + c_±/√n, c⁻¹ = E σ_s(g)² and λ² + γ² = 1.  Noci et al. 2023, Theorem 3.2:
V = (1/n) X Xᵀ at layer t·n tends to dV = b dt + Σ^(1/2) dB,

    b^αβ = γ² ν(ρ^αβ) √(V^αα V^ββ),   ν(ρ) = (c₊ − c₋)²/2π (√(1 − ρ²) − ρ arccos ρ),   Σ = 2γ² Σ_lin.

Where it comes from: E φ(g)φ(g′) for standard normals of correlation ρ has second derivative J²/(2π√(1 − ρ²)) in ρ, J
the jump of the slope (Price), and J = (c₊ − c₋)/√n.  Twice integrated that is ν/n beside ρ, once c has made the
diagonal 1. γ² stands before it because the branch enters V squared; Σ = (2λ²γ² + 2γ⁴)Σ_lin = 2γ²Σ_lin: the products
of X and the branch, and the two layers of the branch.

Two misprints of the paper's appendix are judged too: ν with (c₊ + c₋)² and + ρ arccos ρ, which is not zero for a linear
activation c₊ = c₋; and a drift without γ², as one display of the proof has it.
"""

import numpy as np
from blocks import resnet
from worked import V0, Worked, sigma_lin

work = Worked(__doc__)


def relu_drift(V, c_plus, c_minus, sign=-1):
    """√(V^αα V^ββ) ν(ρ); sign=+1 is the misprint."""
    scale = np.sqrt(np.outer(np.diag(V), np.diag(V)))
    ρ = np.clip(V / scale, -1, 1)
    factor = (c_plus + sign * c_minus) ** 2 / (2 * np.pi)
    return factor * (np.sqrt(1 - ρ**2) + sign * ρ * np.arccos(ρ)) * scale


sde = work.equation(resnet)
slopes = {"c_plus": 0.2, "c_minus": -1.0}
constants = {"γ": 0.6, **slopes}
work.coefficients(sde, lambda V: 0.36 * relu_drift(V, **slopes), lambda V: 0.72 * sigma_lin(V), **constants)
linear = sde.drift_at(V0, γ=0.6, c_plus=0.7, c_minus=0.7)
work.holds("no drift for a linear activation", np.abs(linear).max() < 1e-15)

work.layers(sde, "The derived coefficients.", **constants)
wrong = {"drift": 0.36 * relu_drift(V0, **slopes, sign=1)}
work.layers(sde, "The wrong twin: ν as printed in the appendix.", wrong, accepted=False, **constants)
wrong = {"drift": relu_drift(V0, **slopes)}
work.layers(sde, "The wrong twin: no γ², as in the proof.", wrong, accepted=False, **constants)
work.finish()
