"""What is attacked: small programs, their limits and their files, made once in a process."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tplimits as tp
from tplimits.torch.scaling.plan import Plan
from tplimits.torch.scaling.table import Dimension, Row

X = np.array([[1.0, 0.3], [-0.2, 0.8], [0.7, -1.1]])
Y = np.array([0.5, -1.0, 0.2])
#: a training run in milliseconds
SMALL: dict[str, Any] = {"lr": 0.1, "steps": 2, "particles": 64, "block": 32, "replicates": 2}


@tp.program
def tied(W: tp.Matrix, x: tp.Vector, s: tp.Scalar = 1, *, γ=2):
    h = W.T @ tp.tanh(γ * (W @ x))
    return tp.avg(x * h) * s


@tp.program
def tokens(W: tp.Matrix, x: tp.Vector["token"], m: tp.Scalar["token"]):
    h = tp.relu(W @ x)
    return tp.sum(h * m, over="token")


@tp.program
def pairs(x: tp.Vector):
    β = tp.neuron("β")
    return tp.avg(tp.avg(tp.abs(x - x[β]), over=β))


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c=1):
    return v * tp.tanh(c * (W @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def small(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d"))


@tp.block
def layer(x: tp.State["token"], W: tp.Matrix, *, c):
    return x + tp.tanh(W @ x) * c / tp.sqrt(tp.n)


@tp.block
def branch(x: tp.State["token"], W: tp.Matrix, *, γ):
    return tp.sqrt(1 - γ**2) * x + γ * (W @ x)


@tp.program
def norm(W: tp.Matrix, x: tp.Vector):
    return tp.avg((W @ x) ** 2)


PROGRAMS = (tied, tokens, pairs, mlp, small, layer)


@cache
def width() -> tp.WidthLimit:
    return tp.derive(tied)


@cache
def kernels() -> tp.KernelLimit:
    return tp.derive(mlp, tp.Kernels())


@cache
def feature() -> tp.MaximalLimit:
    return tp.derive(small, tp.MaximalUpdate(tp.Adam(eps=0.1)))


@cache
def operator() -> tp.TangentLimit:
    return tp.derive(small, tp.NeuralTangent(tp.Adam(eps=0.1)))


@cache
def depth() -> tp.CovarianceSDE:
    return tp.derive(layer.bind(token=2), tp.Proportional())


@cache
def recording() -> tp.Recording:
    return tp.watch(
        small, X, error=tp.squared_error(Y), optimizer=tp.SGD(), lr=0.1, steps=2, widths=(8, 16), every=1, seeds=2
    )


@cache
def plan() -> Plan:
    whole = Dimension.read("n")
    rows = (Row(("a.weight", "b.weight"), "readout", "adamw", (whole, Dimension(size=3)), 0.5, *[None] * 6),)
    return Plan("model", "adamw", 64, rows, scores={"x": whole.ratio}, left={"y": -whole.ratio})


@cache
def files() -> dict[str, bytes]:
    """The bytes of one file of every kind."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        np.save(place / "one.npy", X)
        np.savez(place / "many.npz", ξ=X, targets=Y)
        np.savez_compressed(place / "packed.npz", ξ=X, text=np.array(["a", "bc"]))
        recording().save(place / "run.npz")
        feature().evaluate(X, error=tp.squared_error(Y), checkpoint=place / "check.npz", **SMALL)
        plan().save(place / "plan.json")
        for program in PROGRAMS:
            (place / f"{program.name}.json").write_text(tp.to_json(program), encoding="utf-8")
        return {path.name: path.read_bytes() for path in place.iterdir()}


@cache
def gram() -> dict[str, bytes]:
    """The files of a folder of Gram matrices."""
    with tempfile.TemporaryDirectory() as name:
        kernels().evaluate(X, out=Path(name) / "gram")
        return {path.name: path.read_bytes() for path in (Path(name) / "gram").iterdir()}


@cache
def tangent() -> tp.TangentSDE:
    return tp.derive(branch, tp.Proportional(tangent=True))


@cache
def gradients() -> Any:
    return tangent().gradients(np.eye(2), T=0.1, of="input", dt=0.05, paths=4, γ=0.5)


@cache
def paths() -> Any:
    return depth().simulate(np.eye(2), T=0.1, dt=0.05, paths=4, c=1.0)


@cache
def expansion() -> tp.FiniteWidthLimit:
    return tp.derive(norm, tp.FiniteWidth())


@cache
def run() -> tp.TrainingRun:
    @tp.network
    def named(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        return v * x

    limit = tp.derive(named, tp.MaximalUpdate(tp.SGD()))
    return limit.evaluate(X, error=tp.squared_error(Y), record="x", **SMALL)
