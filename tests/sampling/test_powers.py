"""Which powers of n are fitted."""

from __future__ import annotations

from fractions import Fraction

import tplimits as tp
from tplimits.law.observables import observables
from tplimits.sampling.claims import Claim
from tplimits.sampling.powers import series

WHOLE, HALVES = (Fraction(1),), (Fraction(1, 2), Fraction(1))


def powers(program, claim=None, given=None):
    return series(program, {o.label: o for o in observables(program)}, claim or Claim("return", 0.0), given).powers


def test_programs_without_roots_of_n_have_whole_powers(programs):
    assert powers(programs.tied) == powers(programs.constant) == powers(programs.gram) == WHOLE


def test_shaped_activations_have_odd_powers_of_the_root(programs):
    assert powers(programs.shaped) == HALVES


def test_the_root_counts_only_upstream_of_the_claim():
    @tp.program
    def both(x: tp.Vector):
        plain = tp.avg(x * x)
        shaped = tp.avg(tp.tanh(x) * x / tp.sqrt(tp.n))
        return plain + shaped

    assert powers(both) == HALVES and powers(both, Claim("plain", 1.0)) == WHOLE


def test_covariances_of_bare_fluctuation_scalars_have_whole_powers(programs):
    label = "return[0]"
    assert powers(programs.fluctuation, Claim(label, 1.0, statistic="covariance")) == WHOLE
    assert powers(programs.fluctuation, Claim(label, 0.0, 0.0, "covariance", "return[1]")) == WHOLE
    assert powers(programs.fluctuation, Claim(label, 0.0)) == HALVES


def test_functions_of_fluctuation_scalars_have_halves():
    @tp.program
    def gate(u: tp.Vector, v: tp.Vector):
        s = tp.avg(u * v) * tp.sqrt(tp.n)
        return tp.tanh(s)

    assert powers(gate, Claim("return", 0.4, statistic="covariance")) == HALVES


def test_constants_bring_their_powers_in():
    @tp.program
    def scaled(x: tp.Vector, *, c):
        return tp.avg(tp.relu(c * x))

    bound = scaled.bind(c=1 + 1 / tp.sqrt(tp.n))
    assert powers(bound) == HALVES
    assert powers(scaled, given={"c": 1 + 1 / tp.n}) == WHOLE
    assert powers(scaled, given={"c": 1 + 1 / tp.sqrt(tp.n)}) == HALVES
    assert powers(scaled, given={"c": 2.0}) == WHOLE


def test_initial_laws_bring_their_powers_in():
    @tp.program
    def law(x: tp.Vector = tp.init(mean=1 / tp.sqrt(tp.n), std=1)):  # noqa: B008  # the law is the default
        return tp.avg(tp.relu(x))

    assert powers(law) == HALVES


def test_brackets_look_at_both_vectors():
    @tp.program
    def vectors(x: tp.Vector, y: tp.Vector):
        return x * (1 + 1 / tp.sqrt(tp.n))

    assert powers(vectors, Claim("⟨return|return⟩", 1.0)) == HALVES


def test_kinks_that_scalars_reach_have_halves_and_those_of_vectors_do_not():
    """E|avg(x y)| falls like n^(−1/2): L + b/n would point at .05 for a limit of 0."""

    @tp.program
    def gate(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x * y)
        return tp.maximum(s, 0), tp.avg(tp.abs(s * x)), tp.avg(tp.relu(x - tp.avg(x)))

    assert powers(gate, Claim("return[0]", 0.0)) == powers(gate, Claim("return[1]", 0.0)) == HALVES
    assert powers(gate, Claim("return[2]", 0.4)) == WHOLE
    limit = tp.derive(gate)
    assert tp.check(limit, widths=(32, 64, 128, 256), draws=(3000, 2000, 1000, 500)).accepted
    wrong = {"return[0]": 0.05, "return[1]": 0.0, "return[2]": 0.4}
    assert not tp.check(limit, claims=wrong, widths=(32, 64, 128, 256), draws=(3000, 2000, 1000, 500)).accepted


def test_sums_and_functions_of_fluctuations_in_one_expression_are_not_bare():
    @tp.program
    def mixed(u: tp.Vector, v: tp.Vector):
        s = tp.avg(u * v)
        return tp.sqrt(tp.n) * s + s, tp.tanh(tp.sqrt(tp.n) * s), 2 * tp.sqrt(tp.n) * s, s * tp.sqrt(tp.n) / (1 + s)

    wanted = (HALVES, HALVES, WHOLE, WHOLE)
    for i, expected in enumerate(wanted):
        assert powers(mixed, Claim(f"return[{i}]", 1.0, statistic="covariance")) == expected, i
