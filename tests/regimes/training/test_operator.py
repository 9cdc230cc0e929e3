"""TangentLimit: linear updates by the tangent kernel, others on particles, K_sign, settings, print-outs."""

import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import sympy

import tplimits as tp
from tplimits.regimes.training.numbers import operator
from tplimits.zoo.networks.shared_weights import recurrent

X = np.array([[1.0, 2.0], [0.3, -1.0], [-0.5, 0.5]])
SIGNAL = tp.squared_error([1.0, -1.0, np.nan], train=[0, 1])


@tp.network
def biased(ξ: tp.Input["d"], U: tp.Vector["d"], β: tp.Vector, W: tp.Matrix, v: tp.Vector, b: tp.Scalar):
    h = W @ tp.erf(tp.sum(U * ξ, over="d") + β)
    return tp.readout(v * tp.erf(h)) + 0.5 * b


@tp.network
def two_widths(ξ: tp.Input["d"], U: tp.Vector["d", "k"], W: tp.Matrix["n", "k"], v: tp.Vector["n", "out"]):
    return v * tp.erf(W @ tp.erf(tp.sum(U * ξ, over="d")))


@tp.network
def outputs(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector["out"], b: tp.Scalar["out"]):
    h = W @ tp.erf(tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.erf(h)) + 0.3 * b


@tp.network
def transposed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.erf(W.T @ (W @ tp.sum(U * ξ, over="d")))


@tp.network
def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d"))


class NoSGD(tp.SGD):
    """Gradient descent that is not known to be linear: it is put on particles."""

    is_linear = False


def run(network, optimizer, decay=0.0, data=X, error=SIGNAL, lr=0.5, steps=5, **settings):
    limit = tp.derive(network, tp.NeuralTangent(optimizer, weight_decay=decay))
    return limit.evaluate(data, error=error, lr=lr, steps=steps, **settings)


# -- linear updates ---------------------------------------------------------------------------


def test_gradient_descent_is_that_of_the_kernel_limit():
    found = run(biased, tp.SGD(), data=X[:2], error=tp.squared_error([1.0, -1.0]), steps=7, f0=np.zeros(2))
    kernels = tp.derive(biased, tp.Kernels())
    expected = kernels.train(X[:2], [1.0, -1.0], steps=range(8), lr=0.5, covariance=False)
    assert found.f == pytest.approx(np.asarray(expected.mean), abs=1e-12)
    assert (found.stderr == 0).all()


def test_momentum_by_hand():
    f0 = np.array([0.2, 0.1, -0.3])
    found = run(biased, tp.SGD(momentum=0.7), lr=lambda t: 0.3 / (1 + t), f0=f0).f
    kernel = tp.derive(biased, tp.Kernels()).evaluate(X).ntk
    f, velocity = [f0], np.zeros(3)
    for t in range(5):
        velocity = 0.7 * velocity + SIGNAL(f[-1])
        f.append(f[-1] - 0.3 / (1 + t) * kernel @ velocity)
    assert found == pytest.approx(np.array(f), abs=1e-12)


def test_the_start_is_drawn_from_the_nngp():
    many = 500
    wide = tp.derive(outputs.bind(out=many), tp.NeuralTangent(tp.SGD()))
    draws = wide.evaluate(X, error=lambda f: f, lr=0.1, steps=0, seed=4).f[0]
    expected = tp.derive(outputs.bind(out=1), tp.Kernels()).evaluate(X).nngp
    assert expected.shape == (3, 3)
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / many)
    assert (np.abs(draws @ draws.T / many - expected) / error).max() < 4
    limit = tp.derive(biased, tp.NeuralTangent(tp.SGD()))
    settings = {"error": SIGNAL, "lr": 0.1, "steps": 0}
    three, one = (limit.evaluate(X, **settings, b=b, seed=1).f for b in (3.0, 1.0))
    assert three - one == pytest.approx(1.0)  # given biases are not drawn


