"""What the scripts on training share: perceptrons, data, networks of finite width beside a limit, and a wrong twin.

Outputs of finite networks are compared without f^dec, the outputs that they have at (1 − λ)^t times their initial
weights (f_0 without decay): the error signal does not see it, nor does the comparison.  In the operator regime all
networks then have the limit that starts from 0; in the feature-learning limit f^dec vanishes anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

#: ε of the smooth setting, and its learning rate: at 1e-4 and 0.2, as in Chapter 5, Adam is nearly a sign
EPS = RATE = 0.05
#: six inputs in R^4, all of them trained on
X = np.random.default_rng(SEED).standard_normal((6, 4))
Y = np.random.default_rng(SEED + 1).standard_normal(6)
ERROR = tp.squared_error(Y)
#: agreement asked: root mean square over inputs and times of differences in standard errors
AGREE, APART = 1.5, 5.0


@tp.network
def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.tanh(tp.sum(U * ξ, over="d"))


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.tanh(h)


@tp.network
def three(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    y = tp.tanh(A @ x)
    return v * tp.tanh(B @ y)


#: optimizer, learning rate, decay; and the networks of each width that are trained
SETTINGS = {
    "Adam": (tp.Adam(eps=EPS), RATE, 0.0),
    "SGD": (tp.SGD(), 0.5, 0.0),
    "AdamW, λ = 0.1": (tp.Adam(eps=EPS), RATE, 0.1),
}


def uncorrected() -> tp.Entrywise:
    """Adam without bias correction."""
    β1, β2 = 0.9, 0.999
    return tp.Entrywise(
        lambda m, v: m / tp.sqrt(v + EPS**2),
        states={"m": lambda g, m: β1 * m + (1 - β1) * g, "v": lambda g, v: β2 * v + (1 - β2) * g**2},
    )


@dataclass(frozen=True)
class Networks:
    """Outputs without f^dec of networks in training, by width: (networks, steps + 1, inputs)."""

    f: Mapping[int, np.ndarray]

    def mean(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean over the networks of one width, with its standard error."""
        f = self.f[n]
        return f.mean(axis=0), f.std(axis=0, ddof=1) / np.sqrt(len(f))

    def intercept(self) -> tuple[np.ndarray, np.ndarray]:
        """L of L + b/n with its standard error, entry by entry, by weighted least squares over the widths."""
        means, errors = (np.stack(a)[:, 1:] for a in zip(*map(self.mean, self.f), strict=True))
        design = np.stack([np.ones(len(self.f)), 1 / np.array(list(self.f))], axis=1)
        weights = 1 / errors**2
        covariance = np.linalg.inv(np.einsum("ni,n...,nj->...ij", design, weights, design))
        L = np.einsum("...ij,nj,n...,n...->...i", covariance, design, weights, means)[..., 0]
        return L, np.sqrt(covariance[..., 0, 0])

    def rms_z(self, limit: Any) -> float:
        """Of the widest networks, in standard errors of both sides, over inputs and times."""
        mean, error = self.mean(max(self.f))
        return _rms((mean - limit.f)[1:] / np.hypot(error, limit.stderr)[1:])

    def intercept_rms_z(self, limit: Any) -> float:
        """Of the intercept."""
        L, error = self.intercept()
        return _rms((L - limit.f[1:]) / np.hypot(error, limit.stderr[1:]))

    def deviations(self, limit: Any) -> list[float]:
        """Root mean square deviation of one network, by width."""
        return [_rms((f - limit.f)[:, 1:]) for f in self.f.values()]

    def slope(self, limit: Any) -> float:
        """Its power of n."""
        return float(np.polyfit(np.log(list(self.f)), np.log(self.deviations(limit)), 1)[0])


def networks(
    net: tp.Program,
    parametrization: Any,
    optimizer: Any,
    lr: float,
    steps: int,
    counts: Mapping[int, int],
    weight_decay: float = 0.0,
    data: tuple[Any, Any] = (X, ERROR),
    **more: Any,
) -> Networks:
    """Train `counts[n]` networks of each width n with their true matrices."""
    found = {}
    for n, count in counts.items():
        chunk = max(1, 2**20 // n**2)  # what stays in the cache
        asked = [(first, min(chunk, count - first)) for first in range(0, count, chunk)]
        runs = [_trained(net, parametrization, optimizer, lr, steps, n, k, weight_decay, data, more) for k in asked]
        found[n] = np.concatenate(runs)
    return Networks(found)


def _trained(
    net: tp.Program,
    parametrization: Any,
    optimizer: Any,
    lr: float,
    steps: int,
    n: int,
    which: tuple[int, int],
    decay: float,
    data: tuple[Any, Any],
    more: Mapping[str, Any],
) -> np.ndarray:
    """Some networks of one width."""
    inputs, error = data
    first, draws = which
    seed = SEED + 1 + first
    more = {"draws": draws, "start": 0, **more}
    return train(net, parametrization, optimizer, inputs, error, lr, steps, n, seed, decay, **more).f


def compare(work: Worked, what: str, found: Networks, limit: Any) -> None:
    """The mean of the widest networks, and the intercept, are the limit."""
    wide, fitted = found.rms_z(limit), found.intercept_rms_z(limit)
    text = f"{what}: width {max(found.f)}, rms z = {wide:.2f}; intercept of L + b/n, rms z = {fitted:.2f}"
    work.holds(f"{text} ≤ {AGREE}", max(wide, fitted) <= AGREE)


def reject(work: Worked, what: str, found: Networks, limit: Any) -> None:
    """A wrong twin is far from the widest networks."""
    z = found.rms_z(limit)
    work.holds(f"{what}: rms z = {z:.1f} > {APART:g}", z > APART)


def fall(work: Worked, found: Networks, limit: Any) -> None:
    """One network is off the limit by n^(−1/2)."""
    off = ", ".join(f"{d:.4f} at n = {n}" for n, d in zip(found.f, found.deviations(limit), strict=True))
    slope = found.slope(limit)
    steps = len(limit.f) - 1
    work.holds(f"one network is off by {off}, for t ≤ {steps}: slope {slope:.3f}", abs(slope + 0.5) < 0.1)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))
