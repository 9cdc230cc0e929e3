"""Networks with inputs and the kernels they must have: the cases that a derivation of kernels is compared on.

Each case is a network, data by name of its inputs (first axis: the inputs of a batch), and a function that computes
NNGP and NTK by the published recursions.  `exact` tells closed forms from quadrature.  Data of perceptrons contain a
coincident, an antipodal and a collinear pair and one 1e-8 apart; there the recursion runs in extended precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import mpmath
import numpy as np
import reference_duals as duals
import reference_kernels as R

import tplimits as tp

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Case:
    """One comparison; the NTK is None where a derivative is no function."""

    name: str
    #: traces the network, when it is asked for: every process of tests collects all cases, and runs its share
    traced: Callable[[], tp.Program]
    inputs: Mapping[str, np.ndarray]
    reference: Callable[[], Pair]
    exact: bool = True
    infinite: tuple[str, ...] = ()
    train: tuple[str, ...] | None = None
    ntk: bool = True
    #: the library may draw samples; `reference` is a deterministic integral all the same
    sampled: bool = False

    @cached_property
    def network(self) -> tp.Program:
        """What is derived."""
        return self.traced()

    @property
    def tolerance(self) -> float:
        """Relative error that is allowed."""
        return 1e-10 if self.exact else 1e-8


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error relative to the entry, or to a thousandth of the geometric mean of its diagonal entries.

    A kernel may vanish where inputs do not, such as ReLU at opposite inputs.
    """
    d = np.abs(np.einsum("ii...->i...", wanted))
    while d.ndim > 1:
        d = d.max(axis=-1)
    size = np.sqrt(np.multiply.outer(d, d)).reshape(len(d), len(d), *(1,) * (wanted.ndim - 2))
    return float((np.abs(found - wanted) / np.maximum(np.abs(wanted), 1e-3 * size)).max())


def high(compute: Callable[..., Pair], X: np.ndarray) -> Callable[[], Pair]:
    """A recursion on the data in 40 digits."""

    def reference() -> Pair:
        with mpmath.workdps(40):
            return R.floats(compute(R.high(X)))

    return reference


# -- activations as a user writes them --------------------------------------------------------------

QUARTER = Fraction(1, 4)
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "relu": lambda x: tp.relu(x),
    "leaky_relu": lambda x: tp.leaky_relu(x, slope=QUARTER),
    "abs": lambda x: tp.abs(x),
    "u_plus_relu": lambda x: x + tp.relu(x),
    "step": lambda x: tp.step(x),
    "sign": lambda x: tp.sign(x),
    "erf": lambda x: tp.erf(x),
    "gelu": lambda x: tp.gelu(x),
    "sin": lambda x: tp.sin(x),
    "cos": lambda x: tp.cos(x),
    "exp_quarter": lambda x: tp.exp(x / 4),
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "tanh": lambda x: tp.tanh(x),
    "sigmoid": lambda x: tp.sigmoid(x),
    "softplus": lambda x: tp.softplus(x),
    "swish": lambda x: x * tp.sigmoid(x),
    "tanh_relu": lambda x: tp.tanh(tp.relu(x)),
    "softplus_abs": lambda x: tp.softplus(tp.abs(x)),
}


def is_exact(*names: str) -> bool:
    """Whether all means have closed forms."""
    return all(name in duals.CLOSED for name in names)


def embed(ξ: Any, U: Any) -> Any:
    """The first layer, one row a feature of the data: Σ U ξ/√d."""
    return tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))


def dyadic(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers with few binary digits, so that multiples of them are exact."""
    return np.round(np.random.default_rng(seed).standard_normal(shape) * 256) / 256


def rows(seed: int = 0, d: int = 6) -> np.ndarray:
    """Two generic inputs, then one equal to the first, its opposite, a multiple of it, and one 1e-8 away from it."""
    x, y, e = dyadic(seed, 3, d)
    return np.stack([x, y, x, -x, 1.5 * x, x + 1e-8 * e])


def suitable(*names: str) -> np.ndarray:
    """`rows()` where the reference is sharp on them: in extended precision, or for functions without kinks."""
    return rows() if is_exact(*names) or all(name in duals.SMOOTH for name in names) else dyadic(1, 4, 6)


# -- perceptrons -------------------------------------------------------------------------------------


def mlp(depth: int, name: str, σw: float, σb: float) -> tp.Program:
    """`depth` hidden layers and a linear readout, with biases unless σb = 0."""
    φ = ACTIVATIONS[name]

    @tp.network
    def plain(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = φ(σw * embed(ξ, U))
        for i in range(depth - 1):
            x = φ(σw * (W.sel(layer=i) @ x))
        return tp.readout(σw * v * x)

    @tp.network
    def biased(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "layer"],
        b: tp.Vector["depth"],
        v: tp.Vector,
        c: tp.Scalar,
    ):
        x = φ(σw * embed(ξ, U) + σb * b.sel(depth=0))
        for i in range(depth - 1):
            x = φ(σw * (W.sel(layer=i) @ x) + σb * b.sel(depth=i + 1))
        return tp.readout(σw * v * x) + σb * c

    return biased.bind(layer=max(depth - 1, 1), depth=depth) if σb else plain.bind(layer=max(depth - 1, 1))


def mlp_kernels(X: np.ndarray, depth: int, name: str, σw: float, σb: float) -> Pair:
    """The recursion of Lee et al. 2018 and Jacot et al. 2018."""
    x = R.data(X[:, None, :])
    for _ in range(depth):
        x = R.activation(R.dense(x, σw, σb), name)
    return R.output(x, σw, σb)


SETTINGS = ((1.0, 0.0), (1.5, 0.25), (1.25, 0.5), (0.75, 1.0))
TWELVE = (
    *("relu", "leaky_relu", "abs", "erf", "gelu", "sin", "cos", "exp_quarter", "square"),
    *("tanh", "softplus", "swish"),
)


def perceptron(name: str, depth: int, σw: float, σb: float, ntk: bool = True) -> Case:
    """One fully connected case."""
    X, exact = suitable(name), is_exact(name)

    def compute(X: np.ndarray) -> Pair:
        return mlp_kernels(X, depth, name, σw, σb)

    reference = high(compute, X) if exact else lambda: compute(X)
    return Case(
        f"mlp-{name}-{depth}-{σw}-{σb}",
        lambda: mlp(depth, name, σw, σb),
        {"ξ": X},
        reference,
        exact=exact,
        ntk=ntk,
    )


def perceptrons() -> list[Case]:
    """Twelve activations, four depths, four settings; and some more activations."""
    cases = [perceptron(a, L, *s) for a in TWELVE for L in (1, 2, 3, 4) for s in SETTINGS]
    cases += [perceptron(a, L, *SETTINGS[1]) for a in ("identity", "cube", "sigmoid") for L in (1, 2)]
    cases += [perceptron(a, L, *SETTINGS[1]) for a in ("u_plus_relu", "tanh_relu", "softplus_abs") for L in (1, 2, 3)]
    cases += [perceptron(a, L, *s, ntk=False) for a in ("sign", "step") for L in (1, 2, 3) for s in SETTINGS[:2]]
    return [*cases, perceptron("relu", 20, 1.5, 0.25)]
