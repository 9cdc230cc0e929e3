"""Perceptrons of finite width trained with their true matrices, in plain NumPy: the oracle of training limits.

    h¹ = U ξ,  xˡ = φ(hˡ),  hˡ⁺¹ = Wˡ xˡ,  f = v·x^L/n^(1−s),   U, v ~ N(0, 1),  W ~ N(0, 1/n)

Gradients are multiplied so that their entries are of order 1, a vector moves by n^(−s) of what the optimizer says, a
matrix by 1/n of that: the maximal update parametrization for s = 0, the neural tangent one for s = ½, where W = w/√n
and n ∂f/∂w = dh ⊗ x.  Nothing here comes from the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ENTRIES = 1 << 15  # as many at a time stay in the cache with what an optimizer remembers of them
#: matrices of so many rows are in single precision: rounding is far below what networks differ by, and half the time
_SINGLE = 512


@dataclass
class SGD:
    """w ← w − η g, with momentum."""

    momentum: float = 0.0

    def start(self, shape, dtype=np.float64):
        return [np.zeros(shape, dtype)] if self.momentum else []

    def step(self, t, state, g):
        if self.momentum:
            state[0] *= self.momentum
            state[0] += g
            g[...] = state[0]
        return g


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
        g *= g
        g *= 1 - self.β2
        v += g
        c1, c2 = (1 - self.β1 ** (t + 1), 1 - self.β2 ** (t + 1)) if self.corrected else (1.0, 1.0)
        np.divide(v, c2, out=g)
        g += self.eps**2
        np.sqrt(g, out=g)
        np.divide(m, g, out=g)
        g /= c1
        return g


class _Weights:
    def __init__(self, value, optimizer, scale=1.0):
        self.value, self.optimizer, self.scale = value, optimizer, scale
        self.state = optimizer.start(value.shape, value.dtype)

    @classmethod
    def matrix(cls, value, optimizer):
        """n × n weights, whose updates are divided by n."""
        return cls(value.astype(_precision(len(value))), optimizer, 1 / len(value))

    def times(self, x, transposed=False):
        """The matrix times columns."""
        return _times(self.value.T if transposed else self.value, x)

    def step(self, t, left, right, lr, decay):
        """The gradient is left @ right; it is made a few rows at a time."""
        left, right = (np.asarray(side, self.value.dtype) for side in (left, right))
        many = max(1, _ENTRIES // self.value.shape[1])
        for first in range(0, len(self.value), many):
            rows = slice(first, first + many)
            moved = self.optimizer.step(t, [s[rows] for s in self.state], left[rows] @ right)
            moved *= lr * self.scale
            if decay:
                self.value[rows] *= 1 - decay
            self.value[rows] -= moved


def _precision(n):
    return np.float32 if n >= _SINGLE else np.float64


def _times(W, x):
    """A matrix times columns, in its precision."""
    return (W @ x.astype(W.dtype, copy=False)).astype(np.float64, copy=False)


def drawn(n, inputs, depth, rng):
    """U, the matrices and v of a network, standard normal, entries of matrices divided by √n."""
    U = rng.standard_normal((n, inputs))
    Ws = [(rng.standard_normal((n, n)) / np.sqrt(n)).astype(_precision(n)) for _ in range(depth - 1)]
    return U, Ws, rng.standard_normal(n)


def train(X, y, n, optimizer, lr, steps, rng, depth=2, decay=0.0, batch=None, tied=False, antithetic=True):
    """f (steps + 1, inputs) with φ = tanh and χ = (f − y)/B on the first `batch` inputs.

    `tied` uses one matrix in all hidden layers.  `antithetic` averages two networks with readouts v and −v, which takes
    the noise of f_0 out of the mean.
    """
    U, Ws, v = drawn(n, X.shape[1], 2 if tied else depth, rng)
    signs = (1, -1) if antithetic else (1,)
    χ_on = (np.arange(len(X)) < (len(X) if batch is None else batch)).astype(float)
    more = {"depth": depth, "decay": decay, "tied": tied, "trained": χ_on}
    return np.mean([train_from(U, Ws, s * v, X, y, optimizer, lr, steps, **more) for s in signs], axis=0)


def forward(U, Ws, v, X, s=0.0, k=1.0):
    """f of a network with one matrix a layer, all of its weights times k."""
    x = np.tanh(k * (U @ X.T))
    for W in Ws:
        x = np.tanh(k * _times(W, x))
    return k * (v @ x) / len(v) ** (1 - s)


def train_apart(weights, X, y, optimizer, lr, steps, decay=0.0, batch=None, s=0.0):
    """f − f^dec (steps + 1, inputs), f^dec the outputs at (1 − λ)^t times the initial weights, which χ does not see."""
    without = np.array([forward(*weights, X, s, (1 - decay) ** t) for t in range(steps + 1 if decay else 1)])
    if not decay:
        without = np.repeat(without, steps + 1, axis=0)
    marks = (np.arange(len(X)) < (len(X) if batch is None else batch)).astype(float)
    more = {"depth": len(weights[1]) + 1, "decay": decay, "trained": marks, "s": s, "without": without}
    return train_from(*weights, X, y, optimizer, lr, steps, **more) - without


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
        if t == steps:
            break
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
