"""Public functions called with arguments of which one or two are not what they take.

`CALLS` holds a right call of every public function; a test compares it with docs/api.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sympy

import tplimits as tp
from attack import subjects
from attack.subjects import SMALL, X, Y, mlp, small, tied, tokens

Right = tuple[Callable[..., Any], dict[str, Any]]
V0 = np.eye(2)
_FAILS, _CIRCLE = type("Odd", (str,), {"__repr__": lambda _: 1 / 0})("c"), list[Any]()
_CIRCLE.append(_CIRCLE)
TRAINED = {"X": X, "error": tp.squared_error(Y), **SMALL}
#: what stands where something else belongs
VALUES: tuple[Callable[[], Any], ...] = tuple(
    (lambda v=v: v)
    for v in (
        None, True, False, -1, 0, 1, 3, 10**30, -(10**30), 1.5, -0.5, float("nan"), float("inf"), -float("inf"), 1e-320, 1e308,
        1j, "", "x", "d", "W", "\0", "\u202e", "x" * 5000, b"raw", (), [], {}, set(), [[]], [None], ["a"], {"x": 1}, {1: 2},
        {"d": -1}, {"c": float("nan")}, {"c": "x"}, object(), int, len, print, range(3), Fraction(1, 3), sympy.Symbol("q"), sympy.oo,
        sympy.nan, sympy.I, sympy.sqrt(2), np.nan, np.float32(2), np.int8(-3), np.array(np.nan), np.zeros(0), np.zeros((0, 2)),
        np.zeros((3, 2)), np.full((3, 2), np.nan), np.full((3, 2), np.inf), np.full((3, 2), 1e200), np.ones((3, 2), complex),
        np.ones((3, 2), object), np.array(["a", "b"]), np.ones((2, 3)), np.ones((3, 2, 1)), np.ones(3), np.ones((2, 2)), X.astype(np.float32),
        X.astype(int), -np.eye(2), np.arange(3), ("n",), ("x", "x"), (1, 2), (-1, 2), (64, 64), ("token",), lambda: 1, lambda x: x,
        lambda x: float("nan"), lambda x: "x", lambda x, t: x, lambda *a: None, tp.Adam(), tp.MUP, tp.tanh, tied, small, tp.inf, 1 << 62, 0.0,
        Ellipsis, NotImplemented, slice(3), "psd", "auto", "exact", "particles", "ntk", Exception("x"), np.datetime64("2000"),
        type("Odd", (), {"__array__": lambda *_: 1 / 0})(), type("Odd", (), {"__float__": lambda *_: 1 / 0})(),
        type("Odd", (), {"__eq__": lambda *_: 1 / 0, "__hash__": lambda *_: 1})(),
        type("Odd", (), {"__len__": lambda *_: -1})(), type("Odd", (), {"__iter__": lambda *_: 1 / 0})(), type("Odd", (str,), {})("x"),
        type("Odd", (), {"__repr__": lambda _: 1 / 0})(), type("Odd", (str,), {"__repr__": lambda _: 1 / 0})("x"),
        type("Odd", (), {"__index__": lambda _: 1 / 0})(), type("Odd", (), {"__bool__": lambda _: 1 / 0})(), [type("Odd", (), {"__repr__": lambda _: 1 / 0})()],
        10**400, -(10**400), "3", "\ud800", b"3", [[[1, 2], [3, 4]]], [[1, 2], [3]], np.bool_(True), np.uint8(2), np.float32("nan"), np.array(2),
        range(10**6), np.broadcast_to(1.0, (10**6, 10**6)), np.zeros(2, [("a", float)]), np.ma.masked_array([1.0, 2.0], [True, False]),
        memoryview(b"abc"), Decimal("0.5"), Decimal("sNaN"), math, (float("nan"),), {"lr": 1j}, np.datetime64("NaT"),
        range(10**9), [range(10**9)], [[[1, 2], [3, 4]], [[1, 2], [3, 4]]], "\x1b[31m", "a\nb", "0.5", -0.0, type, iter(()), partial(print),
        type("Odd", (int,), {"__repr__": lambda _: 1 / 0})(3),
        type("Odd", (dict,), {"items": lambda _: 1 / 0, "__getitem__": lambda *_: 1 / 0})(a=1), {"c": _FAILS}, {_FAILS: 1}, [1],
        type("Odd", (), {"__repr__": lambda _: "z" * 10**6})(), type("Odd", (), {"__repr__": lambda _: "\x1b[31m\u202e"})(),
        type("Odd", (), {"__hash__": None, "__eq__": lambda *_: True})(), (_ for _ in range(3)), {"token": -1}, sympy.Rational(1, 2), _CIRCLE,
    )
)  # fmt: skip


def traced(function: Callable[..., Any], kind: Any = tp.Vector) -> Callable[..., Any]:
    """A call inside of a program: `function(x, **given)` of a vector x, or of a family of four."""

    def run(**given: Any) -> Any:
        def body(x):
            return tp.avg(function(x, **given))

        body.__annotations__ = {"x": kind}
        made = tp.program(body)
        sizes = {axis: 4 for axis in made.all_axes if made.size(axis) is None}
        made = made.bind(**sizes) if sizes else made
        return tp.derive(made).evaluate("auto", particles=64, replicates=2) if len(made) < 20 else None

    return run


def _optimizer(make: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer, printed and run for a step."""

    def run(**given: Any) -> Any:
        made = make(**given)
        str(made)
        if made.open_symbols or not made.is_entrywise:
            return None
        step = made.stepper()
        step.step(0, step.start((2,)), np.ones(2))
        return None

    return run


