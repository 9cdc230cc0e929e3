"""Program.run computes what a plain NumPy transcription computes with the same matrices."""

import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose

import tplimits as tp
from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.nodes import execution as running
from tplimits.program.nodes.execution import Execution

RNG = np.random.default_rng


def test_attention_over_tokens():
    @tp.program
    def attention(WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, x: tp.Vector["token"], *, τ):
        q, k, v = WQ @ x, (WK @ x).rename(token="key"), (WV @ x).rename(token="key")
        A = tp.softmax(tp.avg(q * k) * tp.sqrt(tp.n) / τ, over="key")
        return tp.sum(A * v, over="key") + tp.mean(x, over="token")

    rng, n, m = RNG(0), 7, 4
    WQ, WK, WV, x = *rng.normal(size=(3, n, n)), rng.normal(size=(m, n))
    ran = attention.run(n=n, WQ=WQ, WK=WK, WV=WV, x=x, τ=2)
    A = scipy.special.softmax((x @ WQ.T) @ (x @ WK.T).T / n * np.sqrt(n) / 2, axis=1)
    assert_allclose(ran["A"], A, atol=1e-12)
    assert_allclose(ran["return"], A @ (x @ WV.T) + x.mean(axis=0), atol=1e-12)


def test_heads_with_two_widths():
    @tp.program
    def multihead(
        Q: tp.Matrix["k", "n", "head"],
        K: tp.Matrix["k", "n", "head"],
        V: tp.Matrix["k", "n", "head"],
        P: tp.Matrix["n", "k", "head"],
        x: tp.Vector["token"],
    ):
        q, k, v = Q @ x, (K @ x).rename(token="key"), (V @ x).rename(token="key")
        A = tp.softmax(tp.avg(q * k), over="key")
        return x + tp.sum(P @ tp.sum(A * v, over="key"), over="head") / tp.size("head")

    rng, n, k, h, m = RNG(1), 4, 8, 3, 2
    Q, K, V = rng.normal(size=(3, h, k, n))
    P, x = rng.normal(size=(h, n, k)), rng.normal(size=(m, n))
    ran = multihead.run(n=n, ratios={"k": 2}, Q=Q, K=K, V=V, P=P, x=x)["return"]
    expected = x.copy()
    for i in range(h):
        A = scipy.special.softmax((x @ Q[i].T) @ (x @ K[i].T).T / k, axis=1)
        expected += A @ (x @ V[i].T) @ P[i].T / h
    assert_allclose(ran, expected, atol=1e-12)


def test_order_two_and_three():
    @tp.program
    def orders(u: tp.Vector, v: tp.Vector, w: tp.Vector["k"], U: tp.Matrix["k", "n"]):
        β, γ = tp.neuron("β"), tp.neuron("γ")
        second = tp.avg(tp.tanh(u * v[β]) * v[β], over=β)
        third = tp.avg(tp.relu(u * v[β] + w[γ]) * tp.tanh(second[β] + w[γ]), over=(β, γ))
        return tp.avg(third * second), U @ third

    rng, n = RNG(2), 6
    u, v, w, U = rng.normal(size=n), rng.normal(size=n), rng.normal(size=12), rng.normal(size=(12, n))
    ran = orders.run(n=n, ratios={"k": 2}, u=u, v=v, w=w, U=U)
    second = (np.tanh(np.outer(u, v)) * v).mean(axis=1)
    third = np.maximum(np.outer(u, v)[:, :, None] + w, 0) * np.tanh(second[None, :, None] + w)
    third = third.mean(axis=(1, 2))
    assert_allclose(ran["second"], second, atol=1e-13)
    assert_allclose(ran["third"], third, atol=1e-13)
    assert ran["return[0]"] == pytest.approx((third * second).mean())
    assert_allclose(ran["return[1]"], U @ third, atol=1e-12)


def test_convolution_with_padding():
    taps = np.array([[-1, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, -1]])

    @tp.program
    def convolution(W: tp.Matrix["n", "n", "tap"], x: tp.Vector["pos"]):
        h = tp.sum(W @ tp.cos(x).take(pos=taps, axes=("tap", "pos")), over="tap")
        return tp.relu(h) / tp.sqrt(tp.size("tap"))

    rng, n = RNG(3), 5
    W, x = rng.normal(size=(3, n, n)), rng.normal(size=(4, n))
    padded = np.vstack([np.zeros(n), np.cos(x), np.zeros(n)])
    expected = sum(padded[t : t + 4] @ W[t].T for t in range(3))
    ran = convolution.run(n=n, W=W, x=x)["return"]
    assert_allclose(ran, np.maximum(expected, 0) / np.sqrt(3), atol=1e-12)


