"""Finite axes, constants and widths as functions of `tp`."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language import operations
from tplimits.program.nodes.kinds import Avg, OuterNonlin, ScalarNonlin


def test_sum_mean_softmax_over_one_axis_or_several():
    @tp.program
    def reductions(s: tp.Scalar["a", "b", "c"]):
        return (
            tp.sum(s, over="b"),
            tp.mean(s, over=("c", "a")),
            tp.softmax(s, over="a"),
            tp.softmax(s, over=("a", "b")),
            tp.sum(tp.sum(s, over="a"), over="b"),
        )

    s = np.random.default_rng(0).normal(size=(2, 3, 4))
    ran = reductions.run(n=1, s=s)
    e = np.exp(s)
    expected = [s.sum(1), s.mean((0, 2)), e / e.sum(0), e / e.sum((0, 1)), s.sum((0, 1))]
    for i, value in enumerate(expected):
        np.testing.assert_allclose(ran[f"return[{i}]"], value, atol=1e-14)


def test_constants_of_any_numeric_type_and_dimension():
    @tp.program
    def constants(x: tp.Vector):
        a = tp.constant(np.array([[True, False], [False, True]]), axes=("i", "j"))
        b = tp.constant(range(2), axes="i")
        c = tp.constant(np.float32(0.5))
        return tp.sum(a * b, over="i") * c * x, tp.constant(np.arange(4, dtype=np.int8).reshape(2, 2), axes=("j", "i"))

    ran = constants.run(n=1, x=[4.0])
    np.testing.assert_allclose(ran["return[0]"], [[0], [2]])
    np.testing.assert_allclose(ran["return[1]"], np.arange(4).reshape(2, 2).T, err_msg="axes in order of declaration")


def test_equal_constant_arrays_are_one():
    @tp.program
    def same(x: tp.Vector["a"]):
        return x * tp.constant([1, 2], axes="a") + tp.constant(np.array([1.0, 2.0]), axes="a")

    assert len(same.arrays) == 1


def test_a_constant_array_does_not_follow_its_source():
    data = np.array([1.0, 2.0])

    @tp.program
    def held(x: tp.Vector):
        return x * tp.constant(data, axes="a")

    data[0] = 100
    assert held.run(n=1, x=[1.0])["return"].ravel().tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        held.arrays[0].values[0] = 5


def test_entries_of_constant_arrays_are_no_numbers_to_sympy():
    @tp.program
    def entries(x: tp.Vector):
        c = tp.constant([2.0, -3.0], axes="a")
        return (
            tp.relu(c.sel(a=0) * c.sel(a=1))
            + tp.maximum(c.sel(a=0), c.sel(a=1))
            + abs(c.sel(a=1)) ** c.sel(a=0)
            + 0 * x
        )

    assert entries.run(n=1)["return"] == [2 + 9]


def test_sizes_and_widths_as_symbols():
    @tp.program
    def scaled(x: tp.Vector["token"], y: tp.Vector["k"], U: tp.Matrix["k", "n"]):
        return tp.size("token") * tp.avg(x) + tp.avg(y) / tp.width("k") + tp.sqrt(tp.n)

    ran = scaled.run(n=4, ratios={"k": 2}, x=np.ones((3, 4)), y=np.full(8, 16))
    np.testing.assert_allclose(ran["return"], 3 + 2 + 2)


def test_a_shaped_activation_and_a_fluctuation():
    @tp.program
    def shaped(q: tp.Vector, k: tp.Vector, *, c):
        return tp.avg(q * k) * tp.sqrt(tp.n), (1 + c / tp.sqrt(tp.n)) * tp.relu(q)

    assert [type(shaped[p]) for p in shaped.returns] == [ScalarNonlin, OuterNonlin]
    ran = shaped.run(n=4, q=[1, -1, 2, 0], k=[1, 1, 1, 1], c=3)
    assert ran["return[0]"] == 1 and ran["return[1]"].tolist() == [2.5, 0, 5, 0]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x: tp.constant([1, np.nan], axes="a"), "NaN or infinite entries; constants must be finite numbers"),
        (lambda x: tp.constant([1, np.inf], axes="a"), "NaN or infinite entries"),
        (lambda x: tp.constant([1j, 1], axes="a"), "tp.constant of a complex array; programs are real"),
        (lambda x: tp.constant(["a", "b"], axes="a"), "tp.constant of an array of <U1; give an array of numbers"),
        (
            lambda x: tp.constant(np.ma.masked_array([1, 2], mask=[0, 1]), axes="a"),
            "no array .a masked array, whose mask",
        ),
        (lambda x: tp.constant([x, x], axes="a"), "a traced value used as a"),
        (lambda x: tp.constant([[1], [1, 2]], axes="a"), "tp.constant of something that is no array"),
        (lambda x: tp.constant(None), "tp.constant of an array of object"),
        (
            lambda x: tp.constant([[1, 2]], axes="a"),
            r"an array with 2 dimensions and axes \('a',\); give one name for each",
        ),
        (lambda x: tp.constant([[1, 2]], axes=("a", "a")), "all different"),
        (lambda x: tp.constant([1, 2]), r"an array with 1 dimensions and axes \(\)"),
        (
            lambda x: tp.constant(np.zeros((2, 0)), axes=("a", "b")),
            "the axis `b` of size 0; an axis needs at least one",
        ),
        (lambda x: tp.constant([1, 2], axes="n"), "`n` used as a finite axis; `n` is a width"),
        (lambda x: tp.constant([1, 2], axes="2a"), "the axis name '2a'; an axis name is a Python identifier"),
        (lambda x: x * tp.size("key"), r"tp\.size\('key'\); the finite axes so far are \(token\)"),
        (lambda x: x * tp.width("k"), r"tp\.width\('k'\); the widths of this program are \(n\)"),
        (lambda x: tp.softmax(3, over="token"), "tp.softmax of a value of type int; it takes a value of the program"),
    ],
)
def test_what_cannot_be_made(use, words):
    with pytest.raises(ProgramError, match=words):

        @tp.program
        def ill(x: tp.Vector["token"]):
            return use(x)


def test_constants_outside_a_program():
    with pytest.raises(ProgramError, match="outside a program; use it inside a function decorated with"):
        tp.constant([1, 2], axes="a")


def test_everything_public_is_a_function_of_tp_with_a_sentence():
    public = [name for name in dir(tp) if hasattr(operations, name) and not name.startswith("_")]
    assert len(public) > 30
    for name in public:
        assert getattr(tp, name) is getattr(operations, name)
        if name != "n":
            assert getattr(operations, name).__doc__.strip()


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
