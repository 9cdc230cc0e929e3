"""Constant arrays and look-ups that stand in a print-out by number are told there, entry by entry."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

import tplimits as tp

TAPS = np.array([[-1, 0], [0, 1], [1, -1]])
WEIGHTS = np.array([1.0, -2e-5])


@tp.network
def convolution(ξ: tp.Input["at"], U: tp.Vector["tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
    x = tp.tanh(tp.sum(U * ξ.take(at=TAPS, axes=("tap", "at")), over="tap"))
    y = tp.sum(W @ x.take(at=TAPS, axes=("tap", "at")), over="tap")
    return tp.sum(v * (tp.constant(WEIGHTS, axes="at") * y), over="at")


@tp.block
def weighed(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, b: tp.Vector):
    return x + U @ (tp.maximum(W @ x + b, -0.3) * tp.constant(WEIGHTS, axes="token")) / tp.sqrt(tp.n)


NETWORK = convolution.bind(at=2, tap=3)
LIMITS = {
    "kernels": lambda: tp.derive(NETWORK, tp.Kernels()),
    "feature learning": lambda: tp.derive(NETWORK, tp.MaximalUpdate(tp.Adam(eps=0.1))),
    "operator": lambda: tp.derive(NETWORK, tp.NeuralTangent(tp.Adam(eps=0.1))),
    "block": lambda: tp.derive(weighed.bind(token=2), tp.Proportional()),
    "program": lambda: NETWORK,
}


def told(text: str) -> dict[str, object]:
    """What a print-out says that arrays and tables hold, by their names."""
    said = re.findall(
        r"^\s*((?:array|table)\d+)(?:\[[^\]]*\])?\s* = the (?:constant array|indices) ([^;\n]*)", text, re.M
    )
    assert len(dict(said)) == len(said)
    return {name: ast.literal_eval(values) for name, values in said}


@pytest.mark.parametrize("name", LIMITS)
def test_text_tells_every_number_that_it_names(name):
    text = str(LIMITS[name]())
    found = told(text)
    assert set(re.findall(r"\b(?:array|table)\d+(?=\[)", text)) <= set(found)
    assert found["array0"] == WEIGHTS.tolist()
    if name != "block":
        assert found["table0"] == TAPS.tolist() and "what is read at −1 is 0" in text


@pytest.mark.parametrize("name", [name for name in LIMITS if name != "program"])
def test_latex_tells_every_number_that_it_names(name):
    rows = LIMITS[name]().latex().splitlines()
    text = "\n".join(rows)
    assert r"\mathrm{table}" not in text and "table0" not in text and r"\mathrm{array}" not in text
    (array,) = (row for row in rows if row.strip().startswith("c^{(0)}"))
    assert r"\begin{pmatrix} 1 & -2 \cdot 10^{-5} \end{pmatrix}" in array
    defined = {row.strip()[: row.index("(") - 2] for row in rows if re.match(r"\s*\\pi_\{\d\}\(", row)}
    assert set(re.findall(r"\\pi_\{\d\}", text)) == {re.match(r"\\pi_\{\d\}", d)[0] for d in defined}  # type: ignore[index]
    if name != "block":
        (table,) = (row for row in rows if row.strip().startswith(r"\pi_{0}("))
        assert r"\begin{pmatrix} -1 & 0 \\ 0 & 1 \\ 1 & -1 \end{pmatrix}" in table and "0 is read at" in table


def test_the_printed_kernel_with_the_printed_table_is_the_kernel():
    """The sums that are printed, by the numbers that are printed; with another table they give another kernel."""
    limit = LIMITS["kernels"]()
    known = told(str(limit))
    X = np.array([[0.7, -0.4], [0.3, 1.1]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)

    def read(values: np.ndarray, at: int) -> float:
        return 0.0 if at < 0 else values[at]

    def mean(c11: float, c12: float, c22: float) -> float:
        """E tanh(z1) tanh(z2)."""
        z1 = np.sqrt(c11) * nodes[:, None]
        z2 = c12 / np.sqrt(c11) * nodes[:, None] + np.sqrt(max(c22 - c12**2 / c11, 0.0)) * nodes
        return float(weights @ (np.tanh(z1) * np.tanh(z2)) @ weights / weights.sum() ** 2)

    def kernel(one: np.ndarray, two: np.ndarray, table: list[list[int]], scale: list[float]) -> float:
        def seen(a: int, b: int, x: np.ndarray, y: np.ndarray) -> float:
            return sum(read(x, tap[a]) * read(y, tap[b]) for tap in table)

        def hidden(a: int, b: int) -> float:
            if min(a, b) < 0:
                return 0.0
            return mean(seen(a, a, one, one), seen(a, b, one, two), seen(b, b, two, two))

        return sum(scale[a] ** 2 * sum(hidden(tap[a], tap[a]) for tap in table) for a in range(2))

    right = np.array([[kernel(x, y, known["table0"], known["array0"]) for y in X] for x in X])
    wrong = np.array([[kernel(x, y, [[0, 1], [0, 1], [-1, -1]], known["array0"]) for y in X] for x in X])
    nngp = limit.evaluate(X).nngp
    assert np.allclose(nngp, right, rtol=1e-6) and not np.allclose(nngp, wrong, rtol=1e-2)
