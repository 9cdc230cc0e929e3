"""What a zero is measured against: the root mean square of what is averaged."""

from __future__ import annotations

import numpy
import pytest

import tplimits as tp
from tplimits.law.observables import observables
from tplimits.sampling.sample import Sampler


def scales(program, n=64, draws=4000, seed=0):
    found = Sampler(program, observables(program), seed).run(n, 0, draws)
    return {o.label: s for o, s in zip(observables(program), found.scale, strict=True)}


def test_of_an_average_it_is_that_of_the_entries(programs):
    """x ⊙ W W x has entries that are products of independent N(0, 1) in the limit: root mean square 1."""
    assert scales(programs.twice, draws=400)["return"] == pytest.approx(1, rel=0.1)


def test_of_a_function_of_scalars_the_derivatives_carry_it(programs):
    """f = ⟨h²⟩ − ⟨h³⟩ tends to 1; its parts average entries of mean square 3 and 15: √18."""
    found = scales(programs.gram, n=256, draws=200)
    assert found["return"] == pytest.approx(18**0.5, rel=0.1)
    assert found["square"] == pytest.approx(3**0.5, rel=0.1)


def test_of_a_fluctuation_scalar_it_is_its_own_size(programs):
    found = scales(programs.fluctuation)
    assert list(found)[:2] == ["return[0]", "return[1]"]
    assert found["return[0]"] == pytest.approx(1, rel=0.1) and found["return[1]"] == pytest.approx(1, rel=0.1)


def test_it_is_never_smaller_than_the_value():
    @tp.program
    def powers(x: tp.Vector):
        m = tp.avg(x * x)
        return m**2 / m**2

    assert scales(powers, draws=20)["return"] >= 1


def test_functions_of_functions_and_kinks():
    """θ = |⟨x³⟩|, η = 2 relu(θ) + θ: dη/dθ = 3, x³ has mean square 15."""

    @tp.program
    def chain(x: tp.Vector):
        cube = tp.avg(x**3)
        θ = tp.abs(cube)
        η = 2 * tp.relu(θ) + θ
        return tp.step(η) * 0 + η

    assert scales(chain, n=256)["return"] == pytest.approx(3 * 15**0.5, rel=0.1)


def test_families_are_read_entry_by_entry():
    @tp.program
    def pair(x: tp.Vector["token"], c: tp.Scalar["token"]):
        weight = tp.avg(x * x) * c
        return tp.sum(weight, over="token")

    program = pair.bind(token=2)
    found = Sampler(program, observables(program), 0, given={"c": numpy.array([1.0, 10.0])}).run(256, 0, 200)
    by_label = {o.label: s for o, s in zip(observables(program), found.scale, strict=True)}
    assert by_label["return"] == pytest.approx((3 * 101) ** 0.5, rel=0.1), "given scalars are no averages"
