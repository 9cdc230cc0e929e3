"""A program's repr is the numbered list of its instructions."""

import numpy as np
import sympy

import tplimits as tp
from tplimits.program.language.render import decimal, superscript

LAW = tp.init(mean=0.1, std=0.3)


def test_the_list():
    @tp.program
    def tied(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        z = W.T @ tp.tanh(h)
        return tp.avg(x * z)

    assert repr(tied) == "\n".join(
        [
            "program tied(W, x)",
            "  1  W      = n×n, entries N(0, 1/n)   matrix",
            "  2  x      = over n, entries N(0, 1)  vector",
            "  3  h      = W x                      MatMul",
            "  4  _4     = tanh(h)                  OuterNonlin",
            "  5  z      = Wᵀ _4                    MatMul",
            "  6  _6     = x*z                      OuterNonlin",
            "  7  return = ⟨_6⟩                     Avg",
            "returns return",
        ]
    )


def test_everything_else_that_can_stand_in_it():
    @tp.program
    def rich(
        U: tp.Matrix["k", "n", "head"],
        x: tp.Vector["token"],
        g: tp.Vector["k"] = 1,
        s: tp.Scalar = 0.5,
        t: tp.Scalar = None,
        *,
        γ=0.1,
        τ,
    ):
        β = tp.neuron("β")
        h = U.sel(head=0).T @ g
        y = tp.avg(tp.relu(h * x[β]), over=β)
        z = x.take(token=np.array([0, -1]), axes="p")
        w = tp.constant([1, 2], axes="p")
        return (
            s * y,
            tp.sum(w * z, over="p") * γ / τ * tp.expect(lambda q: q**2),
            t / tp.size("token"),
            tp.sqrt(tp.n) * t,
        )

    lines = repr(rich).splitlines()
    assert lines[0] == "program rich(U, x, g, s, t); constants γ=0.1, τ; sizes p=2"
    assert lines[-1] == "returns return[0], return[1], return[2], return[3]"
    text = "\n".join(lines[1:-1])
    for piece in (
        "U[head]", "= k×n, entries N(0, 1/n)", "= over k, every entry 1", "s", "= 1/2", "= given", "= U[0]ᵀ g",
        "= ⟨relu(h*x[β, token])⟩_{β}", "OuterNonlin, order 2", "= x[table0[p]]", "= array0[p]", "Σ_p′1(",
        "E_g′1[g′1**2]", "t/|token|", "sqrt(n)*t",
    ):  # fmt: skip
        assert piece in text, piece


def test_floats_print_as_they_were_written():
    @tp.program
    def tenth(x: tp.Vector = LAW, s: tp.Scalar = 0.7):
        return 0.1 * x - 0.3 / tp.sqrt(tp.n) + s, 0.1 * tp.tanh(x) / (x**2 + 1) ** 2

    text = repr(tenth)
    assert "0.1*x" in text and "-0.3/sqrt(n)" in text and "0.1*tanh(x)/(1 + x**2)**2" in text
    assert "N(0.1, 0.09)" in text and "= 0.7" in text


def test_numbers_as_people_write_them():
    assert [decimal(sympy.Rational(v)) for v in (3, 0.1, 0.25)] == ["3", "0.1", "1/4"]
    assert decimal(sympy.Rational(-22, 7)) == "-22/7"
    assert superscript(sympy.Rational(-3, 2)) == "⁻³ᐟ²"
