"""Degrees of homogeneity against values at the double of all arguments."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.nodes.degrees import degrees
from tplimits.program.nodes.execution import Execution

FUNCTIONS = {
    "abs": (lambda x, y: tp.abs(x) * tp.sign(y), 1),
    "root": (lambda x, y: tp.sqrt(x**2 + tp.abs(x * y)), 1),
    "leaky": (lambda x, y: tp.leaky_relu(x + y, 0.3) ** 3, 3),
    "larger": (lambda x, y: tp.maximum(x, 2 * y) / tp.avg(y * y), -1),
    "chosen": (lambda x, y: tp.where(x**2 - y**2, x * y, y**2), 2),
    "normed": (lambda x, y: tp.tanh(x / tp.sqrt(tp.avg(x * x))) * y, 1),
    "sum over nothing": (lambda x, y: 0 * x + y, 1),
}
OTHERS = {
    "two degrees": lambda x, y: x + y**2,
    "ε": lambda x, y: x / tp.sqrt(tp.avg(x * x) + 1e-12),
    "far kink": lambda x, y: x + tp.relu(y - 50),
    "slope": lambda x, y: tp.leaky_relu(x, y),
    "far bend": lambda x, y: x + (2 + tp.tanh(y - 40) - tp.tanh(y + 40)),
}


def traced(function):
    @tp.program
    def made(x: tp.Vector, y: tp.Vector):
        return function(x, y)

    return made


def found(program):
    return degrees(program, lambda s: 1)[program.returns[0]]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_degrees_of_functions(name):
    function, degree = FUNCTIONS[name]
    program = traced(function)
    assert found(program) == degree
    x, y = np.random.default_rng(0).standard_normal((2, 7))
    given = [{"x": c * x, "y": c * y} for c in (1.0, 2.0)]
    one, two = (
        Execution(program, 7, 1, np.random.default_rng(0), given=g).run().arrays[program.returns[0]] for g in given
    )
    assert np.allclose(two, 2.0**degree * one)


@pytest.mark.parametrize("name", OTHERS)
def test_others_have_none(name):
    assert found(traced(OTHERS[name])) is None
