"""Averages over neurons: the order of an OuterNonlin, fusion, and what would need a matrix."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.nodes.kinds import Avg, OuterNonlin


def orders(program):
    return [s.order for s in program if isinstance(s, OuterNonlin)]


def test_avg_is_the_mean_over_the_width_a_value_lives_on():
    @tp.program
    def two(x: tp.Vector, y: tp.Vector["k"], U: tp.Matrix["k", "n"]):
        return tp.avg(x), tp.avg(y)

    averages = [s for s in two if isinstance(s, Avg)]
    assert [s.over for s in averages] == ["n", "k"]
    ran = two.run(n=2, ratios={"k": 2}, x=[1, 2], y=[1, 2, 3, 6])
    assert (ran["return[0]"], ran["return[1]"]) == (1.5, 3)


def test_a_named_neuron_takes_the_width_of_the_vector_it_indexes():
    @tp.program
    def cross(x: tp.Vector, y: tp.Vector["k"], U: tp.Matrix["k", "n"]):
        β = tp.neuron("β")
        return tp.avg(tp.tanh(x * y[β]), over=β)

    (nonlin,) = [s for s in cross if isinstance(s, OuterNonlin)]
    assert (nonlin.over, nonlin.slot_widths, nonlin.slot_names, nonlin.order) == ("n", ("k",), ("β",), 2)


def test_nested_linear_averages_fuse():
    @tp.program
    def nested(u: tp.Vector, v: tp.Vector, w: tp.Vector):
        β, γ = tp.neuron("β"), tp.neuron("γ")
        inner = tp.avg(tp.tanh(u * v[β] * w[γ]), over=γ)
        return tp.avg(v[β] * (2 * inner + u) / 3, over=β)

    assert orders(nested) == [3]
    rng = np.random.default_rng(0)
    u, v, w = rng.normal(size=(3, 5))
    inner = np.tanh(u[:, None, None] * v[None, :, None] * w[None, None, :]).mean(axis=2)
    expected = (v * (2 * inner + u[:, None]) / 3).mean(axis=1)
    np.testing.assert_allclose(nested.run(n=5, u=u, v=v, w=w)["return"], expected, atol=1e-13)


def test_three_levels_fuse():
    @tp.program
    def three(u: tp.Vector):
        β, γ, δ = map(tp.neuron, "βγδ")
        a = tp.avg(tp.tanh(u * u[β] + u[γ] - u[δ]), over=δ)
        b = tp.avg(a - u[γ], over=γ)
        return tp.avg(u[β] * b - b, over=β)

    assert orders(three) == [4]
    u = np.random.default_rng(1).normal(size=4)
    grid = np.tanh(u[:, None, None, None] * u[None, :, None, None] + u[None, None, :, None] - u[None, None, None, :])
    b = (grid.mean(axis=3) - u[None, None, :]).mean(axis=2)
    np.testing.assert_allclose(three.run(n=4, u=u)["return"], (u * b - b).mean(axis=1), atol=1e-13)


def test_averaging_the_own_neuron_first():
    @tp.program
    def own_first(u: tp.Vector, v: tp.Vector):
        β = tp.neuron("β")
        return tp.avg(tp.avg(tp.tanh(u * v[β])), over=β)

    u, v = np.random.default_rng(2).normal(size=(2, 4))
    assert own_first.run(n=4, u=u, v=v)["return"] == pytest.approx(np.tanh(np.outer(u, v)).mean())


def test_several_neurons_at_once_give_a_scalar():
    @tp.program
    def kernel(u: tp.Vector, v: tp.Vector):
        β, γ = tp.neuron("β"), tp.neuron("γ")
        return tp.avg(tp.tanh(u[β] * v[γ]), over=(β, γ))

    u, v = np.random.default_rng(3).normal(size=(2, 4))
    assert kernel.run(n=4, u=u, v=v)["return"] == pytest.approx(np.tanh(np.outer(u, v)).mean())


def test_an_average_over_one_named_neuron_is_an_avg():
    @tp.program
    def plain(x: tp.Vector):
        β = tp.neuron("β")
        return tp.avg(x[β] ** 2, over=β) + tp.avg(x**2)

    assert orders(plain) == [1] and sum(isinstance(s, Avg) for s in plain) == 1


def test_an_average_without_its_neuron_is_a_vector_again():
    @tp.program
    def reused(u: tp.Vector, W: tp.Matrix):
        β = tp.neuron("β")
        y = tp.avg(tp.tanh(u * u[β]), over=β)
        return tp.tanh(W @ y)

    assert orders(reused) == [2, 1]


def test_neurons_and_finite_axes_together():
    @tp.program
    def heads(x: tp.Vector["token"], y: tp.Vector["token"]):
        β = tp.neuron("β")
        z = tp.avg(tp.tanh(x * x[β].rename(token="key")) * y.sel(token=0)[β], over=β)
        return tp.sum(z, over="key")

    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 2, 3))
    z = (np.tanh(x[:, None, :, None] * x[None, :, None, :]) * y[0]).mean(axis=3)
    np.testing.assert_allclose(heads.run(n=3, x=x, y=y)["return"], z.sum(axis=1), atol=1e-13)


def nonlinear(x, β, γ):
    return tp.tanh(tp.avg(x[β] * x[γ] * x, over=γ))


def squared(x, β, γ):
    y = tp.avg(x[β] * x[γ] * x, over=γ)
    return y * y


def inverse(x, β, γ):
    return 1 / tp.avg(x[β] * x[γ] * x, over=γ)


def quotient(x, β, γ):
    return x / tp.avg(x[β] * x[γ] * x, over=γ)


def power(x, β, γ):
    return tp.avg(x[β] * x[γ] * x, over=γ) ** 2


@pytest.mark.parametrize("use", [nonlinear, squared, inverse, quotient, power])
def test_a_nonlinear_function_of_an_average_with_a_free_neuron_is_refused(use):
    with pytest.raises(ProgramError, match=r"a matrix-valued intermediate\); average the other neuron first"):

        @tp.program
        def matrix_valued(x: tp.Vector):
            β, γ = tp.neuron("β"), tp.neuron("γ")
            return tp.avg(use(x, β, γ), over=β)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x, y, β: tp.avg(tp.avg(x)), "tp.avg of a scalar; a scalar needs no average"),
        (lambda x, y, β: tp.avg(x[β]), r"say over which neuron: tp\.avg\(…, over=β\)"),
        (lambda x, y, β: tp.avg(x, over=β), r"tp\.avg over β of a vector over `n`; index a vector by it first: x\[β\]"),
        (lambda x, y, β: tp.avg(x, over="token"), "finite axes use tp.mean"),
        (lambda x, y, β: tp.avg(x[β], over=(β, β)), "over= takes"),
        (lambda x, y, β: tp.avg(x[β], over=()), "over= takes"),
        (lambda x, y, β: tp.avg(3), "tp.avg of a value of type int"),
        (lambda x, y, β: tp.avg(x[β][β]), "only a vector has a neuron index"),
        (lambda x, y, β: tp.avg((x * x[β])[β], over=β), "where β is already in use; use a second tp.neuron"),
        (lambda x, y, β: tp.avg(x[β] * y[β], over=β), "β on a vector over `k`, but it runs over `n`"),
        (lambda x, y, β: tp.avg(x)[β], r"`\[β\]` on a scalar; only a vector has a neuron index"),
        (lambda x, y, β: tp.avg(x * tp.neuron(3)), "give the index a name"),
        (lambda x, y, β: x * y, "entrywise arithmetic between vectors over `k` and `n`"),
    ],
)
def test_ill_formed_averages(use, words):
    with pytest.raises(ProgramError, match=words):

        @tp.program
        def ill(x: tp.Vector, y: tp.Vector["k"], U: tp.Matrix["k", "n"]):
            return use(x, y, tp.neuron("β"))