def test_backpropagation_written_by_hand():
    @tp.program
    def network(W1: tp.Matrix, W2: tp.Matrix, x: tp.Vector, v: tp.Vector):
        h1 = W1 @ x
        h2 = W2 @ tp.tanh(h1)
        dh2 = v * (1 - tp.tanh(h2) ** 2)
        dh1 = (W2.T @ dh2) * (1 - tp.tanh(h1) ** 2)
        return tp.avg(v * tp.tanh(h2)), tp.avg(dh1 * h1)

    rng, n = RNG(4), 5
    W1, W2, x, v = *rng.normal(size=(2, n, n)), *rng.normal(size=(2, n))
    ran = network.run(n=n, W1=W1, W2=W2, x=x, v=v)
    h1 = W1 @ x
    h2 = W2 @ np.tanh(h1)
    dh1 = (W2.T @ (v / np.cosh(h2) ** 2)) / np.cosh(h1) ** 2
    assert_allclose([ran["return[0]"], ran["return[1]"]], [(v * np.tanh(h2)).mean(), (dh1 * h1).mean()])


def test_scalars_constants_and_widths():
    @tp.program
    def scalars(x: tp.Vector, b: tp.Scalar["d"], s: tp.Scalar = 0.25, *, γ, τ=2):
        c = tp.constant([[1.0, 2.0], [3.0, 4.0]], axes=("d", "e"))
        return tp.sum(c * b, over=("d", "e")) * tp.avg(x) * s + γ / (τ * tp.sqrt(tp.n)) + tp.mean(c, over="e")

    ran = scalars.run(n=4, x=[1, 2, 3, 4], b=[0.5, -2.0], γ=8)["return"]
    assert_allclose(ran, (0.5 * 3 - 2 * 7) * 2.5 * 0.25 + 8 / (2 * 2) + np.array([1.5, 3.5]))


@pytest.mark.long
def test_expectations_are_constants():
    @tp.program
    def centred(x: tp.Vector, *, γ):
        shift = tp.expect(lambda g: tp.relu(g) ** 2)
        slope = tp.expect(lambda g: tp.expect(lambda h: tp.where(g - h, 1, 0) * γ * g))
        return x - shift, slope * x, tp.expect(lambda g: tp.exp(γ * g)) * x

    ran = centred.run(n=1, x=[1.0], γ=3)
    assert ran["return[0]"] == pytest.approx(1 - 1 / 2, abs=1e-12)
    assert ran["return[1]"] == pytest.approx(3 / (2 * np.sqrt(np.pi)), abs=1e-12)
    assert ran["return[2]"] == pytest.approx(np.exp(4.5), rel=1e-12)


# -- drawing --------------------------------------------------------------------------------------


LAW = tp.init(mean=1, std=2)


@tp.program
def drawn(W: tp.Matrix, U: tp.Matrix["k", "n"], x: tp.Vector, h: tp.Vector["k"] = LAW, g: tp.Vector = 3):
    return tp.avg(U.T @ h), tp.avg(W @ x * g)


def test_what_is_not_given_is_drawn_from_its_law():
    ran = drawn.run(n=2000, seed=5, ratios={"k": 0.5})
    assert ran["W"].shape == (2000, 2000) and ran["U"].shape == (1000, 2000)
    sigmas = 5 / np.sqrt([2 * ran["W"].size, 2 * ran["U"].size])
    assert_allclose([ran["W"].std() ** 2 * 2000, ran["U"].std() ** 2 * 2000], 1, atol=2 * sigmas.max())
    assert abs(ran["h"].mean() - 1) < 5 * 2 / np.sqrt(1000) and abs(ran["h"].std() - 2) < 0.25
    assert (ran["g"] == 3).all()
    assert abs(ran["x"].mean()) < 5 / np.sqrt(2000)


def test_the_same_seed_gives_the_same_numbers():
    one, two, three = drawn.run(n=8, seed=1), drawn.run(n=8, seed=1), drawn.run(n=8, seed=2)
    assert one["return[0]"] == two["return[0]"] != three["return[0]"]


def test_draws_are_independent_rows():
    execution = Execution(drawn, 8, 3, RNG(0), {"k": 2}).run()
    assert execution.width == {"n": 8, "k": 16}
    assert [a.shape for a in execution.arrays[:4]] == [(3, 8, 8), (3, 16, 8), (3, 8), (3, 16)]
    assert len({float(v) for v in execution.arrays[drawn.position("return[0]")]}) == 3


def test_given_arrays_stand_for_every_draw():
    @tp.program
    def order_two(x: tp.Vector, W: tp.Matrix):
        β = tp.neuron("β")
        return tp.avg(tp.tanh(x * (W @ x)[β]), over=β)

    x = RNG(1).normal(size=5)
    execution = Execution(order_two, 5, 4, RNG(2), given={"x": x}).run()
    for draw in range(4):
        W = execution.arrays[1][draw]
        assert_allclose(execution.arrays[-1][draw], np.tanh(np.outer(x, W @ x)).mean(axis=1), atol=1e-13)


def test_large_averages_in_slices(monkeypatch):
    @tp.program
    def sliced(x: tp.Vector["token"], y: tp.Vector["k"], U: tp.Matrix["k", "n"]):
        β = tp.neuron("β")
        return tp.avg(tp.sum(tp.tanh(x * y[β]), over="token"), over=β)

    whole = Execution(sliced.bind(token=2), 7, 5, RNG(3), {"k": 2}).run().arrays[-1]
    for chunk in (1, 100, 300):
        monkeypatch.setattr(running, "_CHUNK", chunk)
        assert_allclose(Execution(sliced.bind(token=2), 7, 5, RNG(3), {"k": 2}).run().arrays[-1], whole, atol=1e-14)


