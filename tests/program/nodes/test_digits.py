"""Numbers by their digits where functions are flat: against mpmath at six thousand digits and more."""

import math

import mpmath
import pytest
import sympy
from sympy import erf, exp, log, sqrt

from tplimits.program.nodes.digits import in_digits

_FAR = 1 - erf(15 * sqrt(2))

SMALL = {
    "a difference from the end": _FAR,
    "its inverse": 1 / _FAR,
    "its square": _FAR**2,
    "its logarithm": log(_FAR),
    "beside what is as small": exp(-450) / _FAR,
    "from below": 1 + erf(-30),
    "multiplied out nowhere": 1 / (sqrt(2) - sqrt(2) * erf(12)),
}


@pytest.mark.parametrize("expr", SMALL.values(), ids=SMALL)
def test_differences_from_where_a_function_is_flat_have_their_digits_inside_of_functions_too(expr: sympy.Expr) -> None:
    """SymPy's own digits of 1/(1 − erf(15√2)) are 5.3e+123, for 1.0e+197."""
    with mpmath.workdps(1500):
        truth = sympy.lambdify((), expr, "mpmath")()
        assert abs(mpmath.mpf(in_digits(expr, 20)) / truth - 1) < 1e-18


def test_so_have_they_where_the_argument_is_a_symbol() -> None:
    x = sympy.Symbol("x", real=True)
    found = in_digits(1 / (1 - erf(x)), 20, {x: sympy.Integer(20)})
    with mpmath.workdps(50):
        assert math.isclose(found * sympy.Float(mpmath.erfc(20), 30), 1, rel_tol=1e-15)


def test_identities_between_flat_functions_are_exactly_zero() -> None:
    assert in_digits(exp(5) * exp(sqrt(2)) - exp(5 + sqrt(2)), 20) == 0
    assert in_digits(sympy.cosh(7) ** 2 - sympy.sinh(7) ** 2 - 1, 20) == 0