@pytest.mark.sampling
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("network", [biased, transposed, recurrent], ids=lambda p: p.name)
def test_particles_agree_with_the_kernel_where_both_apply(network, decay):
    data = X if network is not recurrent else np.stack([X, X[::-1], X**2], axis=-1)
    exact = run(network, tp.SGD(momentum=0.5), decay, data, seed=3)
    found = run(network, NoSGD(momentum=0.5), decay, data, seed=3, particles=2048, block=128)
    z = (found.f - exact.f)[1:] / found.stderr[1:]
    assert found.f[0] == pytest.approx(exact.f[0]) and found.stderr[1:].min() > 0
    assert np.sqrt((z**2).mean()) < 2


@pytest.mark.sampling
def test_particles_with_several_outputs_and_widths():
    signal = tp.squared_error(np.array([[1.0, -1.0], [0.5, 2.0], [0.0, 0.0]]), train=[0, 1])
    for network, ratios in ((two_widths.bind(out=2), {"k": 0.5}), (outputs.bind(out=2), None)):
        exact = run(network, tp.SGD(), error=signal, seed=3, ratios=ratios)
        found = run(network, NoSGD(), error=signal, seed=3, ratios=ratios, particles=2048, block=128)
        assert exact.f.shape == (6, 3, 2)
        z = (found.f - exact.f)[1:] / found.stderr[1:]
        assert np.sqrt((z**2).mean()) < 2


def test_errors_of_a_kernel_are_carried_to_outputs(monkeypatch):
    """One step: f_1 = −η Θ χ, off by η √Σ_b (error_ab χ_b)²."""
    error = np.array([[1.0, 2.0, 0.5], [2.0, 0.3, 1.0], [0.5, 1.0, 0.2]]) * 1e-3
    exact = run(biased, tp.SGD(), steps=1, f0=np.zeros(3))
    assert (exact.stderr == 0).all()
    made = operator.kernels
    monkeypatch.setattr(operator, "kernels", lambda *args: tuple(replace(k, error=error) for k in made(*args)))
    found = run(biased, tp.SGD(), steps=1, f0=np.zeros(3), replicates=1000)
    χ = SIGNAL(np.zeros(3))
    wanted = 0.5 * np.sqrt(error**2 @ χ**2)
    assert found.f == pytest.approx(exact.f, abs=1e-15)
    assert found.stderr[1] == pytest.approx(wanted, rel=0.1)  # 1000 draws know a spread to 2 %


# -- an optimizer and a rate for each parameter -------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_rates_of_parameters_weigh_their_parts_of_the_kernel(decay):
    names = ("U", "β", "W", "v", "b")
    f0 = np.zeros((6, 3)) if decay else np.zeros(3)
    same = run(biased, dict.fromkeys(names, tp.SGD()), decay, lr=dict.fromkeys(names, 0.5), f0=f0)
    assert same.f == pytest.approx(run(biased, tp.SGD(), decay, f0=f0).f, abs=1e-12)
    rates = {"U": 0.5, "β": 0.0, "W": 0.2, "v": 0.0, "b": 0.3}
    found = run(biased, tp.SGD(), decay, lr=rates, f0=f0, steps=1 if not decay else 5)
    if not decay:
        χ = SIGNAL(np.zeros(3))
        parts = {name: tp.derive(biased, tp.Kernels(train=(name,))).evaluate(X).ntk for name in names}
        assert found.f[1] == pytest.approx(-sum(rates[n] * parts[n] @ χ for n in names), abs=1e-12)


