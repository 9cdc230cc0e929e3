"""The law of ρ after many layers, at a fixed ratio of depth to width, against paths of the SDE."""

from __future__ import annotations

import math

import numpy as np
import pytest
import shaped

import tplimits as tp
from tplimits.errors import CheckError
from tplimits.regimes.depth.finite.ends import QUANTILES, end_claims, path_labels, statistic_labels, statistics
from tplimits.regimes.depth.finite.judged import inquire
from tplimits.regimes.depth.finite.request import LayersRequest

#: settings of published figures: correlations 0.2, slopes 1 and 1 − 1/√n, γ² = ½ and 1/8
V0 = np.array([[1.0, 0.2], [0.2, 1.0]])
RESNET = {"γ": 0.5**0.5, "c_plus": 0.0, "c_minus": -1.0}
ATTENTION = {"γ": 8**-0.5, "τ0": 1.0}
DEEP_ATTENTION = {"V0": V0, "layers": 36, "widths": (24, 48), "draws": (6000, 7000), "level": 1e-3}
DEEP_RESNET = {"V0": V0, "layers": 64, "widths": (12, 48, 192), "draws": (2000, 3000, 2500), "level": 1e-3}


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, tp.Proportional())


@pytest.fixture(scope="module")
def resnet():
    return tp.derive(shaped.relu_resnet, tp.Proportional())


def claimed(sde, T, V=V0, **constants):
    """What paths at these constants say, by label."""
    paths = sde.simulate(V, T=T, dt=0.01, paths=20_000, seed=11, halve=True, **constants)
    return {c.label: c.value for c in end_claims(paths)}


@pytest.mark.long
@pytest.mark.sampling
def test_attention_as_deep_as_wide(attention, seed):
    """Figure 1's T = ¾ at two widths."""
    verdict = tp.check(attention, seed=seed, paths=20_000, progress=False, **DEEP_ATTENTION, **ATTENTION)
    assert verdict.accepted, verdict
    assert [row.claim.label for row in verdict.rows] == list(path_labels(2))
    stronger = claimed(attention, 0.75, γ=(1.25 / 8) ** 0.5, τ0=1.0)
    assert not tp.check(attention, seed=seed, claims=stronger, progress=False, **DEEP_ATTENTION, **ATTENTION).accepted


def with_printed_drift(V, T, steps, paths, rng):
    """Euler steps of the ResNet with γ² = ½, ν with both signs turned, for two tokens."""
    a, b, c = (np.full(paths, v) for v in (V[0, 0], V[0, 1], V[1, 1]))
    h = T / steps
    for _ in range(steps):
        scale = np.sqrt(a * c)
        ρ = np.clip(b / scale, -1, 1)
        drift = (np.sqrt(1 - ρ**2) + ρ * np.arccos(ρ)) * scale / (4 * np.pi)
        p, q, r = np.sqrt(a), b / np.sqrt(a), np.sqrt(np.maximum(c - b**2 / a, 0))
        x, y, z = rng.standard_normal((3, paths)) * np.sqrt(h / 2) * np.array([[2], [2**0.5], [2]])
        a, b, c = a + p * p * x, b + h * drift + p * (q * x + r * y), c + q * (q * x + r * y) + r * (q * y + r * z)
    return b / np.sqrt(a * c)


@pytest.mark.long
@pytest.mark.sampling
def test_a_residual_network_at_a_third_of_its_width(resnet, seed):
    """Figure 3's T = ⅓, and the drift printed in an appendix from tokens that point apart, where it is most wrong."""
    verdict = tp.check(resnet, seed=seed, paths=20_000, progress=False, **DEEP_RESNET, **RESNET)
    assert verdict.accepted, verdict
    apart = {**DEEP_RESNET, "V0": np.array([[1.0, -0.6], [-0.6, 1.0]])}
    assert tp.check(resnet, seed=seed, paths=20_000, progress=False, **apart, **RESNET).accepted
    ρ = with_printed_drift(apart["V0"], 1 / 3, 100, 20_000, np.random.default_rng(seed))
    printed = {"ρ[0,1]": ρ.mean(), **{f"{100 * q:.0f}% ρ[0,1]": np.quantile(ρ, q) for q in QUANTILES}}
    assert not tp.check(resnet, seed=seed, claims=printed, progress=False, **apart, **RESNET).accepted


