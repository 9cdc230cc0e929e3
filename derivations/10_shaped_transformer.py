"""A shaped transformer: attention, then a perceptron, depth proportional to width.

Each sublayer moves V by O(n^(−1/2)), so that the second sees the V of the first up to terms that vanish in the limit:
the coefficients add.  Noci et al. 2023, Corollary 4.3: b = b_attention + γ² ν √(V^αα V^ββ), Σ = Σ_attention + 2γ²
Σ_lin. The same for the order perceptron, attention.

Eq. 32 of the proof writes the two independent noises as one with the root [Σ + Σ_res^(1/2)]^(1/2); covariances of
independent terms add: it is [Σ + Σ_res]^(1/2).  Eqs. 27, 29 and 30 name b_ReLU and Σ_lin where the residual branch has
γ² b_ReLU and 2γ² Σ_lin; layers of finite width tell these apart.
"""

import numpy as np
from blocks import attention, resnet
from worked import V0, Worked

import tplimits as tp

work = Worked(__doc__)


sde = work.equation(tp.stack(attention, resnet))
parts = [tp.derive(block, tp.Proportional()) for block in (attention, resnet)]
reverse = tp.derive(tp.stack(resnet, attention), tp.Proportional())
for what in ("drift_form", "diffusion_form"):
    both = getattr(parts[0], what) + getattr(parts[1], what)
    for name, found in (("attention, perceptron", sde), ("perceptron, attention", reverse)):
        work.holds(f"{what} of {name} is the sum of both, for any m", not getattr(found, what) - both)

shared, slopes = {"γ": 0.6}, {"c_plus": 0.2, "c_minus": -1.0}
constants = {**shared, "τ0": 0.8, **slopes}
wide = {"widths": (50, 150, 450), "draws": (800, 600, 600)}
work.layers(sde, "The derived coefficients.", **wide, **constants)

first = parts[0].diffusion_at(V0, γ=0.6, τ0=0.8)
second = parts[1].diffusion_at(V0, **shared, **slopes)
eigenvalues, vectors = np.linalg.eigh(second)
as_printed = first + (vectors * np.sqrt(eigenvalues)) @ vectors.T
claims = {"diffusion": as_printed}
work.layers(sde, "The wrong twin: Σ + Σ_res^(1/2).", claims, accepted=False, **wide, **constants)
claims = {"diffusion": first + second / (2 * 0.36)}
work.layers(sde, "The wrong twin: Σ + Σ_lin.", claims, accepted=False, **wide, **constants)
work.finish()
