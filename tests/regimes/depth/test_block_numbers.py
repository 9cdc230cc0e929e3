"""Constants, sizes and ratios of a block: what is no number for them is refused before anything is computed."""

import numpy as np
import pytest
from shaped import masked_attention, relu_resnet, shaped_attention

import tplimits as tp

V = np.eye(2) + 0.2


@pytest.fixture(scope="module")
def resnet():
    return tp.derive(relu_resnet, tp.Proportional())


@pytest.mark.parametrize(
    "value", ["0.5", "__import__('os').getpid()", None, [0.1, 0.2], True, 1j, float("nan"), 10**400]
)
def test_what_is_no_finite_number(resnet, value):
    with pytest.raises(tp.EvaluationError, match="give a finite number"):
        resnet.drift_at(V, γ=value, c_plus=0, c_minus=-1)


def test_a_root_of_the_block_has_to_be_real(resnet):
    with pytest.raises(tp.EvaluationError, match=r"sqrt\(1 - γ\*\*2\)` of `relu_resnet` is not real"):
        resnet.diffusion_at(V, γ=1.5, c_plus=0, c_minus=-1)


def test_constants_by_keyword_or_together(resnet):
    together = resnet.drift_at(V, constants={"γ": 0.5, "c_plus": 0, "c_minus": -1})
    np.testing.assert_array_equal(together, resnet.drift_at(V, γ=0.5, c_plus=0, c_minus=-1))
    with pytest.raises(tp.EvaluationError, match="give names and numbers"):
        resnet.simulate(V, T=0.1, dt=0.01, paths=2, constants=3)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ({"z": 1}, "the widths of `shaped_attention` besides n are k"),
        ({"k": -1}, "is a positive number"),
        ({"k": "a"}, "is a positive number"),
        (3, "names"),
    ],
)
def test_ratios_of_widths(ratios, words):
    sde = tp.derive(shaped_attention, tp.Proportional())
    with pytest.raises(tp.EvaluationError, match=words):
        sde.drift_at(V, ratios=ratios, γ=0.5, τ0=1)


def test_a_number_of_tokens_that_is_not_that_of_V(resnet):
    with pytest.raises(tp.EvaluationError, match="V is for 2 tokens"):
        resnet.drift_at(V, token=3, γ=0.5, c_plus=0, c_minus=-1)


def test_a_row_of_a_mask_without_a_key():
    empty = np.array([[0.0, 0, 0], [1, 1, 0], [1, 1, 1]])
    with pytest.raises(tp.NoLimitError, match="without any key"):
        tp.derive(masked_attention(empty), tp.Proportional())


@pytest.mark.parametrize("k", [100, 1000])
def test_an_exponential_of_a_far_square(k):
    """E exp(−2k (u − 1)²) of u of variance V: e^(−2k) alone has no double."""

    @tp.block
    def peak(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + U @ tp.exp(-k * ((W @ x) - 1) ** 2) / tp.sqrt(tp.n)

    V = 1.04
    expected = np.exp(-2 * k / (1 + 4 * k * V)) / np.sqrt(1 + 4 * k * V)
    found = tp.derive(peak, tp.Proportional()).drift_at([[V]])
    assert found == pytest.approx(np.array([[expected]]), rel=1e-9)
    assert found != pytest.approx(np.array([[1 / np.sqrt(1 + 4 * k * V)]]), rel=1e-2)


def test_scalars_that_constants_take_out_of_a_domain():
    """x + W x √(s − c)/√n with s → 0 has the drift −c V, which is none where c > 0."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, Q: tp.Matrix, *, c):
        return x + (W @ x) * tp.sqrt(tp.avg(x * (Q @ x)) - c) / tp.sqrt(tp.n)

    sde, V = tp.derive(block, tp.Proportional()), np.array([[1.0, 0.3], [0.3, 1.2]])
    np.testing.assert_allclose(sde.drift_at(V, c=-2), 2 * V, rtol=1e-12)
    for call in (sde.drift_at, sde.diffusion_at, lambda V, c: sde.simulate(V, c=c, T=0.1, paths=2, dt=0.05)):
        with pytest.raises(tp.EvaluationError, match=r"`sqrt\(-c\)` of `block` is not real: -c = -2 < 0"):
            call(V, c=2)


def test_squares_of_logarithms_of_negative_numbers():
    """(log −1)² = −π² is real, and no drift."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, Q: tp.Matrix, *, c):
        return x + (W @ x) * tp.log(tp.avg(x * (Q @ x)) - c) / tp.sqrt(tp.n)

    sde = tp.derive(block, tp.Proportional())
    np.testing.assert_allclose(sde.drift_at(np.eye(2), c=-2), np.log(2) ** 2 * np.eye(2), rtol=1e-12, atol=1e-15)
    with pytest.raises(tp.EvaluationError, match=r"`log\(-c\)` of `block` is not real: -c = -1 < 0"):
        sde.drift_at(np.eye(2), c=1)