def test_statistics_are_those_of_numpy():
    rng = np.random.default_rng(3)
    V = rng.standard_normal((400, 2, 5))
    V = V @ V.transpose(0, 2, 1)
    ρ = V[:, 0, 1] / np.sqrt(V[:, 0, 0] * V[:, 1, 1])
    ends = np.stack([V[:, 0, 0], V[:, 0, 1], V[:, 1, 1], ρ], axis=1)
    found = dict(zip(statistic_labels(2), statistics(ends, 2)[0].mean(axis=0), strict=True))
    wanted = {
        "V[0,1]": V[:, 0, 1].mean(),
        **{f"{100 * q:.0f}% V[1,1]": np.quantile(V[:, 1, 1], q) for q in QUANTILES},
        "ρ[0,1]": ρ.mean(),
        "std ρ[0,1]": ρ.std(ddof=1),
        **{f"{100 * q:.0f}% ρ[0,1]": np.quantile(ρ, q) for q in QUANTILES},
        "ρ²[0,1]": (ρ**2).mean(),
    }
    assert {label: found[label] for label in wanted} == pytest.approx(wanted, rel=1e-12)
    # what is of order 1 beside each: the mean square of V, of ρ², of the variances, of ρ
    sizes = dict(zip(statistic_labels(2), statistics(ends, 2)[1], strict=True))
    squares = {"V[0,1]": V[:, 0, 1] ** 2, "ρ²[0,1]": ρ**4, "5% V[1,1]": V[:, 1, 1] ** 2, "std ρ[0,1]": ρ**2}
    wanted = {label: values.mean() for label, values in squares.items()}
    assert {label: sizes[label] for label in wanted} == pytest.approx(wanted, rel=1e-12)


def test_errors_of_statistics_are_what_they_say():
    """z of deviation and quantiles of tanh(0.2 + 0.45 g), which ρ looks like, over 400 samples of 500."""
    rng, z = np.random.default_rng(8), []
    exact = np.tanh(0.2 + 0.45 * rng.standard_normal(2_000_000))
    wanted = np.array([exact.std(), *np.quantile(exact, QUANTILES)])
    for _ in range(400):
        ρ = np.tanh(0.2 + 0.45 * rng.standard_normal(500))
        values = statistics(np.stack([ρ, ρ, ρ, ρ], axis=1), 2)[0][:, -4:]
        z.append((values.mean(axis=0) - wanted) / (values.std(axis=0, ddof=1) / 500**0.5))
    assert (np.abs(np.mean(z, axis=0)) < 0.35).all(), "bias of 1/N, in errors of 1/√N"
    assert (np.abs(np.std(z, axis=0) - 1) < 0.15).all()


@pytest.mark.long
def test_the_size_of_the_step_is_part_of_the_error(resnet):
    """Steps of a sixth of T are seen, and the claims know by how much."""
    run = {"T": 1 / 3, "paths": 20_000, "seed": 2, "halve": True, **RESNET}
    coarse, fine = (end_claims(resnet.simulate(V0, dt=dt, **run)) for dt in (1 / 6, 1 / 200))
    off = [abs(a.value - b.value) for a, b in zip(coarse, fine, strict=True)]
    noise = [b.error for b in fine]
    assert max(d / e for d, e in zip(off, noise, strict=True)) > 5
    assert all(d < 4 * math.hypot(a.error, e) for d, a, e in zip(off, coarse, noise, strict=True))


