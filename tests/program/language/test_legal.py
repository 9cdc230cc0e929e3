"""What an expression of a program may hold."""

import numpy as np
import sympy
from sympy import Integer, Symbol

import tplimits as tp
from tplimits.program.language.legal import (
    heads_known,
    index_legal,
    leaves_legal,
    number_legal,
    real,
    symbols_known,
    vector_legal,
)
from tplimits.program.nodes.entries import (
    OWN,
    AxisSum,
    Entry,
    GaussMean,
    Lookup,
    axis_symbol,
    normal_symbol,
    size_symbol,
)


@tp.program
def reading(x: tp.Vector["token"], *, γ):
    y = x.take(token=np.array([0, -1, 1]), axes="p")
    return γ * tp.sum(y, over="p")


TOKEN, P, G = axis_symbol("token"), axis_symbol("p"), normal_symbol(1)
FREE = {TOKEN: "token", P: "p"}
X = Entry(Integer(0), OWN, TOKEN)
γ = reading[2].body.free_symbols & reading.known.numbers


def test_indices():
    assert index_legal(reading, TOKEN, FREE, "token") and not index_legal(reading, P, FREE, "token")
    assert index_legal(reading, Integer(7), FREE, "token") and not index_legal(reading, Integer(3), FREE, "p")
    assert index_legal(reading, Lookup(Integer(0), P), FREE, "token")
    assert not index_legal(reading, Lookup(Integer(0), Lookup(Integer(0), P)), FREE, "token")
    assert not index_legal(
        reading.replace(sizes={"token": Integer(1), "p": Integer(3)}), Lookup(Integer(0), P), FREE, "token"
    )
    assert not index_legal(reading, X, FREE, "token")


def test_leaves():
    assert leaves_legal(reading, 1, sympy.tanh(X) + 1, FREE, {OWN: "n"})
    assert not leaves_legal(reading, 0, X, FREE, {OWN: "n"})
    assert not leaves_legal(reading, 1, X, {}, {OWN: "n"})
    assert not leaves_legal(reading, 1, X, FREE, {OWN: "k"})
    bound = axis_symbol("token′1")
    assert leaves_legal(reading, 1, AxisSum(X.xreplace({TOKEN: bound}), bound, Symbol("token")), {}, {OWN: "n"})
    assert vector_legal(reading, 1, X, FREE, "n") and not vector_legal(reading, 1, X, FREE, "k")


def test_symbols():
    known = reading.known.numbers
    assert γ <= known and size_symbol("token") in known and tp.n in known
    assert symbols_known(X * tp.n * GaussMean(G, G), known) and not symbols_known(Symbol("q") * X, known)
    assert not symbols_known(G * X, known) and not symbols_known(TOKEN * X, known)


def test_heads_and_numbers():
    assert heads_known(sympy.exp(X) ** 2 * sympy.pi) and not heads_known(sympy.gamma(X))
    assert not heads_known(sympy.Float(1.5)) and not heads_known(sympy.DiracDelta(X, 1))
    assert real(sympy.log(2) * X) and not real(X + sympy.acos(2)) and not real(X + sympy.oo)
    assert number_legal(reading, None) and number_legal(reading, sympy.sqrt(tp.n) * next(iter(γ)))
    assert not any(number_legal(reading, odd) for odd in (3, X, sympy.nan, Symbol("q"), sympy.I))
