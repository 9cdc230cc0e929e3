"""Perceptrons of finite width trained with their true matrices, in plain NumPy: the oracle of training limits.

    h¹ = U ξ,  xˡ = φ(hˡ),  hˡ⁺¹ = Wˡ xˡ,  f = v·x^L/n^(1−s),   U, v ~ N(0, 1),  W ~ N(0, 1/n)

Gradients are multiplied so that their entries are of order 1, a vector moves by n^(−s) of what the optimizer says, a
matrix by 1/n of that: the maximal update parametrization for s = 0, the neural tangent one for s = ½, where W = w/√n
and n ∂f/∂w = dh ⊗ x.  Nothing here comes from the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ROWS = 64  # a few rows at a time stay in the cache
#: matrices of so many rows are in single precision: rounding is far below what networks differ by, and half the time
_SINGLE = 512


@dataclass
class SGD:
    """w ← w − η g, with momentum."""

    momentum: float = 0.0

    def start(self, shape, dtype=np.float64):
        return [np.zeros(shape, dtype)]

    def step(self, t, state, g):
        state[0][...] = self.momentum * state[0] + g
        return state[0]


@dataclass
class Adam:
    """m̂/√(v̂ + ε²)."""

    eps: float
    β1: float = 0.9
    β2: float = 0.999
    corrected: bool = True

    def start(self, shape, dtype=np.float64):
        return [np.zeros(shape, dtype), np.zeros(shape, dtype)]

    def step(self, t, state, g):
        m, v = state
        m *= self.β1
        m += (1 - self.β1) * g
        v *= self.β2
        v += (1 - self.β2) * g**2
        c1, c2 = (1 - self.β1 ** (t + 1), 1 - self.β2 ** (t + 1)) if self.corrected else (1.0, 1.0)
        return m / c1 / np.sqrt(v / c2 + self.eps**2)


class _Weights:
    def __init__(self, value, optimizer, scale=1.0):
        self.value, self.optimizer, self.scale = value, optimizer, scale
        self.state = optimizer.start(value.shape, value.dtype)

    @classmethod
    def matrix(cls, value, optimizer):
        """n × n weights, whose updates are divided by n."""
        single = len(value) >= _SINGLE
        return cls(value.astype(np.float32) if single else value.copy(), optimizer, 1 / len(value))

    def times(self, x, transposed=False):
        """The matrix times columns."""
        value = self.value.T if transposed else self.value
        return (value @ x.astype(value.dtype, copy=False)).astype(np.float64, copy=False)

    def step(self, t, left, right, lr, decay):
        """The gradient is left @ right; it is made a few rows at a time."""
        left, right = (np.asarray(side, self.value.dtype) for side in (left, right))
        for first in range(0, len(self.value), _ROWS):
            rows = slice(first, first + _ROWS)
            moved = self.optimizer.step(t, [s[rows] for s in self.state], left[rows] @ right)
            self.value[rows] *= 1 - decay
            self.value[rows] -= lr * self.scale * moved


def train(X, y, n, optimizer, lr, steps, rng, depth=2, decay=0.0, batch=None, tied=False, antithetic=True):
    """f (steps + 1, inputs) with φ = tanh and χ = (f − y)/B on the first `batch` inputs.

    `tied` uses one matrix in all hidden layers.  `antithetic` averages two networks with readouts v and −v, which takes
    the noise of f_0 out of the mean.
    """
    U = rng.standard_normal((n, X.shape[1]))
    Ws = [rng.standard_normal((n, n)) / np.sqrt(n) for _ in range(1 if tied else depth - 1)]
    v = rng.standard_normal(n)
    signs = (1, -1) if antithetic else (1,)
    χ_on = (np.arange(len(X)) < (len(X) if batch is None else batch)).astype(float)
    more = {"depth": depth, "decay": decay, "tied": tied, "trained": χ_on}
    return np.mean([train_from(U, Ws, s * v, X, y, optimizer, lr, steps, **more) for s in signs], axis=0)


def forward(U, Ws, v, X, s=0.0):
    """f of a network with one matrix a layer."""
    x = np.tanh(U @ X.T)
    for W in Ws:
        x = np.tanh(_Weights.matrix(W, SGD()).times(x))
    return v @ x / len(v) ** (1 - s)


def train_apart(X, y, n, optimizer, lr, steps, rng, depth=2, decay=0.0, batch=None, s=0.0):
    """f − f^dec (steps + 1, inputs), f^dec the outputs at (1 − λ)^t times the initial weights, which χ does not see."""
    U = rng.standard_normal((n, X.shape[1]))
    Ws = [rng.standard_normal((n, n)) / np.sqrt(n) for _ in range(depth - 1)]
    v = rng.standard_normal(n)
    kept = [(1 - decay) ** t for t in range(steps + 1 if decay else 1)]
    without = np.array([forward(k * U, [k * W for W in Ws], k * v, X, s) for k in kept])
    if not decay:
        without = np.repeat(without, steps + 1, axis=0)
    marks = (np.arange(len(X)) < (len(X) if batch is None else batch)).astype(float)
    more = {"depth": depth, "decay": decay, "trained": marks, "s": s, "without": without}
    return train_from(U, Ws, v, X, y, optimizer, lr, steps, **more) - without


def train_from(U, Ws, v, X, y, optimizer, lr, steps, trained, depth=2, decay=0.0, tied=False, s=0.0, without=None):
    """f (steps + 1, inputs) from given weights, with χ = (f − y)/B on the inputs that `trained` marks by 1.

    `without` (steps + 1, inputs) is taken from the f that χ sees.
    """
    n = len(v)
    lr = lr / n**s
    inputs = _Weights(U.copy(), optimizer)
    hidden = [_Weights.matrix(W, optimizer) for W in Ws]
    readout = _Weights(v[:, None].copy(), optimizer)
    layers = [hidden[0]] * (depth - 1) if tied else hidden
    out = []
    for t in range(steps + 1):
        x = [np.tanh(inputs.value @ X.T)]
        for W in layers:
            x.append(np.tanh(W.times(x[-1])))
        f = readout.value[:, 0] @ x[-1] / n ** (1 - s)
        out.append(f)
        seen = f if without is None else f - without[t]
        χ = trained * (seen - np.nan_to_num(y)) / trained.sum()
        dx = np.repeat(readout.value, len(X), axis=1)
        gradients = {id(W): ([], []) for W in hidden}
        for W, below, above in zip(reversed(layers), reversed(x[:-1]), reversed(x[1:]), strict=True):
            dh = (1 - above**2) * dx
            gradients[id(W)][0].append(dh * χ)
            gradients[id(W)][1].append(below.T)
            dx = W.times(dh, transposed=True)
        dh = (1 - x[0] ** 2) * dx
        readout.step(t, x[-1] * χ, np.ones((len(X), 1)), lr, decay)
        for W in hidden:
            left, right = gradients[id(W)]
            W.step(t, np.concatenate(left, axis=1), np.concatenate(right), lr, decay)
        inputs.step(t, dh * χ, X, lr, decay)
    return np.array(out)


def mean_and_error(runs):
    """Mean over networks and its standard error."""
    runs = np.asarray(runs)
    return runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
