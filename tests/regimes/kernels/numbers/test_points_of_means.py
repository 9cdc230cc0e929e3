"""Means over drawn points by themselves: polynomials by Isserlis, equal laws once, and what is refused."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.kernels.derivation.leaves import Moment
from tplimits.regimes.kernels.numbers import inseparable
from tplimits.regimes.kernels.numbers.inseparable import MeanPoints, _points, _time

Z = sympy.symbols("z1:4", real=True)
P = sympy.Symbol("p", real=True)
NAMES = sympy.symbols("c11 c12 c13 c22 c23 c33")
POINTS = MeanPoints(1 << 14, (3,))


def moment(integrand, parameters=()):
    return Moment(integrand, Z, NAMES, parameters, parameters)


def laws(many=3):
    """Covariances of three variables, in the order of their names."""
    A = np.random.default_rng(0).uniform(-1, 1, (many, 3, 3))
    C = A @ A.transpose(0, 2, 1)
    return C, [C[:, i, j] for i in range(3) for j in range(i, 3)]


def test_polynomials_are_those_of_isserlis():
    C, given = laws()
    even = POINTS.mean(moment(Z[0] ** 2 * Z[1] * Z[2]), {}, given, [])
    exact = C[:, 0, 0] * C[:, 1, 2] + 2 * C[:, 0, 1] * C[:, 0, 2]
    assert even == pytest.approx(exact, abs=0.02)
    assert POINTS.mean(moment(Z[0] * Z[2]), {}, given, []) == pytest.approx(C[:, 0, 2], abs=0.005)
    odd = POINTS.mean(moment(Z[0] ** 3 * Z[1] ** 2 + Z[2]), {}, given, [])
    assert np.abs(odd).max() < 1e-12, "each point has its opposite"
    c = sympy.Symbol("c")
    shifted = POINTS.mean(moment(c * Z[0] ** 2 + P, (P,)), {c: 2.0}, given, [np.array([1.0, 5.0, -1.0])])
    assert shifted == pytest.approx(2 * C[:, 0, 0] + [1, 5, -1], abs=0.01)


def test_equal_laws_are_done_once_and_blocks_change_nothing(monkeypatch):
    _, given = laws()
    many = [np.stack([g, g[::-1]]) for g in given]
    F, asked = moment(sympy.tanh(Z[0] * Z[1] + Z[2]) ** 2), []
    whole = POINTS.mean(F, {}, many, [])
    monkeypatch.setattr(inseparable, "_BLOCK", 3 * POINTS.many)
    block = MeanPoints._block
    monkeypatch.setattr(MeanPoints, "_block", lambda self, *a: asked.append(len(a[2])) or block(self, *a))
    assert (POINTS.mean(F, {}, many, []) == whole).all() and asked == [1, 1, 1]
    assert whole.shape == (2, 3) and (whole[0] == whole[1][::-1]).all() and len(set(whole[0])) == 3
    assert (MeanPoints(POINTS.many, (4,)).mean(F, {}, many, []) != whole).all()


def test_laws_that_are_none_are_refused():
    one = [np.array([x]) for x in (1.0, 0.0, 0.0, 1.0, 0.0, 1.0)]
    F = moment(Z[0] ** 2 + Z[1])
    assert POINTS.mean(F, {}, one, []) == pytest.approx(1, abs=0.01)
    for place, value, message in (
        (1, np.nan, "not a finite number"),
        (0, np.inf, "not a finite number"),
        (1, 1.1, "not positive"),
    ):
        bad = [x.copy() for x in one]
        bad[place][:] = value
        with pytest.raises(tp.EvaluationError, match=message):
            POINTS.mean(F, {}, bad, [])
    slightly = [one[0], np.array([1 + 1e-5]), *one[2:]]  # rounding of tables that were drawn: 1/points of the trace
    assert POINTS.mean(F, {}, slightly, []) == pytest.approx(1, abs=0.01)


def test_points_are_even_and_opposite():
    found = _points(1001, (0,), 2)
    assert found.shape == (1002, 2) and (found[:501] == -found[501:]).all()
    assert found.T @ found / len(found) == pytest.approx(np.eye(2), abs=0.03)


def test_times_are_told_as_one_says_them():
    assert [_time(x) for x in (119, 120, 7199, 7200, 36e5)] == ["119 s", "2 min", "120 min", "2 h", "1,000 h"]


@pytest.mark.parametrize("sharp", [lambda h: tp.sign(h * tp.tanh(h)), lambda h: tp.step(h * tp.tanh(h))])
def test_places_without_variance_are_on_no_side_of_a_jump(sharp):
    """1 at all neurons of a token, 0 where there is none: outputs (1 + ½ + 1)/2 at both inputs, not of rounding."""

    @tp.network
    def shifted(p: tp.Vector["d"], ξ: tp.Input["token", "d"], v: tp.Vector):
        y = sharp(tp.sum(p * ξ, over="d"))
        return v * tp.mean(tp.relu(y + 0.5 * y.take(token=[1, -1], axes=("token",))), over="token")

    X = np.array([[[0.1, 1.1], [-0.6, 1.1]], [[0.4, 1.1], [-0.6, 1.0]]])
    K = tp.derive(shifted.bind(token=2), tp.Kernels(train=("v",))).evaluate(X).nngp
    assert np.abs(K - 1.25**2).max() < 1e-12
    assert np.abs(K - (2.25 + 3 * 1.5) / 4).min() > 1e-2, "1 beside the last token of one input, too"


@pytest.mark.long
def test_draws_of_random_logits_have_points_of_their_own():
    """What points are off by would be common to all draws: means over draws were 3.4 of their errors apart.

    K between two inputs is −.00286(10) by 400 draws of 10⁵ neurons in NumPy.
    """

    @tp.network
    def net(
        H: tp.Matrix["n", "n", "head"],
        J: tp.Matrix["n", "n", "head"],
        U: tp.Vector["d"],
        v: tp.Vector,
        ξ: tp.Input["d"],
    ):
        y = tp.sum(U * ξ, over="d")
        a = tp.gelu(8 * y - 6)
        z = tp.sum(tp.sigmoid(tp.sqrt(tp.n) * tp.avg((H @ a) * (J @ y))) * (H @ y), over="head")
        return v * (tp.abs(a + z) - tp.abs(a - z))

    limit, X = tp.derive(net.bind(head=2), tp.Kernels(train=())), np.array([[-0.7, -0.2], [0.5, -0.8]])
    runs = [limit.sample(X, draws=64, seed=seed).nngp for seed in range(30)]
    assert all((K.transpose(0, 2, 1) == K).all() for K in runs)
    means, errors = (np.array([f(K[:, 0, 1]) for K in runs]) for f in (np.mean, lambda k: k.std() / 8))
    square = ((means - means.mean()) ** 2 / errors**2).sum()
    assert 10 < square < 65, "χ² of 29 degrees: chance 5e-4; 330 with points that all draws share"
    assert abs(means.mean() + 0.00286) < 4 * np.hypot(0.0001, errors.mean() / 30**0.5)
    assert abs(means.mean()) > 4 * np.hypot(0.0001, errors.mean() / 30**0.5)
