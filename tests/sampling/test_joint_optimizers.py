"""Normalised, clipped and factored updates: a step written out, the powers of their norms, and what is refused."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

X = np.random.default_rng(4).standard_normal((3, 2))
N = 10


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


def steps(optimizer, count=1):
    """Updates of each parameter, n^(−c) apart, and what plain gradient descent moves by."""
    plain = tp.ABCD(dict.fromkeys("UWv", (0, 0, 0, 0)) | {"out": "1/2"})
    given = {"U": np.random.default_rng(1).standard_normal((2, N)), "W": np.eye(N), "v": np.arange(N) / N}
    run = train(mlp, plain, optimizer, X, lambda f: f - 1, 1e-3, count, N, given=given, keep=("U", "W", "v"))
    return {k: -np.diff(run.kept[k][0], axis=0) / 1e-3 for k in "UWv"}, given


@pytest.mark.parametrize("name", "UWv")
def test_norms_of_updates(name):
    q, given = steps(tp.SGD())
    q = q[name][0]
    root = N if name == "W" else np.sqrt(N)  # n^e
    norm = np.linalg.norm(q)
    cases = {
        tp.Normalized(tp.SGD()): q / norm,
        tp.Normalized(tp.SGD(), by="weight"): q / np.linalg.norm(given[name]),
        tp.Clipped(tp.SGD(), 2 * norm / root): q / (2 * norm),
        tp.Clipped(tp.SGD(), norm / 2 / root): q / norm,
        tp.Clipped(tp.SGD(), 2 * norm / root, reading="printed"): q / norm,
        tp.Clipped(tp.SGD(), norm / 2 / root, reading="printed"): 2 * q / norm,  # larger than 1: amplified
    }
    for optimizer, expected in cases.items():
        np.testing.assert_allclose(steps(optimizer)[0][name][0], expected, rtol=1e-6, err_msg=str(optimizer))


@pytest.mark.parametrize("reading", ["usual", "printed"])
def test_the_norm_of_the_whole_gradient(reading):
    """Σ_w ‖g‖²/n^(2e) over all parameters, draw by draw, before Q sees the gradient."""
    q, _ = steps(tp.SGD())
    norm = np.sqrt(sum((q[k][0] ** 2).sum() / (N**2 if k == "W" else N) for k in "UWv"))
    for θ in (2 * norm, norm / 2):
        ν = max(θ, norm) if reading == "usual" else min(θ, norm)
        moved = steps(tp.Clipped(tp.SignSGD(eps=0.3), θ, reading, of="gradient"))[0]
        for k in "UWv":
            g = q[k][0] / ν
            np.testing.assert_allclose(moved[k][0], g / np.sqrt(g**2 + 0.09), rtol=1e-6)


def test_adafactor_is_that_of_means_over_rows_and_columns():
    g = {k: np.array([step]) for k, step in ((k, steps(tp.SGD())[0][k][0]) for k in "UWv")}
    moved = steps(tp.Adafactor(decay=0.75, eps=0.01))[0]
    square = g["W"][0] ** 2
    v = np.outer(square.mean(axis=1), square.mean(axis=0)) / square.mean()
    np.testing.assert_allclose(moved["W"][0], g["W"][0] / np.sqrt(v + 1e-4), rtol=1e-5)
    np.testing.assert_allclose(moved["v"][0], g["v"][0] / np.sqrt(g["v"][0] ** 2 + 1e-4), rtol=1e-5)
    later = steps(tp.Adafactor(decay=0.75, eps=0.01), 3)[0]
    assert all(np.isfinite(later[k]).all() for k in "UWv")


@pytest.mark.long
@pytest.mark.sampling
def test_rates_have_to_grow_by_the_power_of_the_norm():
    """c − e in all tables (Eq. 2.55): then μP learns features; with c as it was nothing moves."""
    for optimizer in (tp.Normalized(tp.SGD()), tp.Clipped(tp.SignSGD(), 0.5), tp.Normalized(tp.SignSGD(), by="weight")):
        found = tp.classify(2, tp.MUP, optimizer)
        assert found.regime == "trivial"
        near = tp.classify(found.program, found.nearest, optimizer)
        check = near.check((64, 512), seed=1)
        assert near.regime == check.measured_regime == "feature", check
        assert found.check((64, 512), seed=1).measured_regime == "trivial"
    near = tp.classify(2, tp.MUP, tp.Normalized(tp.SGD())).nearest
    moved = {name: e.c for name, e in near.of(tp.classify(2, tp.MUP, tp.SGD()).program).items()}
    assert moved == {"W1": -tp.UP("1/2").vector.c, "W2": 0, "W3": -tp.UP("1/2").vector.c}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tp.Normalized(3), "entrywise optimizer"),
        (lambda: tp.Normalized(tp.Normalized(tp.SGD())), "entrywise optimizer"),
        (lambda: tp.Normalized(tp.SGD(), by="size"), "give one of the words 'update', 'weight'"),
        (lambda: tp.Clipped(tp.SGD(), 0), "positive"),
        (lambda: tp.Clipped(tp.SGD(), 1, reading="mine"), "usual"),
        (lambda: tp.Clipped(tp.SGD(), 1, of="loss"), "gradient"),
        (lambda: tp.Clipped(tp.SGD()).update([1]), "all entries"),
        (lambda: tp.Adafactor(eps=0.1).update([1]), "all entries"),
        (lambda: tp.Adafactor(decay=1), "below 1"),
    ],
)
def test_what_is_no_optimizer_is_refused(make, message):
    with pytest.raises(tp.ProgramError, match=message):
        make()
