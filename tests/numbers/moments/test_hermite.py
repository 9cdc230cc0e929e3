"""Rows of Hermite coefficients: E f² and coefficients by closed forms, orders, and that threads may share them."""

from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import sympy

from tplimits.errors import EvaluationError
from tplimits.numbers.moments import hermite
from tplimits.numbers.moments.kinks import Kinked
from tplimits.numbers.moments.panels import scale_edges

X = sympy.Symbol("x", real=True)


def test_threads_share_rows_while_old_ones_are_dropped(monkeypatch):
    """Room for one row: every look drops what another thread is about to read."""
    monkeypatch.setattr(hermite, "_MEMORY", 1)
    hermite.forget_rows()
    functions = [Kinked(sympy.sin(k * X), X, ()) for k in range(1, 5)]
    variances = numpy.array([0.5, 1.0])
    expected = [hermite.hermite_rows(f, variances).coefficients for f in functions]

    def look(i):
        return hermite.remembered_rows(functions[i % 4], variances).coefficients

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(look, range(400)))
    assert all(numpy.array_equal(row, expected[i % 4]) for i, row in enumerate(found))
    hermite.forget_rows()


@pytest.mark.parametrize(
    ("function", "even", "odd"),
    [(sympy.sin(X), 0, 1), (sympy.cos(X), 1, 0), (sympy.sin(X) + 2 * sympy.cos(X), 2, 1)],
    ids=["odd", "even", "neither"],
)
def test_half_of_a_function_with_parity_is_integrated(function, even, odd):
    """e^{i√c z} = e^{−c/2} Σ (i√c)^k h_k/√k!, for many variances and for few; 300 needs the higher order."""
    for variances in (
        numpy.linspace(0.3, 2.0, 12),
        numpy.array([0.7]),
        numpy.array([*numpy.linspace(1.0, 9.0, 11), 300.0]),
    ):
        rows = hermite.hermite_rows(Kinked(function, X, ()), variances)
        k = numpy.arange(20)
        size = numpy.array(
            [-variances / 2 + j * numpy.log(variances) / 2 - sum(numpy.log(range(1, j + 1))) / 2 for j in k]
        )
        phase = numpy.where(k % 2 == 0, even, odd) * (-1.0) ** (k // 2)
        numpy.testing.assert_allclose(rows.coefficients[:, :20], numpy.exp(size.T) * phase, atol=2e-14)
        square = even**2 * (1 + numpy.exp(-2 * variances)) / 2 + odd**2 * (1 - numpy.exp(-2 * variances)) / 2
        numpy.testing.assert_allclose(rows.norm**2, square, rtol=1e-13)
        assert rows.order == (256 if variances.max() > 9 else 64)


@pytest.mark.parametrize("left", [0.0099, 0.0101])
def test_what_does_not_settle_as_panels_are_refined_is_refused(monkeypatch, left):
    """From a hundredth of the root of E f² on; what is left below that is an error."""
    monkeypatch.setattr(hermite, "settled_edges", lambda *given: (scale_edges(1.0), left))
    rows = lambda: hermite.hermite_rows(Kinked(sympy.cos(X), X, ()), numpy.array([0.5, 1.0]))  # noqa: E731
    if left > 0.01:
        with pytest.raises(EvaluationError, match=r"the integral of `cos\(x\)` over x does not settle as panels"):
            rows()
    else:
        assert rows().error == pytest.approx(left * rows().norm)