@pytest.mark.sampling
def test_optimizers_of_parameters_on_particles():
    optimizers = {"U": tp.SGD(), "β": tp.SGD(momentum=0.5), "W": tp.SGD(), "v": tp.SGD(), "b": tp.SGD(momentum=0.9)}
    rates = {"U": 0.5, "β": 0.1, "W": 0.2, "v": lambda t: 0.1 * t, "b": 0.3}
    exact = run(biased, optimizers, lr=rates, f0=np.zeros(3))
    mixed = {**optimizers, "W": NoSGD()}
    found = run(biased, mixed, lr=rates, f0=np.zeros(3), particles=2048, block=128)
    z = (found.f - exact.f)[1:] / found.stderr[1:]
    assert np.sqrt((z**2).mean()) < 2
    shown = repr(tp.derive(biased, tp.NeuralTangent(mixed)))
    assert "by several optimizers" in shown and "Q_t of β = m,   m ← g + m*μ" in shown


def test_optimizers_and_rates_by_name_are_checked():
    with pytest.raises(tp.ProgramError, match="`W` is not given; the parameters of `biased`"):
        tp.derive(biased, tp.NeuralTangent({"U": tp.SGD()}))
    with pytest.raises(tp.ProgramError, match="`c` is no parameter"):
        tp.derive(biased, tp.NeuralTangent(dict.fromkeys(("U", "β", "W", "v", "b", "c"), tp.SGD())))
    with pytest.raises(tp.ProgramError, match="3 for `U` is no optimizer"):
        tp.derive(biased, tp.NeuralTangent(dict.fromkeys(("U", "β", "W", "v", "b"), 3)))
    with pytest.raises(tp.EvaluationError, match="no rate for `W`, trained by SGD"):
        run(biased, tp.SGD(), lr={"U": 1.0, "β": 1.0, "v": 1.0, "b": 1.0})


def test_parameters_that_never_move_need_no_rate():
    optimizers = {"U": tp.Frozen(), "W": tp.SGD(), "v": tp.SGD()}
    rates, all_rates = {"W": 0.5, "v": 0.2}, {"U": 7.0, "W": 0.5, "v": 0.2}
    for regime, task in ((tp.NeuralTangent, {"f0": 0.0}), (tp.MaximalUpdate, {"particles": 256, "block": 64})):
        limit = tp.derive(transposed, regime(optimizers))
        found, same = (limit.evaluate(X, error=SIGNAL, lr=lr, steps=2, **task).f for lr in (rates, all_rates))
        assert (found == same).all() and (found[2] != 0).all()
    exact = (limit.exact(X[:1], error=tp.squared_error([1]), lr=lr, steps=1)[1] for lr in (rates, all_rates))
    assert len({tuple(f) for f in exact}) == 1


# -- sign descent on one input at a time ------------------------------------------------------


def one_at_a_time(f, t):
    return np.eye(3)[t % 3] * (f - 1)


def silent(regime):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return regime()


def test_the_kernel_of_signs_of_a_shallow_network():
    limit = silent(lambda: tp.derive(shallow, tp.NeuralTangent(tp.SignSGD())))
    found = limit.sign_kernel(X)
    norms = np.linalg.norm(X, axis=1)
    ρ = np.clip(X @ X.T / np.outer(norms, norms), -1, 1)
    np.fill_diagonal(ρ, 1)
    both = 0.25 + np.arcsin(ρ) / (2 * np.pi)
    expected = np.sqrt(2 / np.pi) * both * (np.sign(X) @ X.T) + norms * (1 + ρ) / (2 * np.sqrt(2 * np.pi))
    assert found == pytest.approx(expected, abs=1e-9)
    assert np.abs(found - found.T).max() > 0.1


