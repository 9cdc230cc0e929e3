"""Steps of optimizers in NumPy, with nothing of the package's formulas: networks of the fuzz move by these.

The text of a regime, `tp.MaximalUpdate({'U': tp.Adam(eps=0.1), …}, weight_decay=0.1)`, is read with these names for
`tp` and NumPy's functions for `sympy`.  With s = 0 (maximal update) or ½ (neural tangent) and n the width of the
readout,

    W ← (1 − λ) W − η n^(−s) Q(n^(1−s) ∂L/∂W)/columns        a vector is not divided, a scalar is not scaled either
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar
from tplimits.regimes.training.finite import networks

Memory = dict[str, Any]
#: of one parameter: step number, what is remembered, gradient, the parameter and what it is, n
Step = Callable[[int, Memory, Any, "Parameter"], Any]


@dataclass
class Parameter:
    """What norms are taken of: its kind, its value with draws first, and n."""

    kind: str
    value: Any
    n: float

    def norm(self, of: Any) -> Any:
        """The root of the sum of squares, of each matrix of a family alone, divided by n, √n or 1."""
        axes = (-2, -1) if self.kind == "matrix" else tuple(range(1, of.ndim))
        return (
            np.sqrt((of**2).sum(axis=axes, keepdims=True))
            / self.n ** {"matrix": 1, "vector": 0.5, "scalar": 0}[self.kind]
        )


def _mean(memory: Memory, name: str, share: float, new: Any) -> Any:
    memory[name] = share * memory.get(name, 0.0) + (1 - share) * new
    return memory[name]


def sgd(momentum: float = 0.0) -> Step:
    def step(t: int, memory: Memory, g: Any, w: Parameter) -> Any:
        memory["m"] = momentum * memory.get("m", 0.0) + g
        return memory["m"]

    return step


def _quotient(m: Any, v: Any, eps: float, convention: str) -> Any:
    return m / (np.sqrt(v) + eps) if convention == "torch" else m / np.sqrt(v + eps**2)


def adam(eps: float, convention: str = "inside", ahead: bool = False, β1: float = 0.9, β2: float = 0.999) -> Step:
    def step(t: int, memory: Memory, g: Any, w: Parameter) -> Any:
        m, v = _mean(memory, "m", β1, g), _mean(memory, "v", β2, g**2) / (1 - β2 ** (t + 1))
        first = β1 * m / (1 - β1 ** (t + 2)) + (1 - β1) * g / (1 - β1 ** (t + 1)) if ahead else m / (1 - β1 ** (t + 1))
        return _quotient(first, v, eps, convention)

    return step


def sign_sgd(eps: float = 0.0) -> Step:
    return lambda t, memory, g, w: g / np.sqrt(g**2 + eps**2) if eps else np.sign(g)


def rms_prop(eps: float) -> Step:
    return lambda t, memory, g, w: g / np.sqrt(_mean(memory, "v", 0.99, g**2) + eps**2)


def adagrad(eps: float) -> Step:
    def step(t: int, memory: Memory, g: Any, w: Parameter) -> Any:
        memory["v"] = memory.get("v", 0.0) + g**2
        return g / np.sqrt(memory["v"] + eps**2)

    return step


def adafactor(eps: float, ρ: float = 0.999) -> Step:
    def step(t: int, memory: Memory, g: Any, w: Parameter) -> Any:
        left = 1 - ρ ** (t + 1)
        if w.kind != "matrix":
            return g / np.sqrt(_mean(memory, "v", ρ, g**2) / left + eps**2)
        r = _mean(memory, "r", ρ, (g**2).mean(axis=-1, keepdims=True)) / left
        c = _mean(memory, "c", ρ, (g**2).mean(axis=-2, keepdims=True)) / left
        return g / np.sqrt(r * c / r.mean(axis=-2, keepdims=True) + eps**2)

    return step


def normalized(inner: Step, by: str = "update") -> Step:
    def step(t: int, memory: Memory, g: Any, w: Parameter) -> Any:
        q = inner(t, memory, g, w)
        if by == "update":
            return q / np.where((size := w.norm(q)) > 0, size, 1.0)
        # what is trained is √n-times a matrix whose entries are N(0, 1/n): ‖w‖/n is √(Σ W²/n)
        return q / (w.norm(w.value) * (w.n**0.5 if w.kind == "matrix" else 1.0))

    return step


def clipped(inner: Step, threshold: float) -> Step:
    def step(t: int, memory: Memory, g: Any, w: Parameter) -> Any:
        q = inner(t, memory, g, w)
        return q / np.maximum(w.norm(q), threshold)

    return step


def entrywise(Q: Callable[..., Any], states: Mapping[str, Callable[..., Any]] | None = None) -> Step:
    def called(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
        return function(*(known[name] for name in inspect.signature(function).parameters))

    def step(t: int, memory: Memory, g: Any, w: Parameter) -> Any:
        before = {name: memory.get(name, np.zeros_like(g)) for name in states or {}}
        memory.update({k: called(f, {**before, "g": g, "t": t}) for k, f in (states or {}).items()})
        return called(Q, {**memory, "g": g, "t": t})

    return step


@dataclass
class Written:
    """A regime as it is written: s, one optimizer or several by name, decays."""

    s: float
    optimizer: Any
    weight_decay: Any = 0.0

    def of(self, what: Any, name: str) -> Any:
        return what[name] if isinstance(what, Mapping) else what


NAMES = {
    "tp": SimpleNamespace(
        MaximalUpdate=lambda *a, **k: Written(0.0, *a, **k),
        NeuralTangent=lambda *a, **k: Written(0.5, *a, **k),
        SGD=sgd,
        Adam=adam,
        NAdam=lambda eps: adam(eps, ahead=True),
        SignSGD=sign_sgd,
        RMSProp=rms_prop,
        Adagrad=adagrad,
        Adafactor=adafactor,
        Normalized=normalized,
        Clipped=clipped,
        Entrywise=entrywise,
        Frozen=lambda: lambda t, memory, g, w: np.zeros_like(g),
    ),
    "sympy": SimpleNamespace(tanh=np.tanh, Max=np.maximum, Min=np.minimum, Abs=np.abs, sqrt=np.sqrt, sign=np.sign),
}


@dataclass
class Steps:
    """What moves networks: in the place of the package's own updates."""

    written: Written
    lr: float
    kinds: Mapping[str, str]
    columns: Mapping[str, int]
    n: float
    memory: dict[str, Memory] = field(default_factory=dict)

    def step(self, t: int, gradient: Callable[[str], Any], held: dict[str, Any]) -> None:
        """Move all parameters by their gradients ∂L/∂W, draws first."""
        gradients = {name: gradient(name) for name in self.kinds}
        for name, kind in self.kinds.items():
            s = self.written.s if kind != "scalar" else 1.0
            g = self.n ** (1 - s) * gradients[name]
            w = Parameter(kind, held[name], self.n)
            q = self.written.of(self.written.optimizer, name)(t, self.memory.setdefault(name, {}), g, w)
            rate = self.lr * (self.n**-s if kind != "scalar" else 1.0) / self.columns.get(name, 1)
            held[name] = (1 - self.written.of(self.written.weight_decay, name)) * held[name] - rate * q


def steps(text: str, lr: float, recipe: Any, widths: Mapping[str, int]) -> Steps:
    """The steps of a regime's text for the parameters of a recipe."""
    net = recipe.net
    found = {name: net[net.initial_names[name]] for name in recipe.optimizers}
    kinds = {
        name: "matrix" if isinstance(s, InitialMatrix) else "scalar" if isinstance(s, InitialScalar) else "vector"
        for name, s in found.items()
    }
    columns = {name: widths[s.columns] for name, s in found.items() if kinds[name] == "matrix"}
    n = float(widths[net[net.returns[0]].width or "n"])
    return Steps(eval(text, dict(NAMES)), lr, kinds, columns, n)


@contextmanager
def written_out(text: str, lr: float) -> Iterator[None]:
    """Networks of finite width move by these steps; compiled ones, which have their own, are not used."""
    with (
        mock.patch.object(networks, "updates", lambda recipe, widths: steps(text, lr, recipe, widths)),
        mock.patch.object(networks, "is_worth", lambda held, count: False),
    ):
        yield
