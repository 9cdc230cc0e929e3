"""Profiles along a width: functions of the places of neurons, in every engine."""

import numpy as np
import pytest
import scipy.integrate
import sympy

import tplimits as tp
from tplimits.program.network.parameters import at_rest
from tplimits.regimes.training.trainer.trainer import Trainer

TOKENS, ERROR = np.array([[0, 1, 2], [2, 1, 4]]), tp.squared_error([1.0, -1.0])
PLACES = np.arange(3.0)
TRAINED = {"X": TOKENS, "error": ERROR, "lr": 3.0, "steps": 2, "widths": (64, 128, 256), "draws": (200, 150, 100)}


def decoder(faster=1):
    """Tokens with sines of their positions, at frequencies that fall along the width; and a layer."""

    @tp.network
    def positions(ξ: tp.Input["t"].of("vocab"), u: tp.Vector.grid(), E: tp.Vector["vocab"], W: tp.Matrix, v: tp.Vector):
        angle = faster * tp.constant(PLACES, axes="t") * tp.exp(-4 * u)
        x = tp.layers.embedding(ξ, E) + tp.sin(angle) + tp.cos(angle)
        return v * tp.mean(tp.tanh(W @ x), over="t")

    return positions.bind(vocab=5)


NET, FASTER = decoder(), decoder(3)


@tp.program
def profile(u: tp.Vector.grid(), W: tp.Matrix, x: tp.Vector):
    s = tp.sin(3 * tp.exp(-2 * u))
    return tp.avg(s * s), tp.avg(s * tp.relu(W @ (s * x)) ** 2)


# -- the language ---------------------------------------------------------------------------------


def test_places_are_the_same_in_every_draw_and_files_keep_them():
    assert (
        profile.run(n=4, seed=1)["u"].tolist() == profile.run(n=4, seed=2)["u"].tolist() == [0.125, 0.375, 0.625, 0.875]
    )
    assert tp.from_json(tp.to_json(profile)) == profile and "(j + 1/2)/n" in str(profile)
    assert at_rest(NET) == ("u",)


def test_tables_of_other_programs_are_exact_with_a_correction_of_order_one_over_n():
    """Frequencies 10000^(−2j/d), d = 2n, as they are usually written: at j/n, not at (j + ½)/n."""

    @tp.program
    def table(u: tp.Vector.grid()):
        return tp.sin(5 * tp.exp(-(u - 1 / (2 * tp.n)) * sympy.log(10000)))

    j = np.arange(8)
    assert np.allclose(table.run(n=8)["return"], np.sin(5 * 10000.0 ** (-2 * j / 16)), rtol=1e-13)
    assert tp.derive(table)


def two_of_them(u: tp.Vector.grid(), w: tp.Vector.grid()):
    return tp.avg(u * w)


def with_axes(u: tp.Vector["a"].grid()):
    return tp.avg(u)


@pytest.mark.parametrize("function", [two_of_them, with_axes])
def test_a_width_has_one_vector_of_places(function):
    with pytest.raises(tp.ProgramError, match="places of neurons have no finite axes, and a width has one vector"):
        tp.program(function)


@pytest.mark.parametrize("kind", [tp.Matrix, tp.Scalar])
def test_matrices_and_scalars_have_no_places(kind):
    with pytest.raises(tp.ProgramError, match=r"places of neurons are a vector: u: tp\.Vector\.grid"):
        kind["a", "b"].grid()


# -- limits ---------------------------------------------------------------------------------------


def test_averages_over_places_are_integrals():
    def f(u):
        return np.sin(3 * np.exp(-2 * u))

    mean, square = scipy.integrate.quad(f, 0, 1)[0], scipy.integrate.quad(lambda u: f(u) ** 2, 0, 1)[0]
    found = tp.derive(profile).evaluate()
    assert abs(found["return[0]"].value - square) < 1e-12 and abs(found["return[1]"].value - mean * square / 2) < 1e-12


@pytest.mark.sampling
def test_checks_of_averages_that_do_not_fluctuate():
    limit = tp.derive(profile)
    verdict = tp.check(limit, widths=(64, 128, 256), draws=(300, 200, 150))
    assert verdict.accepted
    wrong = {"return[0]": verdict.rows[0].claim.value * 1.001}
    assert not tp.check(limit, widths=(64, 128, 256), draws=(300, 200, 150), claims=wrong).accepted


