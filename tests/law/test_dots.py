"""Deltas beside jumps: the products that have no value of their own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import sympy
from sympy import DiracDelta, sign

import tplimits as tp
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.rules.dots import NotAFunction, beside_jump, coefficient, solved
from tplimits.law.rules.matmul import _ambiguous
from tplimits.program.nodes.functions import JUMPS, step

x, y = sympy.symbols("x y", real=True)


@pytest.mark.parametrize(
    ("derivative", "ambiguous"),
    [
        (DiracDelta(x) * sign(x), True),
        (DiracDelta(x) * y + sympy.sin(x) * sign(x), False),
        (DiracDelta(x) * (y + step(x)), True),  # multiplied out
        (DiracDelta(x + sign(x)) * y, True),  # inside
        (DiracDelta(x), False),
        (sympy.exp(x) * sign(y), False),
    ],
    ids=str,
)
def test_a_delta_beside_a_jump_or_around_one(derivative, ambiguous):
    assert beside_jump(derivative, lambda factor: factor.has(*JUMPS)) is ambiguous


def test_deltas_behind_names_are_ambiguous_too():
    law = Gaussians()
    assert law.add("x", InitialSource(0, ())) == x
    delta, smooth = law.name_long("d", DiracDelta(x) * x), law.name_long("s", sympy.cos(x))
    state = SimpleNamespace(gaussians=law)
    cases = {delta * x: True, smooth * x: False, DiracDelta(x) * smooth: False, DiracDelta(x) * delta: True}
    cases |= {DiracDelta(x) * sign(x): True, DiracDelta(x) * x: False, sympy.sin(x): False}
    assert {d: _ambiguous(state, d) for d in cases} == cases


def test_the_form_that_gave_a_coefficient_is_told():
    def refused():
        raise NotAFunction

    assert coefficient(lambda: x, lambda: y) == (x, "derivative")
    assert coefficient(refused, lambda: y) == (y, "Stein")
    gram, products = [[2, 1], [1, 3]], [x, y]
    one, two = solved(gram, products)
    assert sympy.simplify(2 * one + two - x) == 0 == sympy.simplify(one + 3 * two - y)


def test_a_ket_that_sees_no_hat_of_the_transpose_says_so():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg((W.T @ tp.tanh(x)) * (W @ x))

    told = [remark for step in tp.derive(program).state.steps for remark in step.remarks]
    assert told == ["|_3⟩ does not depend on hats of W", "|x⟩ does not depend on hats of Wᵀ"]
