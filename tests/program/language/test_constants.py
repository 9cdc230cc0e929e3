"""Constants of files: right where they are finite and moderate, refused elsewhere."""

import mpmath
import numpy as np
import pytest

from tplimits.errors import ProgramError
from tplimits.program.language.constants import constant
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS
from tplimits.program.nodes.functions import HEADS

POINTS = {
    1: [(-0.4,), (0.7,), (0.0,)],
    2: [(-0.4, 0.7), (0.7, -0.4), (1.5, 1.5)],
    3: [(-0.4, 0.7, 2.0), (0.4, 0.7, 2.0), (0.0, 1.0, 2.0)],
}


@pytest.mark.parametrize("name", sorted(HEADS.keys() - {"add", "mul", "pow", "dirac", "log"}))
def test_every_head_agrees_with_its_array_form(name):
    head, arity = HEADS[name]
    for point in POINTS[arity]:
        expected = float(ARRAY_FUNCTIONS[head](*map(np.float64, point)))
        assert float(constant(name, [mpmath.mpf(v) for v in point], rational=True)) == pytest.approx(
            expected, abs=1e-14
        )


def test_arithmetic():
    two, three = mpmath.mpf(2), mpmath.mpf(3)
    assert constant("add", [two, three], True) == 5 and constant("mul", [two, three], True) == 6
    assert constant("pow", [two, -three], True) == 0.125 and constant("log", [mpmath.e], False) == 1
    assert constant("dirac", [two], True) == 0


@pytest.mark.parametrize(
    ("name", "values", "rational", "words"),
    [
        ("pow", (0, -1), True, "not a finite real number"),
        ("pow", (-2, 0.5), True, "not a finite real number"),
        ("pow", (10, 1e6), True, "too large or too small"),
        ("pow", (1e-300, 1e4), True, "too large or too small"),
        ("log", (0,), True, "not a finite real number"),
        ("log", (-1,), True, "not a finite real number"),
        ("asin", (1.5,), True, "not a finite real number"),
        ("atanh", (1,), True, "not a finite real number"),
        ("exp", (1e5,), True, "too large or too small"),
        ("exp", (-1e5,), True, "too large or too small"),
        ("cosh", (-1e5,), True, "too large or too small"),
        ("dirac", (0,), True, "not a finite real number"),
        ("add", (1, -1), False, "constants that cancel; write the exact result"),
        ("maximum", (1.5, 1.5), False, "constants that cancel"),
    ],
)
def test_what_is_refused(name, values, rational, words):
    with pytest.raises(ProgramError, match=words):
        constant(name, [mpmath.mpf(v) for v in values], rational)


def test_rationals_may_cancel():
    assert constant("add", [mpmath.mpf(1), mpmath.mpf(-1)], rational=True) == 0