def test_the_kernel_of_signs_by_quadrature():
    @tp.network
    def smooth(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar):
        return tp.readout(v * tp.tanh(tp.sum(U * ξ, over="d"))) + 0.5 * b

    found = silent(lambda: tp.derive(smooth, tp.NeuralTangent(tp.SignSGD()))).sign_kernel(X)
    for b in range(3):
        for a in range(3):
            slope = X[a] @ X[b] / (X[a] @ X[a])  # the mean of h_b given h_a
            rest = np.sqrt(max(X[b] @ X[b] - slope * (X[a] @ X[b]), 0))

            def sign_given(h, slope=slope, rest=rest):
                return scipy.special.erf(slope * h / (np.sqrt(2) * rest)) if rest > 1e-12 else np.sign(slope * h)

            σ = np.linalg.norm(X[a])

            def mean(function, σ=σ):
                density = lambda h: np.exp(-(h**2) / (2 * σ**2)) / np.sqrt(2 * np.pi) / σ  # noqa: E731
                parts = (scipy.integrate.quad(lambda h: function(h) * density(h), *ends)[0] for ends in ENDS)
                return sum(parts)

            expected = mean(lambda h: np.tanh(h) * sign_given(h)) + 0.5
            expected += np.sqrt(2 / np.pi) * mean(lambda h: 1 / np.cosh(h) ** 2) * (np.sign(X[b]) @ X[a])
            assert found[b, a] == pytest.approx(expected, abs=1e-7)


#: quadrature on both sides of the kink
ENDS = ((-40, 0), (0, 40))


@pytest.mark.long
@pytest.mark.sampling
def test_sign_descent_by_its_kernel_and_on_particles():
    exact = silent(lambda: run(biased, tp.SignSGD(), error=one_at_a_time, lr=0.1, f0=np.zeros(3)))
    assert (exact.stderr == 0).all()
    settings = {"error": one_at_a_time, "lr": 0.1, "f0": np.zeros(3)}
    found = run(biased, tp.SignSGD(eps=1e-9), **settings, particles=1024, replicates=32)
    z = (found.f - exact.f)[1:] / found.stderr[1:]
    assert np.sqrt((z**2).mean()) < 3  # outputs err together: little more than one degree of freedom
    # errors that are not opposite: the gradient of the output bias would be 0, which has no sign
    both = tp.squared_error([1.0, -0.5, np.nan], train=[0, 1])
    full = silent(lambda: run(biased, tp.SignSGD(), error=both, lr=0.1, steps=2, f0=np.zeros(3), particles=1024))
    assert full.stderr[1].min() > 0  # two inputs at once: particles


