"""Compiled loops against the same loops on NumPy arrays, and functions in vector registers against mpmath."""

import os
import subprocess
import sys
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import scipy.special
import sympy
from loops_on_arrays import run as on_arrays

import tplimits as tp
from tplimits.numbers.loops.bodies import Nest
from tplimits.numbers.loops.kernels import run
from tplimits.program.loops.lowering import forward, training


def of_function(function):
    @tp.network
    def net(x: tp.Input, v: tp.Vector):
        y = function(x)
        return v * y

    return forward(net, keep=["y"])


X = np.concatenate([np.linspace(-40, 40, 20001), np.linspace(-1, 1, 4001), np.geomspace(1e-12, 30, 500), [0.0]])
FUNCTIONS = {
    "exp": (tp.exp, np.exp, 0, 1e-15),
    "erf": (tp.erf, scipy.special.erf, 1e-15, 1e-15),
    "tanh": (tp.tanh, np.tanh, 1e-15, 1e-15),
    "sigmoid": (lambda x: tp.sigmoid(x), scipy.special.expit, 1e-15, 1e-15),
    "gelu": (tp.gelu, lambda x: x * scipy.special.ndtr(x), 1e-14, 1e-14),
    "softplus": (tp.softplus, lambda x: np.logaddexp(0, x), 1e-15, 1e-15),
    "relu": (tp.relu, lambda x: np.maximum(x, 0), 0, 0),
    "step": (tp.step, lambda x: np.where(x > 0, 1.0, 0.0), 0, 0),
    "sin": (tp.sin, np.sin, 1e-15, 1e-15),
    "abs": (abs, np.abs, 0, 0),
    "power": (lambda x: (1 + x**2) ** 1.5, lambda x: (1 + x**2) ** 1.5, 0, 1e-15),
    "root": (lambda x: 1 / tp.sqrt(1 + x**2), lambda x: 1 / np.sqrt(1 + x**2), 0, 1e-15),
    "powers": (
        lambda x: x**3 + (1 + x**2) ** -3 - x**7 / 1e9 + 1 / (x**2 + 2) + x**16 / 1e24,
        lambda x: x**3 + (1 + x**2) ** -3.0 - x**7 / 1e9 + 1 / (x**2 + 2) + x**16 / 1e24,
        0,
        1e-12,
    ),
    "any power": (lambda x: abs(x) ** 2.3, lambda x: np.abs(x) ** 2.3, 0, 1e-14),
    "erf beside bells": (
        lambda x: tp.erf(abs(x)) + tp.exp(-(x**2)) + tp.exp(-abs(x**3)) + tp.erf(x + 1),
        lambda x: scipy.special.erf(np.abs(x)) + np.exp(-(x**2)) + np.exp(-np.abs(x**3)) + scipy.special.erf(x + 1),
        1e-14,
        1e-14,
    ),
    "log": (lambda x: tp.log(1 + abs(x)), lambda x: np.log(1 + np.abs(x)), 1e-15, 1e-15),
    "arcs": (
        lambda x: tp.elementwise(lambda t: sympy.atan(t) + sympy.asinh(t) + sympy.asin(sympy.tanh(t) / 2))(x),
        lambda x: np.arctan(x) + np.arcsinh(x) + np.arcsin(np.tanh(x) / 2),
        1e-15,
        1e-14,
    ),
    "leaky_relu": (lambda x: tp.leaky_relu(x, 0.3), lambda x: np.where(x > 0, x, 0.3 * x), 0, 0),
    "maximum": (lambda x: tp.maximum(x, 1 - 2 * x), lambda x: np.maximum(x, 1 - 2 * x), 0, 0),
    "minimum": (lambda x: tp.minimum(x, 1 - 2 * x), lambda x: np.minimum(x, 1 - 2 * x), 0, 0),
    "where": (lambda x: tp.where(x, 3 * x, 2 - x), lambda x: np.where(x > 0, 3 * x, 2 - x), 0, 0),
    "sign": (tp.sign, np.sign, 0, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_right_to_their_stated_errors(name):
    function, expected, absolute, relative = FUNCTIONS[name]
    loops = of_function(function)
    data = next(a.name for a in loops.of_role("data"))
    found = run(loops, {loops.samples: len(X), "n": 3}, {data: X})[loops.names["y"]]
    np.testing.assert_allclose(found, expected(X), atol=absolute + 1e-300, rtol=relative)


def test_exp_and_erf_against_extended_precision_and_beyond_their_range():
    points = np.array(
        [-708.5, -707.9, -30.0, -1e-9, 0.49999, 0.50001, 6.1999, 6.2001, 700.0, 709.7, 709.9, np.inf, -np.inf]
    )
    for function, exact in ((tp.exp, mpmath.exp), (tp.erf, mpmath.erf)):
        loops = of_function(function)
        data = next(a.name for a in loops.of_role("data"))
        found = run(loops, {loops.samples: len(points), "n": 1}, {data: points})[loops.names["y"]]
        for x, y in zip(points, found, strict=True):
            expected = float(exact(mpmath.mpf(x)))
            assert y == pytest.approx(0.0 if expected < 1e-307 and expected >= 0 else expected, rel=5e-15), x
    nan = run(loops, {loops.samples: 1, "n": 1}, {data: [np.nan]})[loops.names["y"]]
    assert np.isnan(nan).all()


@tp.network
def rich(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    W: tp.Matrix["n", "m"],
    R: tp.Matrix["m", "n"],
    v: tp.Vector["out"],
    c: tp.Scalar,
):
    x = tp.gelu(tp.sum(U * ξ, over="d"))
    y = W @ tp.tanh(R @ x) + c * x
    z = y / tp.sqrt(tp.avg(y**2) + 1)
    return tp.readout(v * tp.erf(z)) + c


@pytest.mark.parametrize(("inputs", "n", "d"), [(1, 1, 2), (3, 7, 2), (8, 8, 3), (17, 33, 20)])
def test_compiled_loops_are_those_on_arrays_whatever_the_sizes(inputs, n, d):
    """Sizes below, at and above whole vectors; the last takes products of matrices to BLAS."""
    net = rich.bind(d=d, out=2)
    loops, rng = training(net, tp.MUP.a_out), np.random.default_rng(0)
    sizes = {loops.samples: inputs, "n": n, "m": 2 * n}
    given = {}
    for a in loops.of_role("data", "parameter"):
        given[a.name] = rng.standard_normal([loops.extents[e] or sizes[e] for e in a.extents])
    expected, found = on_arrays(loops, sizes, given), run(loops, sizes, given)
    for a in loops.of_role("output", "gradient"):
        scale = abs(expected[a.name]).max()
        np.testing.assert_allclose(found[a.name], expected[a.name], rtol=1e-11, atol=1e-13 * scale, err_msg=a.title)


@pytest.mark.parametrize("size", [1, 5, 8, 9, 36])
def test_finite_axes_go_by_whole_vectors_and_end_where_they_end(size):
    """Functions entry by entry, and gradients of them; what lies behind the end of an array is no part of it."""

    @tp.network
    def tables(x: tp.Input["d"], P: tp.Scalar["a", "b"], v: tp.Vector):
        T = tp.exp(tp.sin(P) / 3) / tp.sqrt(1 + P**2)
        return v * tp.sum(x, over="d") * tp.sum(T, over=("a", "b"))

    loops, rng = training(tables.bind(d=2, a=1, b=size), tp.MUP.a_out), np.random.default_rng(0)
    sizes = {loops.samples: 3, "n": 5}
    given = {
        a.name: rng.standard_normal([loops.extents[e] or sizes[e] for e in a.extents])
        for a in loops.of_role("data", "parameter")
    }
    expected, found = on_arrays(loops, sizes, given), run(loops, sizes, given)
    for a in loops.of_role("output", "gradient"):
        scale = abs(expected[a.name]).max()
        np.testing.assert_allclose(found[a.name], expected[a.name], rtol=1e-13, atol=1e-15 * scale, err_msg=a.title)


@pytest.mark.long
def test_the_same_network_is_the_same_text_in_every_process():
    """Sets of names have another order in each: a text that follows it is compiled again and again."""
    code = (
        "from sympy import S\n"
        "from tplimits.numbers.loops.kernels import Module\n"
        "from tplimits.program.loops.lowering import training\n"
        "from tplimits.zoo.networks.sparse_modular_addition import transformer\n"
        "loops = training(transformer(length=3), S.One)\n"
        "module = Module(loops)\n"
        "module.add('run', loops.statements)\n"
        "print(module.module)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1 and b"define" in texts.pop()


def test_what_no_instruction_has_is_refused():
    arithmetic = SimpleNamespace(constant=lambda _, number: number)
    with pytest.raises(tp.EvaluationError, match="`DiracDelta` has no compiled form"):
        Nest._piece(SimpleNamespace(arithmetic=arithmetic), sympy.DiracDelta, (0.5,), 0.0)
