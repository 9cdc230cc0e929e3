"""A recurrent network, h_t = W x_{t−1} + U ξ_t/√d + ½b with one W for all steps, read out after the last of three.

Gradients at steps s and t correlate when equally many matrices lie behind them; pairs of unequal lag vanish.

Limit: NNGP → K_33 and NTK → K_33 + Θ_33 D_33, Θ_st = C_st + D_{s−1,t−1} Θ_{s−1,t−1}, by C_st = K_{s−1,t−1} +
ξ_s·ξ′_t/d + ¼, K_st = E erf(u) erf(u′) and D_st = E erf′(u) erf′(u′) over (u, u′) Gaussian with covariance C_st

Symbols: ξ and ξ′ are inputs of three steps with d entries; W has entries N(0, 1/n), U, b and v have N(0, 1); x_0 = 0.

Reference: Alemohammad et al. 2021, The recurrent neural tangent kernel, ICLR
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import erf, size, sqrt, sum
from tplimits.program.network.network import network


@network
def recurrent(ξ: Input["d", "time"], U: Vector["d"], W: Matrix, b: Vector, v: Vector):
    drive = sum(U * ξ, over="d") / sqrt(size("d")) + b / 2
    x = erf(drive.sel(time=0))
    for t in range(1, 3):
        x = erf(W @ x + drive.sel(time=t))
    return v * x


recurrent = recurrent.bind(time=3)