def test_paths_run_to_the_depth_of_the_widths_with_their_ratios(attention, monkeypatch):
    """Widths are moved to whole depths and ratios before T is taken; n_k/n reaches the simulation."""
    seen = {}
    simulate = tp.CovarianceSDE.simulate

    def watched(self, V0, **options):
        seen.update(options)
        return simulate(self, V0, **options)

    monkeypatch.setattr(tp.CovarianceSDE, "simulate", watched)
    verdict = tp.check(
        attention,
        V0=V0,
        layers=10,
        widths=(16, 33),
        draws=64,
        ratios={"k": 0.5},
        paths=500,
        progress=False,
        **ATTENTION,
    )
    assert seen["ratios"] == {"k": 0.5}
    assert verdict.widths[-1] % 2 == 0 and seen["T"] == 10 / verdict.widths[-1]


def test_widths_move_to_whole_numbers_of_layers():
    request = LayersRequest(shaped.relu_resnet, V0, 100, (50, 100, 300), given=RESNET)
    assert request.taken == (51, 99, 300)
    request = LayersRequest(shaped.relu_resnet, V0, 7, (8, 16, 128), given=RESNET)
    assert any("is 0.4375 layers" in remark for remark in request.remarks)


@pytest.mark.parametrize(
    ("block", "given", "deep"),
    [(shaped.relu_resnet, RESNET, (16, 32, 64, 128)), (shaped.shaped_attention, ATTENTION, (32, 64, 128))],
    ids=["odd powers of √n", "powers of n"],
)
def test_widths_that_nobody_chose(block, given, deep):
    one, many = (LayersRequest(block, V0, layers, given=given) for layers in (1, 16))
    assert one.taken == (40, 80, 160, 320, 640) and many.taken == deep
    assert one.remarks == many.remarks == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"V0": None}, "needs V0="),
        ({"V0": [V0, V0]}, r"V0 has shape \(2, 2, 2\)"),
        ({"V0": [[1.0, 2.0], [2.0, 1.0]]}, "eigenvalue -1|not positive"),
        ({"layers": 0}, "layers=0"),
        ({"layers": 1.5}, r"layers=1\.5"),
        ({"widths": (2, 4, 8), "V0": np.eye(3)}, "width 2 cannot hold 3 tokens"),
        ({"weights": "drawn"}, "weights='drawn'"),
    ],
)
def test_requests_that_nothing_can_be_drawn_for(changed, said):
    with pytest.raises(CheckError, match=said):
        _ = LayersRequest(shaped.relu_resnet, **{"V0": V0, "given": RESNET, **changed}).taken


def test_a_law_that_ends_before_is_refused(attention):
    with pytest.raises(CheckError, match="were stopped before T"):
        tp.check(
            attention,
            V0=100 * V0,
            layers=40,
            widths=(20, 40),
            draws=64,
            paths=200,
            stop=200.0,
            γ=0.7,
            τ0=0.5,
            progress=False,
        )


@pytest.mark.long
def test_a_few_explosions_change_little(attention):
    """Stopped paths hold enormous V; what is claimed is bounded, and so is its error."""
    paths = attention.simulate(V0, T=0.75, paths=20_000, seed=3, halve=True, stop=20.0, **ATTENTION)
    stopped = paths.halved.stopped.mean()
    assert 0 < stopped < 0.01
    without = end_claims(attention.simulate(V0, T=0.75, paths=20_000, seed=3, halve=True, **ATTENTION))
    for claim, other in zip(end_claims(paths), without, strict=True):
        assert abs(claim.value - other.value) <= claim.error < 0.1


def test_few_draws_say_so(attention):
    verdict = tp.check(attention, V0=V0, layers=8, widths=(8, 16), draws=16, paths=500, progress=False, **ATTENTION)
    assert "Fewer than 64 draws" in verdict.sentence


def test_a_request_is_judged_by_one_inquiry(attention):
    request = LayersRequest(shaped.shaped_attention, V0, 12, (12, 24), given=ATTENTION)
    claims = end_claims(attention.simulate(V0, T=0.5, paths=300, halve=True, **ATTENTION))
    inquiry = inquire(request, claims, 0.01)
    assert {c.label for c in inquiry.claims} <= set(inquiry.columns)
    with pytest.raises(CheckError, match=r"there is no `std ρ\[1,0\]`"):
        tp.check(attention, V0=V0, layers=12, widths=(12, 24), claims={"std ρ[1,0]": 0.1}, **ATTENTION)