@pytest.mark.parametrize("steep", [1.0, 3.0])
def test_signs_of_slopes_with_a_common_factor(steep):
    """φ = tanh³ has φ′ = 3 tanh² − 3 tanh⁴ ≥ 0: K(b, a) = E|v| E φ′(x_a) sign(ξ_b)·ξ_a + E sign(x_b) φ(x_a)."""

    @tp.network
    def cubed(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(steep * tp.sum(U * ξ, over="d")) ** 3

    def mean(function):
        return scipy.integrate.quad(lambda z: function(z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi), -12, 12)[0]

    def expected(b, a):
        size, off = np.linalg.norm(X[a]), np.linalg.norm(X[b]) * np.linalg.norm(X[a])
        ρ = X[a] @ X[b] / off
        slope = mean(lambda z: 3 * steep * np.tanh(steep * size * z) ** 2 / np.cosh(steep * size * z) ** 2)
        side = mean(lambda z: np.tanh(steep * size * z) ** 3 * scipy.special.erf(ρ * z / np.sqrt(2 - 2 * ρ**2)))
        return np.sqrt(2 / np.pi) * slope * np.sign(X[b]) @ X[a] + side

    found = tp.derive(cubed, tp.NeuralTangent(tp.SGD())).sign_kernel(X)
    pairs = [(b, a) for b in range(3) for a in range(3) if a != b]
    assert [found[p] for p in pairs] == pytest.approx([expected(*p) for p in pairs], abs=1e-8)
    # trained and evaluated inputs exchanged
    assert max(abs(found.T[p] - expected(*p)) for p in pairs) > 0.1


def test_no_kernel_of_signs_for_tied_matrices():
    with pytest.raises(tp.NoLimitError, match="`W` of `transposed` is used more than once"):
        tp.derive(transposed, tp.NeuralTangent(tp.SGD())).sign_kernel(X)
    with pytest.raises(tp.NoLimitError, match="several outputs"):
        tp.derive(outputs, tp.NeuralTangent(tp.SGD())).sign_kernel(X, out=2)


# -- runs -------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_numbers():
    settings = {"particles": 512, "replicates": 3, "block": 64, "lr": 0.05}
    first = run(biased, tp.Adam(eps=0.1), **settings)
    with ThreadPoolExecutor(2) as pool:
        again = run(biased, tp.Adam(eps=0.1), **settings, executor=pool)
    assert (first.f == again.f).all() and (first.replicates == again.replicates).all()
    assert (first.f[1:] != run(biased, tp.Adam(eps=0.1), **settings, seed=1).f[1:]).all()


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    settings = {"particles": 512, "block": 64, "lr": 0.05, "steps": 3, "checkpoint": tmp_path / "run.npz"}
    first = run(biased, tp.Adam(eps=0.1), replicates=2, **settings)
    more = run(biased, tp.Adam(eps=0.1), replicates=4, **settings)
    assert (more.replicates[:2] == first.replicates).all()
    fresh = run(biased, tp.Adam(eps=0.1), replicates=4, **{**settings, "checkpoint": None})
    assert (more.f == fresh.f).all()
    with pytest.raises(tp.EvaluationError, match="another run"):
        run(biased, tp.Adam(eps=0.2), replicates=4, **settings)


def test_a_limit_survives_pickling():
    limit = tp.derive(biased, tp.NeuralTangent(tp.Adam(eps=0.1), weight_decay=0.1))
    again = pickle.loads(pickle.dumps(limit))
    assert repr(again) == repr(limit) and again == limit
    assert repr(pickle.loads(pickle.dumps(limit.operator)).optimizer) == repr(limit.operator.optimizer)


BAD = {
    "lr": ({"lr": -0.1}, "lr=-0.1: a learning rate is 0 or more"),
    "later lr": ({"lr": lambda t: 0.1 - t}, r"lr\(1\)=-0.9: a learning rate"),
    "mask": ({"error": [1.0]}, "error=.*give a function"),
    "lr of nothing": ({"lr": lambda: 0.1}, r"lr= is called as lr\(t\)"),
    "error of three": ({"error": lambda f, t, y: f}, r"called as error\(f\) or error\(f, t\)"),
    "vector b": ({"b": [1.0, 2.0]}, r"`b` has shape \(2,\); it needs \(\)"),
    "f0": ({"f0": np.zeros(2)}, r"f0 has shape \(2,\); the outputs of 3 inputs have \(3,\)"),
    "NaN": ({"f0": [0, np.nan, 0]}, "`f0` has NaN"),
    "steps": ({"steps": -1}, "steps=-1: give a whole number"),
    "few": ({"particles": 15}, "particles=15: give a whole number, at least 16"),
    "alone": ({"replicates": 1}, "replicates=1: give a whole number, at least 2"),
    "conditioning": ({"conditioning": "grey"}, "conditioning='grey': give one of the words 'white', 'lazy'"),
    "name": ({"c": 1}, "`biased` has no constant, parameter or axis of this name"),
    "data": ({"data": X[0]}, "X has shape"),
    "ratio": ({"ratios": {"k": 2}}, "widths of `biased` besides n are none"),
    "shape": ({"error": lambda f: f[:1]}, "error= gave an array of shape"),
    "diverges": ({"error": lambda f: 1e200 * f, "lr": 1e200, "steps": 3}, "step [12]: the outputs are not finite"),
    "no executor": ({"executor": 3}, "executor=3: give an executor"),
    "no progress": ({"progress": "yes"}, "progress='yes': give True, False"),
    "two": ({"checkpoint": "a.npz", "executor": ThreadPoolExecutor(1)}, "checkpoints are written by one process"),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_that_make_no_sense(case):
    settings, message = BAD[case]
    with pytest.raises(tp.EvaluationError, match=message):
        run(biased, tp.SGD(), **settings)


def test_shapes_of_biases_and_axes_without_a_size_are_refused():
    sized = outputs.bind(out=2)
    for optimizer in (tp.SGD(), tp.Adam(eps=0.1)):
        for value in ([1.0, 2.0, 3.0], [[1.0, 2.0]]):
            with pytest.raises(tp.EvaluationError, match=r"`b` has shape .*; it needs \(2,\)"):
                run(sized, optimizer, error=lambda f: f, b=value, particles=64, replicates=2)
        with pytest.raises(tp.EvaluationError, match=r"`out` of `outputs` has no size: .*\.bind\(out=…\)"):
            run(outputs, optimizer, error=lambda f: f)


@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Adam(eps=0.1)])
def test_what_is_learned_does_not_move(optimizer):
    """Error signals that are all 0."""
    f0 = np.array([0.2, 0.1, -0.3])
    found = run(biased, optimizer, error=np.zeros_like, f0=f0, particles=64, block=16, replicates=2).f
    assert (found == f0).all()


