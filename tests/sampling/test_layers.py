"""One layer of finite width against b and Σ of its SDE: true ones pass, printed mistakes do not."""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped
import wrong

import tplimits as tp

V0 = np.array([[1.0, 0.3, -0.2], [0.3, 1.2, 0.4], [-0.2, 0.4, 0.8]])
WIDTHS, DRAWS = (100, 300, 1000), (900, 600, 300)
#: blocks with many matrices need more draws for their controls
NARROW = {"widths": (50, 150, 450), "draws": (1400, 1300, 1300)}
ATTENTION = {"γ": 0.6, "τ0": 0.8}
RESNET = {"γ": 0.6, "c_plus": 0.2, "c_minus": -1.0}
CAUSAL = np.tril(np.ones((3, 3)))
RANDOM = np.random.default_rng(5).uniform(0.2, 1.0, (3, 3))
BLOCKS = {
    "full": (shaped.shaped_attention, ATTENTION),
    "causal": (shaped.masked_attention(CAUSAL), ATTENTION),
    "random mask": (shaped.masked_attention(RANDOM), ATTENTION),
    "resnet": (shaped.relu_resnet, RESNET),
    "relu": (shaped.relu_mlp, {"c_plus": 0.2, "c_minus": -1.0}),
    "smooth": (shaped.smooth_mlp, {"a": 1.0}),
    "two heads": (shaped.heads_attention, {**ATTENTION, "head": 2}),
    "transformer": (tp.stack(shaped.shaped_attention, shaped.relu_resnet), {**ATTENTION, **RESNET}),
}
#: the level of each of the checks here
LEVEL = 1e-3


def checked(name, seed, **options):
    block, constants = BLOCKS[name]
    settings = {"widths": WIDTHS, "draws": DRAWS, "level": LEVEL, "progress": False}
    settings |= {**(NARROW if name in ("two heads", "transformer") else {}), **options}
    return tp.check(tp.derive(block, tp.Proportional()), V0=V0, seed=seed, **settings, **constants)


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("name", BLOCKS)
def test_derived_coefficients_are_where_layers_of_finite_width_point(name, seed):
    verdict = checked(name, seed)
    assert verdict.accepted, verdict
    assert len(verdict.rows) == 6 + 21


@pytest.mark.long
@pytest.mark.sampling
def test_real_matrices_say_the_same(seed):
    for name in ("full", "resnet"):
        verdict = checked(name, seed, weights="real", widths=(32, 64, 96), draws=(1000, 500, 400))
        assert verdict.accepted, verdict


@pytest.mark.sampling
def test_wrong_drifts_of_the_resnet_are_rejected(seed):
    own = published.numpy_relu_drift(V0, 0.2, -1.0)
    assert checked("resnet", seed, claims={"drift": 0.36 * own}).accepted
    for drift in (0.36 * wrong.appendix_relu_drift(V0, 0.2, -1.0), own, 0.9 * 0.36 * own):
        assert not checked("resnet", seed, claims={"drift": drift}).accepted


@pytest.mark.sampling
def test_wrong_coefficients_of_attention_are_rejected(seed):
    b, sigma = published.numpy_attention(V0, **ATTENTION)
    assert checked("full", seed, claims={"drift": b, "diffusion": published.packed(sigma)}).accepted
    assert not checked("full", seed, claims={"drift": wrong.printed_attention_drift(V0, **ATTENTION)}).accepted
    isotropic = 0.36 * (2 - 0.36) * published.numpy_sigma_lin(V0)
    assert not checked("full", seed, claims={"diffusion": published.packed(isotropic)}).accepted


@pytest.mark.long
@pytest.mark.sampling
def test_one_head_is_not_two(seed):
    one = tp.derive(shaped.heads_attention, tp.Proportional()).diffusion_at(V0, **ATTENTION, head=1)
    assert not checked("two heads", seed, claims={"diffusion": one}).accepted


def test_the_same_seed_gives_the_same_numbers():
    first, again = (checked("smooth", 7, draws=64) for _ in range(2))
    assert [r.intercept for r in first.rows] == [r.intercept for r in again.rows]


def test_odd_powers_where_the_sign_of_the_root_matters():
    forms = {name: str(checked(name, 1, draws=16).rows[0].series) for name in ("full", "resnet", "smooth")}
    assert forms == {"full": "L + b/n", "resnet": "L + b/√n + c/n", "smooth": "L + b/n"}


def test_few_draws_do_without_controls_and_say_so():
    assert "Too few draws for control variates" in checked("full", 1, draws=16).sentence


@pytest.mark.sampling
def test_a_width_that_stays_fixed():
    sde = tp.derive(shaped.shaped_attention, tp.Proportional(fixed=("k",)))
    verdict = tp.check(sde, WIDTHS, DRAWS, 3, V0=V0, k=2, progress=False, **ATTENTION)
    assert verdict.accepted, verdict


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"V0": None}, "needs V0="),
        ({"V0": np.ones(3)}, "it is an array of shape"),
        ({"V0": np.eye(3)[None]}, "a check starts from one covariance"),
        ({"V0": [[1.0, 2.0], [2.0, 1.0]]}, "has the eigenvalue -1"),
        ({"layers": 0}, "a whole number of layers"),
        ({"layers": 2.5}, "a whole number of layers"),
        ({"weights": "none"}, "give one of the words 'law', 'real'"),
        ({"widths": (2, 3, 100)}, "cannot hold 3 tokens"),
        ({"widths": (100,)}, "needs at least 2 widths"),
        ({"claims": {"b[0,7]": 1.0}}, r"there is no `b\[0,7\]`"),
        ({"claims": {"drift": np.eye(2)}}, r"it is \(3, 3\)"),
        ({"claims": {"b[0,0]": "x"}}, "give a number"),
        ({"claims": {"b[0,0]": float("nan")}}, "is not a finite number"),
        ({"claims": {}}, "no claim to judge"),
    ],
)
def test_what_cannot_be_checked_is_refused(options, message):
    sde = tp.derive(shaped.shaped_attention, tp.Proportional())
    with pytest.raises(tp.CheckError, match=message):
        tp.check(sde, **{"V0": V0, "draws": 16, **options}, **ATTENTION)


def test_a_width_limit_has_no_layers():
    @tp.program
    def square(x: tp.Vector):
        return tp.avg(x * x)

    with pytest.raises(tp.CheckError, match="V0= is for the check of a CovarianceSDE"):
        tp.check(tp.derive(square), V0=V0)