def calls() -> dict[str, Right]:
    """Right calls by the names in docs/api.md."""
    w, k, f, o, d = (
        make() for make in (subjects.width, subjects.kernels, subjects.feature, subjects.operator, subjects.depth)
    )
    r, tokenwise = subjects.recording(), tp.Vector["token"]
    t, paths, e, run = subjects.tangent(), subjects.paths(), subjects.expansion(), subjects.run()
    gradients = subjects.gradients()
    error = tp.squared_error(Y)
    found: dict[str, Right] = {
        "tp.derive": (tp.derive, {"program": tied, "regime": None, "assume": ()}),
        "tp.Kernels": (lambda **g: tp.derive(mlp, tp.Kernels(**g)), {"train": ("W",), "infinite": (), "order": 0}),
        "tp.Width": (lambda **g: tp.derive(tied, tp.Width(**g)), {"infinite": ()}),
        "tp.FiniteWidth": (lambda program: tp.derive(program, tp.FiniteWidth()), {"program": tied}),
        "tp.FiniteWidthLimit": (tp.derive(tied, tp.FiniteWidth()).evaluate, {"method": "auto", "particles": 64, "replicates": 2, "seed": 0, "ratios": None, "constants": None}),
        "tp.Proportional": (lambda **g: tp.derive(subjects.layer, tp.Proportional(**g)), {"fixed": ()}),
        "tp.MaximalUpdate": (lambda **g: tp.derive(small, tp.MaximalUpdate(**g)), {"optimizer": tp.SGD(), "weight_decay": 0}),
        "tp.NeuralTangent": (lambda **g: tp.derive(small, tp.NeuralTangent(**g)), {"optimizer": tp.SGD(), "weight_decay": 0, "infinite": (), "f0": None}),
        "tp.check": (tp.check, {"result": w, "widths": (16, 32, 64), "draws": 8, "seed": 0, "level": 0.01, "claims": None, "ratios": None, "constants": None}),
        "tp.classify": (tp.classify, {"target": small, "parametrization": tp.MUP, "optimizer": tp.SGD()}),
        "tp.watch": (tp.watch, {"net": small, "X": X, "error": error, "optimizer": tp.SGD(), "lr": 0.1, "steps": 2, "widths": (8,), "seeds": 1, "batches": None, "probes": None, "labels": None, "every": None, "parametrization": None, "weight_decay": 0.0, "only": None, "start": None, "ratios": None, "constants": None}),
        "tp.squared_error": (tp.squared_error, {"y": Y, "train": None, "weights": None}),
        "tp.cross_entropy": (tp.cross_entropy, {"labels": [0, 1, 2], "train": None, "smoothing": 0, "weights": None}),
        "tp.batches": (tp.batches, {"size": 2, "seed": 0, "sampler": "epochs"}),
        "tp.init": (lambda **g: str(tp.init(**g)), {"mean": 0, "std": 1}),
        "tp.neuron": (tp.neuron, {"name": "β"}),
        "tp.size": (tp.size, {"axis": "token"}),
        "tp.width": (tp.width, {"name": "k"}),
        "tp.program": (tp.program, {"function": lambda x: x}),
        "tp.network": (tp.network, {"function": lambda x: x}),
        "tp.block": (tp.block, {"function": lambda x: x}),
        "tp.stack": (lambda **g: tp.stack(*g.values()), {"one": subjects.layer, "two": subjects.layer}),
        "tp.expect": (traced(lambda x, function: x * tp.expect(function)), {"function": tp.tanh}),
        "tp.elementwise": (traced(lambda x, function: tp.elementwise(function)(x)), {"function": sympy.sin}),
        "tp.constant": (traced(lambda x, array, axes: x * tp.constant(array, axes), tokenwise), {"array": [1.0, 2.0, 0.5, 1], "axes": ("token",)}),
        "tp.avg": (traced(lambda x, value, over: x * tp.avg(x if value is X else value, over)), {"value": X, "over": None}),
        "tp.sum": (traced(lambda x, over: x * tp.sum(x, over), tokenwise), {"over": "token"}),
        "tp.mean": (traced(lambda x, over: x * tp.mean(x, over), tokenwise), {"over": "token"}),
        "tp.softmax": (traced(lambda x, over: x * tp.softmax(tp.avg(x * x), over), tokenwise), {"over": "token"}),
        "tp.readout": (lambda **g: tp.readout(**g), {"vector": 1}),
        "tp.Head": (tp.Head, {"program": tied}),
        "tp.Program": (lambda **g: tied.run(**g), {"n": 8, "seed": 0, "ratios": None, "constants": None, "x": np.ones(8)}),
        ".bind": (lambda **g: tokens.bind(**g), {"token": 3}),
        ".size": (tokens.size, {"axis": "token"}),
        ".position": (tokens.position, {"name": "h"}),
        "tp.to_json": (tp.to_json, {"program": tied}),
        "tp.from_json": (tp.from_json, {"text": "{}"}),
        "tp.load_recording": (tp.load_recording, {"path": "none"}),
        "tp.load_kernels": (tp.load_kernels, {"path": "none"}),
        "tp.load_plan": (tp.load_plan, {"path": "none"}),
        "tp.UP": (lambda **g: tp.classify(small, tp.UP(**g), tp.SGD()), {"s": "1/4"}),
        "tp.ABCD": (lambda **g: tp.classify(small, tp.ABCD(**g), tp.SGD()), {"table": {"hidden": (0, "1/2", 1, 1)}, "base": tp.SP, "name": "mine"}),
        "tp.WidthLimit": (w.evaluate, {"method": "auto", "particles": 64, "replicates": 2, "seed": 0, "conditioning": "white", "ratios": None, "constants": None, "only": None}),
        ".ket": (w.ket, {"name": "h"}),
        ".braket": (w.braket, {"left": "h", "right": "x"}),
        ".scalar": (w.scalar, {"name": "s"}),
        ".covariance": (w.covariance, {"a": "s", "b": "s"}),
        ".assuming": (w.assuming, {"names": ()}),
        "tp.KernelLimit": (k.evaluate, {"X1": X, "X2": None, "ratios": None, "constants": None, "draws": 8, "replicates": 2, "seed": 0, "c": 1.0}),
        ".posterior": (k.posterior, {"X_train": X, "y": Y, "X_test": X, "noise": 0.1, "kernel": "nngp", "covariance": True}),
        ".train": (k.train, {"X_train": X, "y": Y, "X_test": X, "time": 1.0, "noise": 0.0}),
        ".train, steps": (k.train, {"X_train": X, "y": Y, "steps": 3, "lr": 0.1, "momentum": 0.0}),
        ".descend": (k.descend, {"X_train": X, "error": error, "steps": 2, "lr": 0.1, "momentum": 0.0, "f0": 0.0, "noise": 0.0}),
        ".max_learning_rate": (k.max_learning_rate, {"X_train": X, "momentum": 0.0, "noise": 0.0, "curvature": 1.0}),
        ".log_marginal_likelihood": (k.log_marginal_likelihood, {"X": X, "y": Y, "noise": 0.1, "kernel": "nngp"}),
        ".conditioned": (lambda **g: k.conditioned(**g).at(X), {"X_train": X, "y": Y, "noise": 0.1, "kernel": "nngp"}),
        ".sample": (k.sample, {"X1": X, "X2": None, "draws": 4, "seed": 0}),
        ".excess_kurtosis": (k.excess_kurtosis, {"X": X, "draws": 8, "seed": 0}),
        "tp.MaximalLimit": (f.evaluate, {**TRAINED, "seed": 0, "conditioning": "white", "record": (), "ratios": None, "constants": None, "checkpoint": None, "draws": None}),
        ".exact": (lambda **g: tp.derive(small, tp.MaximalUpdate(tp.SGD())).exact(**g), {"X": X[:1], "error": tp.squared_error(Y[:1]), "lr": 0.1, "steps": 1, "most": 1000}),
        ".unrolled": (f.unrolled, {"X": X, "error": error, "lr": 0.1, "steps": 1}),
        "tp.TangentLimit": (o.evaluate, {**TRAINED, "f0": None, "seed": 0, "conditioning": "white", "ratios": None, "constants": None, "checkpoint": None}),
        ".sign_kernel": (o.sign_kernel, {"X": X, "ratios": None}),
        "tp.CovarianceSDE": (d.simulate, {"V0": V0, "T": 0.1, "dt": 0.05, "paths": 2, "seed": 0, "method": "psd", "stop": None, "record": False, "halve": False, "c": 1.0, "n": None}),
        ".correlation": (paths.correlation, {"a": 0, "b": 1}),
        ".quantile": (paths.quantile, {"q": 0.5, "values": None}),
        ".std": (paths.std, {"values": None}),
        ".output": (paths.output, {"samples": 1, "seed": 0}),
        ".gradients": (t.gradients, {"V0": V0, "T": 0.1, "of": "input", "layers": (0.0, 1.0), "readout": None, "dt": 0.05, "paths": 4, "seed": 0, "stop": None, "γ": 0.5}),
        ".growth": (lambda **g: t.growth(**g, dt=0.05, paths=4), {"constant": "γ", "values": (0.1, 0.5), "V0": V0, "T": 0.1}),
        ".chain": (t.chain, {"T": 0.1, "V0": 1.0, "readout": "normal", "dt": 0.05, "paths": 4, "seed": 0, "γ": 0.5}),
        ".simulate, tangents": (t.simulate, {"V0": V0, "E": 0, "T": 0.1, "dt": 0.05, "paths": 4, "seed": 0, "fed": False, "γ": 0.5}),
        ".start": (t.start, {"parameter": "W"}),
        ".is_derived": (t.is_derived, {"parameter": "W"}),
        ".of, gradients": (gradients.of, {"name": "input", "layer": 0.0}),
        ".quantile, gradients": (gradients.of("input").quantile, {"q": 0.5}),
        ".width_for": (e.width_for, {"name": "return", "relative": 0.01, "absolute": None}),
        ".at": (e.at, {"n": 64}),
        ".bias": (e.bias, {"name": "return"}),
        ".breakdown": (e.breakdown, {"name": "return"}),
        ".gram": (run.gram, {"name": "x", "t": 1}),
        ".indices": (tp.batches(2).indices, {"t": 3, "inputs": 4}),
        ".coefficients": (tp.SGD(momentum=0.5).coefficients, {"t": 2}),
        ".extra_power": (lambda kind: tp.Normalized(tp.SGD()).extra_power(kind, tp.MUP.matrix), {"kind": "matrix"}),
        ".of": (tp.MUP.of, {"network": small}),
        ".kind": (tp.MUP.kind, {"kind": "matrix"}),
        ".adjusted": (tp.MUP.adjusted, {"network": small, "optimizer": tp.Normalized(tp.SGD())}),
        ".with_names": (tp.MUP.with_names, {"by_name": {"U": (0, 0, 0, 1)}}),
        ".substituted": (tp.MUP.substituted, {"values": {sympy.Symbol("c"): 1}}),
        ".drift_at": (d.drift_at, {"V": V0, "c": 1.0}),
        ".diffusion_at": (d.diffusion_at, {"V": V0, "c": 1.0}),
        ".spread_at": (d.spread_at, {"V": V0, "n": 64, "c": 1.0}),
        ".drift_estimate_at": (d.drift_estimate_at, {"V": V0, "c": 1.0}),
        "tp.Recording": (r.value, {"name": "return", "frame": -1, "width": 8, "seed": 0, "X": None}),
        ".outputs": (r.outputs, {"frame": -1, "width": 8, "seed": 0, "X": None}),
        ".parameters": (r.parameters, {"frame": -1, "width": 8, "seed": 0}),
        ".curves": (r.curves, {"name": "loss"}),
        ".run": (r.run, {"width": 8, "seed": 0}),
        ".average": (r.average, {"frame": -1, "width": 8, "name": None, "X": None}),
        "tp.leaky_relu": (traced(tp.leaky_relu), {"slope": 0.1}),
        "tp.clip": (traced(tp.clip), {"low": -1, "high": 1}),
        "tp.stop_gradient": (lambda **g: tp.stop_gradient(**g), {"x": 1.0}),
        "tp.layers.layer_norm": (traced(tp.layers.layer_norm), {"gain": None, "bias": None, "eps": 0.1}),
        "tp.layers.rms_norm": (traced(tp.layers.rms_norm), {"gain": None, "bias": None, "eps": 0.1}),
        "tp.layers.avg_pool": (traced(lambda x, **g: tp.layers.avg_pool(x, **g), tokenwise), {"over": {"token": 4}, "window": 2, "stride": None, "padding": "VALID", "to": None}),
        "tp.layers.upsample": (traced(tp.layers.upsample, tokenwise), {"over": {"token": 4}, "factor": 2, "to": None}),
    }  # fmt: skip
    for name in (
        "SGD",
        "SignSGD",
        "Adam",
        "NAdam",
        "RMSProp",
        "Adagrad",
        "Entrywise",
        "Adafactor",
        "Normalized",
        "Clipped",
    ):
        found[f"tp.{name}"] = (_optimizer(getattr(tp, name)), dict(_OPTIMIZERS[name]))
    for name in (
        "relu",
        "abs",
        "step",
        "sign",
        "tanh",
        "erf",
        "gelu",
        "sigmoid",
        "softplus",
        "exp",
        "log",
        "sqrt",
        "sin",
        "cos",
    ):
        found[f"tp.{name}"] = (traced(lambda x, y, name=name: x * getattr(tp, name)(y)), {"y": 0.5})
    for name in ("maximum", "minimum"):
        found[f"tp.{name}"] = (traced(lambda x, y, name=name: getattr(tp, name)(x, y)), {"y": 0.5})
    found["tp.where"] = (traced(lambda x, y, z: tp.where(x, y, z)), {"y": 0.5, "z": 1})
    return found