def test_symbols_are_refused():
    with pytest.raises(tp.EvaluationError, match="κ has no value"):
        run(biased, tp.Adam(eps=sympy.Symbol("κ")))


# -- a decay for each parameter ---------------------------------------------------------------

DECAYS = {"U": 0.1, "β": 0, "W": 0.3, "v": 0.1, "b": 0.2}


def test_one_decay_may_be_given_by_name():
    both = [run(biased, tp.SGD(momentum=0.5), decay, seed=3).f for decay in (0.2, dict.fromkeys(DECAYS, 0.2))]
    assert both[0] == pytest.approx(both[1], abs=1e-12)  # f^dec is drawn, biases and all
    with pytest.raises(tp.ProgramError, match="no decay for `b`, trained by SGD"):
        run(biased, tp.SGD(), {name: 0.1 for name in DECAYS if name != "b"})
    with pytest.raises(tp.ProgramError, match="weight_decay=1 for `W`"):
        run(biased, tp.SGD(), {**DECAYS, "W": 1})


@pytest.mark.long
@pytest.mark.parametrize("optimizer", [NoSGD(momentum=0.5), tp.Normalized(NoSGD(momentum=0.5), by="weight")])
def test_decays_of_parameters_on_particles(optimizer):
    """Kernels between networks on different multiples of their weights, and particles: the same numbers."""
    linear = tp.SGD(momentum=0.5)
    same = linear if optimizer.is_entrywise else tp.Normalized(linear, by="weight")
    settings = {"error": SIGNAL, "lr": 0.5, "steps": 5, "f0": np.zeros((6, 3)), "b": 0.5}
    exact = tp.derive(biased, tp.NeuralTangent({**dict.fromkeys(DECAYS, same), "b": linear}, DECAYS))
    drawn = tp.derive(biased, tp.NeuralTangent({**dict.fromkeys(DECAYS, optimizer), "b": linear}, DECAYS))
    right, found = exact.evaluate(X, **settings), drawn.evaluate(X, **settings, particles=2048, block=128)
    assert exact.is_exact and not drawn.is_exact
    z = (found.f - right.f)[1:] / found.stderr[1:]
    assert np.sqrt((z**2).mean()) < 2
    other = tp.derive(
        biased, tp.NeuralTangent({**dict.fromkeys(DECAYS, same), "b": linear}, {**DECAYS, "U": 0, "β": 0.1})
    )
    wrong = (found.f - other.evaluate(X, **settings).f)[1:] / found.stderr[1:]
    assert np.sqrt((wrong**2).mean()) > 4


WITH_A_MEAN = tp.init(mean=0.5, std=0.5)


@tp.network
def kinked_law(ξ: tp.Input["d"], v: tp.Vector, c: tp.Vector = WITH_A_MEAN):
    return v * tp.abs(c)


