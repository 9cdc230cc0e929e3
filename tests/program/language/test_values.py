"""Values record operations: what they carry along."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language.tracing import Trace
from tplimits.program.language.values import Neuron, Origin, Value


@pytest.fixture
def trace():
    with Trace("p").recording() as recording:
        recording.widths["k"] = None
        yield recording


def vector(trace, width="n", axes=()):
    for axis in axes:
        trace.declare(axis)
    return Value(trace, sympy.S.Zero, width, axes, origin=Origin("vector", ("x", None)))


def test_what_a_value_says_of_itself(trace):
    x = vector(trace, axes=("token",))
    assert x.describe() == "a vector over `n` with axes (token)"
    assert repr(x) == f"{x}" == "<a vector over `n` with axes (token) under construction>"
    assert tp.avg(x).describe() == "a scalar with axes (token)"
    assert x[Neuron("β")].describe() == "a value with the free neuron index β with axes (token)"


def test_width_axes_neurons_and_waiting_are_carried_along(trace):
    x, y = vector(trace, axes=("a",)), vector(trace, axes=("b",))
    β, γ = tp.neuron("β"), tp.neuron("γ")
    product = 2 * x * y[β]
    assert product.width == "n" and product.axes == ("a", "b") and {s.name for s in product.neurons} == {"neuron β"}
    inner = tp.avg(product * x[γ], over=γ)
    assert inner.waiting and (3 * inner - x).waiting and not tp.avg(inner, over=β).waiting
    assert tp.avg(product, over=β).neurons == frozenset()


def test_arithmetic_is_recorded_in_index_notation(trace):
    x = vector(trace, axes=("a",))
    assert (x + x).expr == 2 * x.entry() and (x - x).expr == 0
    assert x.sel(a=1).expr.indices == (1,)
    assert (+x) is x


def test_the_line_of_a_value_is_the_users(trace):
    x = vector(trace)
    y = tp.tanh(x)
    assert (y.line.file, y.line.text) == ("test_values.py", "y = tp.tanh(x)")


def test_arithmetic_with_symbols_of_the_program_keeps_the_value_in_charge(trace):
    x = vector(trace)
    for product in (tp.sqrt(tp.n) * x, x * tp.sqrt(tp.n), tp.n / x, tp.n - x, tp.n + x, sympy.pi * x):
        assert isinstance(product, Value)


def test_numpy_ufuncs_other_than_arithmetic_are_refused(trace):
    x = vector(trace)
    assert isinstance(np.multiply(2.0, x), Value) and isinstance(np.subtract(x, x), Value)
    for use in (np.add.reduce, np.negative, np.isfinite, lambda v: np.add.outer(v, v), lambda v: np.add(v, v, v)):
        with pytest.raises(ProgramError, match=r"np\.\w+ on a traced value"):
            use(x)


def test_both_waiting_averages_of_a_numpy_product_are_refused(trace):
    x, β, γ = vector(trace), tp.neuron("β"), tp.neuron("γ")
    inner = tp.avg(x[β] * x[γ] * x, over=γ)
    with pytest.raises(ProgramError, match="matrix-valued intermediate"):
        np.multiply(inner, inner)


def test_values_are_hashable_by_identity(trace):
    x, y = vector(trace), vector(trace)
    assert len({x, y, x}) == 2 and x == x
