"""Formulas as instructions: constants, choices and comparisons in both precisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from llvmlite import ir

from tplimits.errors import EvaluationError
from tplimits.numbers.loops.formulas import Formulas
from tplimits.numbers.loops.machine import compiled

TEXTS = {
    "x + 2*y - x*y/4": lambda x, y: x + 2 * y - x * y / 4,
    "-x*-3": lambda x, y: 3 * x,
    "x if x < y else y": np.minimum,
    "1.0 if -0.5 <= x < y else 2.0": lambda x, y: np.where((x >= -0.5) & (x < y), 1.0, 2.0),
    "1.0 if x == y else (3.0 if x != 0.5 else 4.0)": lambda x, y: np.where(x == y, 1, np.where(x != 0.5, 3, 4)),
    "fmax(x, y)*fmin(x, y)": lambda x, y: x * y,
    "sqrt(fabs(x)) + abs(y)": lambda x, y: np.sqrt(abs(x)) + abs(y),
    "copysign(2.0, x)": lambda x, y: np.copysign(2.0, x),
    "math.exp(x) + math.tanh(y)": lambda x, y: np.exp(x) + np.tanh(y),
    "erf(x)": lambda x, y: np.vectorize(math.erf)(x),
    "log(2.0 + x*x) + log1p(y*y)": lambda x, y: np.log(2 + x * x) + np.log1p(y * y),
    "sin(x)*cos(y) + expm1(x)": lambda x, y: np.sin(x) * np.cos(y) + np.expm1(x),
    "atan2(y, x)": lambda x, y: np.arctan2(y, x),
    "c*x + math.pi": lambda x, y: 0.75 * x + np.pi,
}
X = np.array([-2.5, -0.5, 0.5, 1.25, 0.75, -0.1, 3.0, 0.5])
Y = np.array([0.5, 1.5, 0.5, 0.25, 2.5, 0.2, 1.0, 0.7])


def run(text, single):
    """The value of a text on vectors of eight."""
    kind = ir.VectorType(ir.FloatType() if single else ir.DoubleType(), 8)
    module, pointer = ir.Module(), ir.PointerType()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 3), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    x, y = (builder.load(p, typ=kind, align=4) for p in function.args[:2])
    builder.store(Formulas(builder, module, kind).value(text, {"x": x, "y": y, "c": 0.75}), function.args[2], align=4)
    builder.ret_void()
    data = [a.astype(np.float32 if single else np.float64) for a in (X, Y, 0 * X)]
    compiled(str(module)).function("f", 3)(*(a.ctypes.data for a in data))
    return data[2]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_have_their_values(text):
    expected = TEXTS[text](X, Y)
    np.testing.assert_allclose(run(text, False), expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(run(text, True), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("text", ["erfc(x)", "x % 2", "[x]", "x ** y"])
def test_what_has_no_instruction_is_refused(text):
    with pytest.raises(EvaluationError, match="has no compiled form"):
        run(text, False)


def test_constants_of_single_precision_are_not_zero_where_they_are_not():
    module = ir.Module()
    single, double = (Formulas(ir.IRBuilder(), module, ir.VectorType(k, 4)) for k in (ir.FloatType(), ir.DoubleType()))
    values = (1e-40, -1e-300, 0.0, 2.0, -3.0)
    assert [[c.constant for c in single.constant(v).constant] for v in values] == [
        [v] * 4 for v in (1e-37, -1e-37, 0.0, 2.0, -3.0)
    ]
    assert [[c.constant for c in double.constant(v).constant] for v in values] == [[v] * 4 for v in values]