def descended(f0, targets, lr, decays, steps):
    """v |c| by hand: v is α v₀ + β |c₀|, |c| is γ |c₀| + δ v₀ beside it, of second moments 1 and ½."""
    runs, α, β, γ, δ = [np.array(f0)], 1.0, 0.0, 1.0, 0.0
    for _ in range(steps):
        signal = np.mean(runs[-1] - targets)
        β, δ = decays["v"] * β - lr * signal * γ, decays["c"] * δ - lr * signal * α
        α, γ = decays["v"] * α, decays["c"] * γ
        runs.append(f0 + α * δ + γ * β / 2)
    return np.array(runs)


def test_decays_of_parameters_with_a_mean_inside_of_a_kink():
    """Entries of c have one law for all inputs, which decays with its age; it had ended in a ValueError."""
    f0, targets, decays = np.array([0.2, -0.1]), np.array([1.0, -0.8]), {"v": 0.1, "c": 0.3}
    found = run(kinked_law, tp.SGD(), decays, X[:2], tp.squared_error(targets), 0.3, 2, f0=[f0] * 3).f
    kept = {name: 1 - decay for name, decay in decays.items()}
    assert found == pytest.approx(descended(f0, targets, 0.3, kept, 2), abs=1e-12)
    assert abs(found - descended(f0, targets, 0.3, {"v": 1, "c": 1}, 2)).max() > 1e-3  # without decay


def test_decays_of_parameters_in_print():
    limit = tp.derive(biased, tp.NeuralTangent(tp.Normalized(tp.SGD(), by="weight"), DECAYS))
    shown = str(limit)
    assert "f^dec_{t+1} − η Σ_{s≤t} 𝒦_{s,t+1}" in shown and "λ[U] = 0.1, λ[β] = 0, λ[W] = 0.3" in shown
    assert "(1 − λ[W])^(t−s) ⟨" in shown and "(1 − λ[β])" not in shown
    assert "ν_t[W] = (1 − λ[W])^t" in shown
    assert r"\lambda_{W} = 0.3" in limit.latex() and r"(1-\lambda_{W})^{t-s}\,\langle" in limit.latex()
    assert "1 − λ[" not in str(tp.derive(biased, tp.NeuralTangent(tp.SGD(), 0.2)))


@pytest.mark.parametrize("regime", [tp.NeuralTangent, tp.MaximalUpdate])
def test_poles_of_updates_have_no_numbers(regime):
    with pytest.warns(UserWarning, match="not bounded where gradients vanish"):
        pole = tp.Entrywise(lambda g: 1 / g)
    for optimizer in (pole, tp.Clipped(pole)):
        limit = tp.derive(shallow, regime(optimizer))
        assert "not bounded where gradients vanish" in " ".join(limit.assumptions)
        with pytest.raises(tp.EvaluationError, match=r"moment not established: .* for `U` is not bounded"):
            limit.evaluate(X, error=SIGNAL, lr=0.1, steps=1)


def test_too_few_particles_are_refused():
    data = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(tp.EvaluationError, match="too few particles"):
        run(
            transposed,
            tp.Adam(eps=0.1),
            data=np.random.default_rng(0).normal(size=(30, 30)),
            particles=64,
            error=np.zeros_like,
        )
    # where kets are Gaussian they are drawn with their covariances, and matrices are never asked
    assert run(biased, tp.Adam(eps=0.1), data=data, error=lambda f: f / 30, particles=64).steps == 5


def test_an_f0_that_no_network_has():
    twice = np.concatenate([X, X[:1]])
    with pytest.raises(tp.EvaluationError, match="f0 cannot be the outputs of this network"):
        run(biased, tp.SGD(), decay=0.1, data=twice, error=lambda f: f, f0=np.arange(4.0))


# -- print-outs -------------------------------------------------------------------------------


