"""Random blocks of deep networks with logits of order 1, and the same networks at finite width by hand.

A block is one text, read twice: with the functions of the package, and with those of NumPy on draws of queries and
keys.
Values are averaged over beforehand, E[V′ | S] = … A V Aᵀ, so that the noise of a layer, √n times its drift, is none.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

import tplimits as tp


class Plain:
    """The functions of the language on arrays."""

    tanh, sin, cos, exp, abs, sign = np.tanh, np.sin, np.cos, np.exp, np.abs, np.sign
    maximum, sqrt, log, erf, sigmoid = np.maximum, np.sqrt, np.log, scipy.special.erf, scipy.special.expit

    @staticmethod
    def relu(x):
        return np.maximum(x, 0.0)

    @staticmethod
    def step(x):
        return np.where(x > 0, 1.0, 0.0)

    @staticmethod
    def gelu(x):
        return x * scipy.special.ndtr(x)

    @staticmethod
    def softplus(x):
        return np.logaddexp(0.0, x)


_HEADS = ("tanh", "sin", "relu", "abs", "sign", "step", "sigmoid", "gelu", "softplus", "erf", "cos")


def _argument(rng: random.Random, leaves: list[str]) -> str:
    a, b = rng.choice(leaves), rng.choice(leaves)
    apart = f"{a} - {b}" if a != b else f"{a} - 0.5"
    return rng.choice((a, a, f"2 * {a} + 0.3", f"0.5 * {a} - 0.6", apart, apart, f"-1.2 * {a}"))


def _function(rng: random.Random, leaves: list[str], depth: int) -> str:
    if depth == 0:
        return rng.choice(leaves)
    inner, other = _function(rng, leaves, depth - 1), _function(rng, leaves, depth - 1)
    a, b = _argument(rng, leaves), rng.choice(leaves)
    kinds = {
        f"o.{rng.choice(_HEADS)}({a})": 6,
        f"({inner}) * ({other})": 2,
        f"-1.5 * ({inner}) + ({other})": 3,
        f"o.maximum({inner}, {rng.choice(('0.4', '-0.3', b))})": 2,
        f"({a}) ** {rng.choice((2, 3))}": 1,
        f"({inner}) / (1 + ({a}) ** 2)": 1,
        f"o.exp({rng.choice((0.5, -0.7))} * {b})": 1,
        f"{b} * o.log(o.abs({b}))": 1,
        f"o.{rng.choice(('tanh', 'sign', 'relu'))}({inner})": 1,
    }
    return rng.choices([*kinds], [*kinds.values()])[0]


@dataclass(frozen=True)
class Case:
    """A block as text, what stands in it, and where it is looked at."""

    source: str
    functions: tuple[str, str]
    beside: bool
    V: np.ndarray
    bias: np.ndarray
    heads: int
    ratio: float

    def block(self) -> Any:
        """The block as a program."""
        names: dict[str, Any] = {"tp": tp, "o": tp, "bias": self.bias, "slopes": _SLOPES}
        exec(self.source, names)
        return names["block"]

    def networks(self, n: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """n E[V′ − V] of one layer of width n with its standard error, from so many draws and their mirror images."""
        k, heads = round(self.ratio * n), max(1, self.heads)
        values, vectors = np.linalg.eigh(self.V)
        root = vectors * np.sqrt(values.clip(0.0))
        # equal tokens have equal logits, where rounding would pass a jump of their difference
        same = np.abs(self.V[:, None] - self.V[None]).max(axis=-1) < 1e-12
        root = root[same.argmax(axis=1)]
        drawn = rng.standard_normal((4, count * heads, k, len(root))) @ root.T
        S, Z = (np.swapaxes(drawn[i], 1, 2) @ drawn[i + 1] / np.sqrt(k) for i in (0, 2))
        S, Z = (a.reshape(count, heads, *self.V.shape) for a in (S, Z))
        found = np.mean([self._layer(a * S, b * Z, n) for a in (1, -1) for b in (1, -1)], axis=0)
        return found.mean(axis=0), found.std(axis=0) / np.sqrt(count)

    def _layer(self, S: np.ndarray, Z: np.ndarray, n: int) -> np.ndarray:
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        slopes = np.array(_SLOPES)[:, None, None] if self.heads else 1.0
        known = {"o": Plain, "S": S, "Z": Z, "R": S.sum(axis=-1, keepdims=True), "B": self.bias, "C": slopes}
        known["P"] = E / E.sum(axis=-1, keepdims=True)
        F, G = (np.broadcast_to(eval(text, dict(known)), S.shape) for text in self.functions)
        A, V = (F / np.sqrt(n) + G / n, self.V) if self.beside else (F, self.V)
        squares = A @ V @ np.swapaxes(A, -1, -2)
        if self.beside:
            squares = 0.36 * n / max(1, self.heads) * (A @ V + V @ np.swapaxes(A, -1, -2) + squares)
        return squares.sum(axis=1)


_SLOPES = (0.5, -1.5)


def case(seed: int) -> Case:
    """A block from one integer: arguments in any order, heads, biases, slopes, tied tokens, keys of another width."""
    rng = random.Random(seed)
    m, heads, beside, ratio = rng.choice((2, 2, 3)), rng.choice((0, 0, 2)), rng.random() < 0.35, rng.choice((0.5, 1, 2))
    root = np.array([[rng.gauss(0, 1) for _ in range(m + 1)] for _ in range(m)])
    V = root @ root.T
    V *= rng.choice((0.5, 1.0, 1.3)) / np.diag(V).mean()
    if rng.random() < 0.15:
        V[-1], V[:, -1] = V[0].copy(), V[:, 0].copy()
        V[-1, -1] = V[0, 0]
    more = [leaf for leaf, chance in (("Z", 0.5), ("R", 0.3), ("(S + B)", 0.35), ("P", 0.3)) if rng.random() < chance]
    leaves = ["S", *more, *(["(C * S)"] if heads and rng.random() < 0.4 else [])]
    if (
        beside
    ):  # odd at order n^(−1/2), or the means would add up; even at order 1/n, so that nothing is of order n^(−1/2)
        f, g = _function(rng, ["S"], 2), _function(rng, ["S"], 1)
        F, G = f"({f}) - ({_mirrored(f)})", f"({g}) + ({_mirrored(g)})"
    else:
        F, G = _function(rng, leaves, 2), "0"
    bias = np.array([[round(rng.gauss(0, 1), 2) for _ in range(m)] for _ in range(m)])
    return Case(_source(rng, F, G, heads, beside), (F, G), beside, V, bias, heads, ratio)


def _mirrored(text: str) -> str:
    return text.replace("S", "(-S)")


def _source(rng: random.Random, F: str, G: str, heads: int, beside: bool) -> str:
    axes, v = ('["k", "n", "head"]', '["n", "n", "head"]') if heads else ('["k", "n"]', '["n", "n"]')
    used = {name for name in "SZRBCP" if name in F + G}
    lines = {
        "S": "S = tp.sqrt(tp.width('k')) * tp.avg((WQ @ x) * (WK @ x).rename(token='key'))",
        "Z": "Z = tp.sqrt(tp.width('k')) * tp.avg((YQ @ x) * (YK @ x).rename(token='key'))",
        "R": "R = tp.sum(S.rename(key='other'), over='other')",
        "B": "B = tp.constant(bias, axes=('token', 'key'))",
        "C": "C = tp.constant(slopes, axes=('head',))",
        "P": "P = tp.softmax(S, over='key')",
    }
    used |= {"S"} if used & {"R", "P"} else set()
    matrices = [("WV", v), *((w, axes) for name, pair in (("S", "WQ WK"), ("Z", "YQ YK")) if name in used
                             for w in pair.split())]  # fmt: skip
    rng.shuffle(matrices)
    weights = f"(({F}) / tp.sqrt(tp.n) + ({G}) / tp.n)" if beside else f"({F})"
    branch = f"tp.sum({weights} * (WV @ x).rename(token='key'), over='key')"
    branch = f"(WV @ x + {branch})" if beside else branch
    branch = f"tp.sum({branch}, over='head')" if heads else branch
    scale = f"0.8 * x + 0.6 / tp.sqrt({max(1, heads)})" if beside else "x + 1 / tp.sqrt(tp.n)"
    return "\n".join((
        "@tp.block",
        f"def block(x: tp.State['token'], {', '.join(f'{name}: tp.Matrix{kind}' for name, kind in matrices)}):",
        *(f"    {lines[name]}" for name in "SZRBCP" if name in used),
        f"    return {scale} * {branch}",
    ))  # fmt: skip