_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.5}, "SignSGD": {"eps": 0.1}, "Adam": {"β1": 0.9, "β2": 0.99, "eps": 0.1, "convention": "inside"},
    "NAdam": {"β1": 0.9, "β2": 0.99, "eps": 0.1}, "RMSProp": {"decay": 0.9, "eps": 0.1}, "Adagrad": {"eps": 0.1, "convention": "torch"},
    "Entrywise": {"Q": lambda m: m, "states": {"m": lambda g, m: 0.9 * m + g}, "initial": None}, "Adafactor": {"decay": 0.9, "eps": 0.1},
    "Normalized": {"optimizer": tp.Adam(), "by": "update"},
    "Clipped": {"optimizer": tp.Adam(), "threshold": 1, "reading": "usual", "of": "update"},
}  # fmt: skip
_MADE: dict[str, Right] = {}


def arguments(rng: random.Random, place: Path) -> Callable[[], Any]:
    """A right call with one or two arguments exchanged."""
    made = _made()
    name = rng.choice(list(made))
    changed = [rng.choice(list(made[name][1])) for _ in range(rng.choice((1, 1, 1, 2)))]
    return _exchanged(name, {key: rng.choice(VALUES)() for key in changed})


def sweep(number: int) -> Callable[[], Any]:
    """One of all right calls with one argument exchanged, in an order that mixes them."""
    cells = [(name, key, value) for name, (_, right) in _made().items() for key in right for value in VALUES]
    name, key, value = cells[number * 7919 % len(cells)]
    return _exchanged(name, {key: value()})


def cells() -> int:
    """How many calls `sweep` has; their number and 7919 have no factor in common."""
    many = sum(len(right) for _, right in _made().values()) * len(VALUES)
    assert math.gcd(many, 7919) == 1
    return many


def _made() -> dict[str, Right]:
    if not _MADE:
        _MADE.update(calls())
    return _MADE


def _exchanged(name: str, others: dict[str, Any]) -> Callable[[], Any]:
    function, right = _MADE[name]

    def run() -> Any:
        try:
            return function(**{**right, **others})
        except Exception as problem:
            problem.add_note(f"{name}({', '.join(f'{k}={shown(v)}' for k, v in others.items())})")
            raise

    return run


def shown(value: Any) -> str:
    """An argument in a few characters, whatever its repr does."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"<{type(value).__name__} whose repr fails>"