def test_run_returns_numbers_and_arrays_under_every_name():
    ran = drawn.run(n=4)
    assert set(ran) == set(drawn.names)
    assert isinstance(ran["return[0]"], float) and ran["x"].flags.writeable


def test_arrays_fix_sizes():
    @tp.program
    def tokens(x: tp.Vector["token"], y: tp.Scalar["key"]):
        renamed = tp.sum(x.rename(token="t"), over="t")
        return tp.mean(x, over="token") + tp.sum(y, over="key") / tp.size("token") + renamed

    x, y = RNG(4).normal(size=(3, 2)), np.ones(5)
    assert_allclose(tokens.run(n=2, x=x, y=y)["return"], x.mean(axis=0) + 5 / 3 + x.sum(axis=0))


# -- what cannot be run -----------------------------------------------------------------------


@tp.program
def demanding(x: tp.Vector["token"], y: tp.Vector["token"], b: tp.Scalar, W: tp.Matrix["k", "n"], *, γ):
    return γ * b * tp.sum(x * y, over="token")


GIVEN = {"x": np.ones((2, 3)), "y": np.ones((2, 3)), "b": 1, "γ": 1}


def test_the_demanding_program_runs_with_everything_given():
    assert demanding.run(n=3, **GIVEN)["return"].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"γ": None}, EvaluationError, "the constant `γ` of `demanding` has no value: give γ=…"),
        ({"b": None}, EvaluationError, "`b` is given a value of type NoneType"),
        ({"x": np.ones((2, 4))}, EvaluationError, r"`x` has shape \(2, 4\); it needs \(2, 3\)"),
        ({"x": np.ones(3)}, EvaluationError, r"`x` has shape \(3,\)|along `token`"),
        ({"x": np.ones((4, 3))}, EvaluationError, "`y` has 2 entries along `token`, but that axis has 4 elsewhere"),
        ({"x": np.full((2, 3), np.nan)}, EvaluationError, "`x` has NaN or infinite entries"),
        ({"x": "text"}, EvaluationError, "`x` is given a value of type str; it takes an array of numbers"),
        ({"x": [[1, 2], [3]]}, EvaluationError, "`x` is given a value of type list"),
        ({"z": 1}, EvaluationError, "`z` is not initial data or a constant of `demanding`; it has W, b, x, y, γ"),
        ({"γ": "2"}, ProgramError, "γ='2': a constant is a finite real number"),
        ({"n": 0}, EvaluationError, r"run\(n=0\): the width is a positive whole number"),
        ({"n": 2.0}, EvaluationError, "the width is a positive whole number"),
        ({"n": "3"}, EvaluationError, "the width is a positive whole number"),
        ({"ratios": {"m": 1}}, EvaluationError, "the widths of `demanding` besides n are k"),
        ({"ratios": {"k": -1}}, EvaluationError, "a ratio of widths is a positive number"),
        ({"ratios": {"k": "1"}}, EvaluationError, "a ratio of widths is a positive number"),
        ({"constants": {"x": 1}}, EvaluationError, "`x` is given twice"),
    ],
)
def test_bad_arguments_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        demanding.run(**{"n": 3, **GIVEN, **changes})


def test_open_sizes_and_values_are_refused():
    with pytest.raises(ProgramError, match=r"the axis `token` .* has no size: fix it with \.bind\(token=…\)"):
        demanding.run(n=3, b=1, γ=1)
    with pytest.raises(EvaluationError, match="the scalar `b` has no value: give b=…"):
        demanding.bind(token=1).run(n=3, γ=1)


def test_a_constant_may_have_the_name_of_an_argument_of_run():
    @tp.program
    def seeded(x: tp.Vector, *, seed, ratios=3):
        return seed * ratios * x

    assert seeded.run(n=1, x=[1.0], constants={"seed": 2})["return"] == [6]


def test_constants_may_be_expressions():
    @tp.program
    def scaled(x: tp.Vector, *, γ, τ):
        return γ * τ * x

    assert scaled.run(n=16, x=np.ones(16), γ=1 / tp.sqrt(tp.n), τ=3)["return"][0] == 0.75


def test_a_softmax_of_large_numbers_does_not_overflow():
    """exp(3000) is infinite; differences are not."""

    @tp.program
    def weights(x: tp.Scalar["key"], y: tp.Scalar["a", "b"]):
        return tp.softmax(3 * x, over="key"), tp.softmax(y, over=("a", "b"))

    found = weights.run(n=1, x=[0, 1000, 1000 - np.log(3) / 3], y=[[2000, -5], [2000, 1]])
    assert np.allclose(found["return[0]"], [0, 0.75, 0.25], rtol=1e-12)
    assert np.allclose(found["return[1]"], [[0.5, 0], [0.5, 0]], rtol=1e-12)
