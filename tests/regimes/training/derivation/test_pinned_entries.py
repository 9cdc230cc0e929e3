"""Parameters of which a use moves some entries alone: tied outputs, entries that are selected or looked up, biases."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

X = np.random.default_rng(5).standard_normal((2, 3))
TARGETS = np.random.default_rng(6).standard_normal((2, 3))


@tp.network
def linear(X: tp.Input["v"], E: tp.Vector["v"], V: tp.Matrix):
    return E.rename(v="cls") * (V @ tp.sum(X * E, over="v"))


@tp.network
def tied(X: tp.Input["v"], E: tp.Vector["v"], V: tp.Matrix):
    return E.rename(v="cls") * (V @ tp.tanh(tp.sum(X * E, over="v")))


@tp.network
def transposed(X: tp.Input["v"], E: tp.Vector["v"], V: tp.Matrix, b: tp.Scalar["v"] = 0.25):
    h = V @ tp.tanh(tp.sum(X * E, over="v"))
    return tp.readout(E.rename(v="cls") * (V.T @ tp.tanh(h))) + b.rename(v="cls")


@tp.network
def several(X: tp.Input["v"], E: tp.Vector["v"], V: tp.Matrix, w: tp.Vector["cls"], b: tp.Scalar["cls"] = 0.25):
    return tp.readout(w * (V @ tp.tanh(tp.sum(X * E, over="v")))) + b


@tp.network
def picked(X: tp.Input["v"], E: tp.Vector["v"], V: tp.Matrix, w: tp.Vector):
    return w * (V @ tp.tanh(tp.sum(X * E, over="v"))) * E.sel(v=1) + w * E.sel(v=0)


@tp.network
def looked_up(X: tp.Input["v"], E: tp.Vector["v"], V: tp.Matrix, w: tp.Vector):
    z = E.take(v=np.array([0, 0, 1, -1]), axes="p")
    return w * tp.tanh(V @ tp.sum(tp.tanh(z), over="p")) * tp.tanh(tp.sum(X * E, over="v"))


@tp.network
def summed(X: tp.Input["v"], E: tp.Vector["v"], w: tp.Vector["cls"], b: tp.Scalar["cls"] = 0.25):
    """What is added to every output is a sum over an axis called like that of the outputs."""
    return tp.readout(w * tp.tanh(tp.sum(X * E, over="v"))) + tp.sum(tp.tanh(b), over="cls")


NETWORKS = [n.bind(v=3) for n in (tied, transposed, picked, looked_up)]
NETWORKS += [n.bind(v=3, cls=3) for n in (several, summed)]


@pytest.mark.parametrize("classes", [2, 3])
def test_tied_outputs_move_their_own_class(classes):
    """E_0 moves by its own χ alone: f_1 is 3/2 at class 0, as for one output, and 0 at the others."""
    limit = tp.derive(linear.bind(v=classes), tp.MaximalUpdate(tp.SGD()))
    first = np.eye(classes)[:1]
    asked = {"error": tp.squared_error(first), "lr": 0.5, "steps": 1}
    expected = [sympy.Rational(3, 2)] + [0] * (classes - 1)
    assert limit.exact(first, **asked)[1, 0].tolist() == expected
    numbers = limit.evaluate(first, particles=128, replicates=2, **asked).f[1, 0]
    np.testing.assert_allclose(numbers, np.array(expected, dtype=float), atol=1e-12)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
@pytest.mark.parametrize("optimizer", [tp.SGD(momentum=0.5), tp.Adam(eps=0.05)], ids=["momentum", "Adam"])
def test_the_program_trains_as_true_matrices_do(network, optimizer):
    """Two steps with decay, entry for entry: the program of steps beside gradients that are summed row by row."""
    outputs = network[network.returns[0]].axes
    error = tp.squared_error(TARGETS if outputs else TARGETS[:, 0])
    limit = tp.derive(network, tp.MaximalUpdate(optimizer, weight_decay=0.125))
    arrays = limit.unrolled(X, error=error, lr=0.25, steps=2).run(n=12, seed=1)
    given = {name: arrays[name] for name in limit.recursion.optimizers}
    run = train(network, tp.MUP, optimizer, X, error, 0.25, 2, 12, given=given, weight_decay=0.125)
    np.testing.assert_allclose([arrays[f"f_{t}"] for t in range(3)], run.f[0], atol=1e-13)


@pytest.mark.parametrize("name", "Ewb")
def test_gradients_of_a_sum_over_an_axis_called_like_the_outputs_follow_finite_differences(name):
    network, n, h = NETWORKS[-1], 5, 1e-6
    rng = np.random.default_rng(3)
    given = {"E": rng.standard_normal((3, n)), "w": rng.standard_normal((3, n)), "b": rng.standard_normal(3)}
    plain = tp.ABCD(dict.fromkeys("Ewb", (0, 0, 0, 0)) | {"out": 0})

    def outputs(steps, values, lr=0.0):
        return train(
            network, plain, tp.SGD(), X, lambda f: TARGETS, lr, steps, n, given=values, only=[name], keep=[name]
        )

    kept = outputs(1, given, lr=1.0).kept[name][0]
    direction = rng.standard_normal(given[name].shape)
    ends = [(outputs(0, given | {name: given[name] + e * h * direction}).f[0, 0] * TARGETS).sum() for e in (1, -1)]
    assert ((kept[0] - kept[1]) * direction).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


def test_what_is_printed_says_which_entries_move():
    @tp.network
    def layers(X: tp.Input["v"], E: tp.Vector["v"], W: tp.Matrix["n", "n", "layer"], w: tp.Vector):
        x = tp.sum(X * E, over="v")
        for layer in range(2):
            x = tp.tanh(W.sel(layer=layer) @ x)
        return w * x

    moved = {n.name: tp.derive(n, tp.MaximalUpdate(tp.SGD())) for n in (*NETWORKS, layers.bind(layer=2))}
    fixed = {n.name: tp.derive(n, tp.NeuralTangent(tp.Adam(eps=0.05))) for n in (tied, several, picked, looked_up)}
    for name, line in {
        "tied": "Q_t(χ_t[cls=v]·|_5_t⟩ + χ_t·|dE_t⟩)",
        "several": "Q_t(χ_t[cls]·|_7_t⟩)",
        "picked": "Q_t(δ[v=0] χ_t·|w_t⟩ + δ[v=1] χ_t·|dE(v=1)_t⟩ + χ_t·|dE_t⟩)",
        "looked_up": "Q_t(χ_t·|dE_t⟩ + δ[v=table0[p]] χ_t·|dz_t⟩)",
        "layers": "Q_t(δ[layer=1] |d_8_t⟩_χ_t⟨x#2_t| + δ[layer=0] |d_6_t⟩_χ_t⟨x_t|)",
    }.items():
        assert line in str(moved[name]), str(moved[name])
    assert "|W[layer=1]_0 x#2_t⟩ − η Σ_{s<t} Q_s(|d_8_s⟩_χ_s⟨x#2_s|) |x#2_t⟩" in str(moved["layers"])
    for name, line in {
        "tied": "Σ_{v} δ[v=cls] ⟨_5|Q_t(G_E)⟩   with G_E = Σ_b (χ^b[cls=v] |_5⟩ + χ^b |dE[cls_out, v]⟩)",
        "several": "+ ⟨_7|Q_t(Σ_b̃ χ^b̃[cls] |_7⟩)⟩",
        "picked": "Σ_{v} δ[v=0] ⟨w|Q_t(G_E)⟩",
        "looked_up": "Σ_{v} Σ_{p} δ[v=table0[p]] ⟨dz[p]|Q_t(G_E)⟩",
    }.items():
        assert line in str(fixed[name]), str(fixed[name])
    assert r"{\chi}_{t}^{\mathrm{cls}=v}\cdot" in moved["tied"].latex()
    assert r"\delta_{v=\mathrm{cls}}\,\langle" in fixed["tied"].latex()