def test_the_operator_is_printed_with_its_kets():
    shown = repr(tp.derive(biased, tp.NeuralTangent(tp.Adam(eps=0.5))))
    for line in (
        "f_{t+1} = f_t − η 𝒦(χ_0, …, χ_t),   χ_t = ε_t(f_t),   f_0 ~ N(0, K)",
        "+ ⟨dh| Q_t(Σ_b̃ χ^b̃ |dh⟩⟨_7|) |_7⟩",  # inputs b̃ beside the bias b
        "+ ∂f/∂b Q_t(∂f/∂b Σ_b̃ χ^b̃)",
        "|d_7⟩ = Wᵀ dh,   Gaussian with covariance ⟨dh|dh′⟩: no dot part",
        "ε = 1/2",
    ):
        assert line in shown


def test_tied_uses_stand_in_one_update():
    limit = tp.derive(recurrent, tp.NeuralTangent(tp.Adam(eps=0.5), weight_decay=0.25))
    assert "with G_W = Σ_b χ^b (|d_10⟩⟨x#2| + |d_8⟩⟨x|)" in repr(limit)
    assert "f^dec_{t+1} − η Σ_{s≤t} (1 − λ)^(t−s)" in repr(limit) and "λ = 0.25" in repr(limit)
    text = limit.latex()
    assert r"\begin{align*}" in text and text.count("{") == text.count("}")
    unbroken = re.sub(r"\s*\\\\\s*&\\qquad\s*", " ", text)
    each = [rf"|\mathrm{{d}}(W\,{x})\rangle^b\langle {x}|^b" for x in ("x^{(2)}", "x")]
    assert rf"\sum_b\chi^b\Big({each[0]} + {each[1]}\Big)" in unbroken
    assert "yang2023tensor" in limit.citation() and limit._repr_latex_().startswith("$$")
    assert {s.rule for s in limit.steps} >= {"outputs at the start", "image under a matrix", "weight decay"}
    assert all(str(s) for s in limit.steps) and limit.trained == ("U", "W", "b", "v")


def test_a_doubt_that_is_named_can_be_taken_on():
    """log(2 + exp(x²) − cos x) is at most x² + log 4; of sums with a term of either sign that is not seen."""

    @tp.network
    def doubtful(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        y = tp.log(2 + tp.exp(x * x) - tp.cos(x))
        return v * y

    asked = {"error": lambda f: f - 1, "lr": 0.1, "steps": 1, "f0": [0.0, 0.0]}
    with pytest.raises(tp.EvaluationError, match=r"assume=\('moment of y',\)"):
        tp.derive(doubtful, tp.NeuralTangent(tp.SGD())).evaluate(np.eye(2), **asked)
    with pytest.raises(tp.ProgramError, match="its doubts are 'moment of y'"):
        tp.derive(doubtful, tp.NeuralTangent(tp.SGD()), assume=("moment of z",))
    limit = tp.derive(doubtful, tp.NeuralTangent(tp.SGD()), assume=("moment of y",))
    assert "taken on by the user, not established: moment of y" in str(limit)
    x, weights = np.polynomial.hermite_e.hermegauss(120)
    small = np.exp(-(x**2))
    y = x**2 + np.log1p((2 - np.cos(x)) * small)
    slope = (2 * x + np.sin(x) * small) / (1 + (2 - np.cos(x)) * small)
    squares, mean, slopes = (weights @ f / weights.sum() for f in (y**2, y, slope**2))
    for one in (limit, pickle.loads(pickle.dumps(limit))):
        assert one.evaluate(np.eye(2), **asked).f[1] == pytest.approx(0.1 * (squares + mean**2 + slopes), rel=1e-9)
    adam = tp.derive(doubtful, tp.NeuralTangent(tp.Adam(eps=0.1)), assume=("moment of y", "moment of dx"))
    assert np.isfinite(adam.evaluate(np.eye(2), **asked, particles=256, replicates=2).f).all()
