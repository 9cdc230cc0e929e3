"""RMSNorm of ReLU features, with a trained gain: the mean stays in.

Limit: NNGP → ρ₁ = E relu(u) relu(u′)/√(E relu(u)² E relu(u′)²) and NTK → 2ρ₁ + K P(u > 0, u′ > 0)/√(E relu(u)² E
relu(u′)²), (u, u′) Gaussian with covariance K = ξ·ξ′/d

Symbols: ξ and ξ′ are inputs with d entries; U and v have entries N(0, 1), g starts at 1.

Reference: Zhang & Sennrich 2019, Root mean square layer normalization, NeurIPS
"""

from tplimits.program.language.annotations import Input, Vector
from tplimits.program.language.operations import relu, size, sqrt, sum
from tplimits.program.layers.norms import rms_norm
from tplimits.program.network.network import network


@network
def rms_norm_mlp(ξ: Input["d"], U: Vector["d"], v: Vector, g: Vector = 1):
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    y = rms_norm(x, g)
    return v * y