def kernel_by_quadrature():
    """K of NET: E tanh tanh of images of E[token] + sin + cos, whose Gram matrix is an integral over places."""
    u, w = np.polynomial.legendre.leggauss(400)
    u, w = (u + 1) / 2, w / 2
    angle = PLACES[:, None] * np.exp(-4 * u)
    rows = np.sin(angle) + np.cos(angle)
    gram = (rows * w) @ rows.T
    tokens = TOKENS.ravel()
    G = (tokens[:, None] == tokens).astype(float) + np.tile(gram, (2, 2))
    g, v = np.polynomial.hermite_e.hermegauss(60)
    K = np.empty_like(G)
    for i, j in np.ndindex(*G.shape):
        a, b = np.sqrt(G[i, i]), G[i, j] / np.sqrt(G[i, i])
        c = np.sqrt(max(G[j, j] - b**2, 0))
        inner = np.tanh(b * g[:, None] + c * g[None]) @ v
        K[i, j] = (np.tanh(a * g) * inner) @ v / (2 * np.pi)
    return K.reshape(2, 3, 2, 3).mean(axis=(1, 3))


def test_the_kernel_by_an_independent_route():
    limit = tp.derive(NET, tp.Kernels())
    assert np.allclose(limit.evaluate(TOKENS).nngp, kernel_by_quadrature(), atol=1e-7)
    assert "u" not in limit.derivation.trained


@pytest.mark.long
@pytest.mark.sampling
def test_networks_agree_with_the_kernel_and_not_with_that_of_other_frequencies():
    options = {"X1": TOKENS, "widths": (32, 64, 128), "draws": (1500, 1000, 600)}
    assert tp.check(tp.derive(NET, tp.Kernels()), **options).accepted
    twin = tp.derive(FASTER, tp.Kernels()).evaluate(TOKENS)
    claims = {"nngp": twin.nngp, "ntk": twin.ntk}
    assert not tp.check(tp.derive(NET, tp.Kernels()), claims=claims, **options).accepted


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_training_limits(regime):
    limit = tp.derive(NET, regime(tp.SGD()))
    verdict = tp.check(limit, **TRAINED)
    assert verdict.accepted
    wrong = {row.claim.label: 1.1 * row.claim.value for row in verdict.rows}
    assert not tp.check(limit, claims=wrong, **TRAINED).accepted


def test_places_do_not_move_in_training():
    run = Trainer(NET, ERROR, tp.Adam(), 0.1, parametrization=tp.MUP).start(TOKENS, width=8, seed=0)
    run.advance(3)
    assert run.parameters["u"].tolist() == ((np.arange(8) + 0.5) / 8).tolist() and "u" not in run.gradients()
    counted = tp.classify(NET, tp.MUP, tp.SGD())
    assert counted.regime == "feature" and "u" not in [i.about for i in counted.inequalities if i.group == "training"]


def test_formulas_and_tables_name_places_for_what_they_are():
    assert r"\text{: places }(j + \tfrac{1}{2})/n" in tp.derive(profile).latex()
    assert [row.name for row in tp.classify(NET, tp.MUP, tp.Adam()).multipliers.rows] == ["E", "W", "v"]


def test_recordings_hold_places():
    recording = tp.watch(NET, TOKENS, error=ERROR, optimizer=tp.SGD(), lr=0.1, steps=2, widths=6)
    assert "width 6" in str(recording)


# -- where it ends --------------------------------------------------------------------------------


def test_fluctuations_of_places_are_refused():
    """√n⟨u − ½⟩ is 0, not N(0, 1/12); with a fresh factor the covariance is that of independent entries."""

    @tp.program
    def alone(u: tp.Vector.grid()):
        return tp.sqrt(tp.n) * tp.avg(u - 1 / 2)

    @tp.program
    def centred(u: tp.Vector.grid(), x: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg((u - 1 / 2) * (1 + x))

    @tp.program
    def fresh(u: tp.Vector.grid(), v: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(v * tp.cos(2 * sympy.pi * u))

    for program in (alone, centred):
        with pytest.raises(tp.NoLimitError, match="outside the class"):
            tp.derive(program).evaluate()
    assert abs(tp.derive(fresh).evaluate()["return"].variance - 0.5) < 1e-9


def test_order_one_over_n_is_refused_and_places_are_not_trained_by_name():
    @tp.block
    def layer(x: tp.State["token"], u: tp.Vector.grid(), W: tp.Matrix):
        return x + W @ (u * x) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="`u` holds places of neurons"):
        tp.derive(layer, tp.Proportional())
    with pytest.raises(tp.ProgramError, match="`u` holds places of neurons, which are not trained"):
        tp.derive(NET, tp.Kernels(train=("u", "W")))
    every = {**dict.fromkeys(("E", "W", "v"), tp.SGD()), "u": tp.SGD()}
    with pytest.raises(tp.ProgramError, match="`u` holds places of neurons, which are not trained"):
        tp.derive(NET, tp.MaximalUpdate(every))
