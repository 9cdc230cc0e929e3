"""Discrete inputs: gathers at finite width, and their gradients as scatters, against NumPy by hand."""

import numpy as np

import tplimits as tp
from tplimits.regimes.training.finite.networks import train


@tp.network
def attention(
    x: tp.Input["token"].of("vocab"),
    E: tp.Scalar["vocab", "d"],
    P: tp.Scalar["token", "d"],
    q: tp.Scalar["d"],
    V: tp.Scalar["d", "e"],
    w: tp.Vector["e"],
    u: tp.Vector["e"],
):
    z = E + P
    Z = z / tp.sqrt(tp.sum(z**2, over="d"))  # a table: for every token at every place
    a = tp.exp(tp.sum(q * Z, over="d")).sel(vocab=x)
    s = a / tp.sum(a, over="token")
    ξ = tp.sum(s * tp.sum(V * Z, over="d").sel(vocab=x), over="token")
    ψ = u * tp.gelu(tp.sum(w * ξ, over="e"))
    out = E.rename(d="e", vocab="out")
    return tp.readout(tp.sum(ψ * out, over="e")) + tp.sum(ξ * out, over="e")


def by_hand(x, E, P, q, V, w, u):
    """The outputs of `attention` at n = 1 readout sum / n, one input at a time, with one-hot vectors."""
    from scipy.special import ndtr

    found = []
    for tokens in x:
        onehot = np.eye(len(E))[tokens]
        Z = onehot @ E + P
        Z = Z / np.sqrt((Z**2).sum(axis=1, keepdims=True))
        s = np.exp(Z @ q)
        s = s / s.sum()
        ξ = s @ Z @ V
        h = w.T @ ξ
        ψ = ξ + (u * (h * ndtr(h))).mean(axis=1)
        found.append(E @ ψ)
    return np.array(found)


def drawn(rng, n):
    shapes = {"E": (3, 2), "P": (4, 2), "q": (2,), "V": (2, 2), "w": (2, n), "u": (2, n)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


NET = attention.bind(vocab=3, token=4, d=2)


def test_outputs_and_a_step_of_gradient_descent():
    rng = np.random.default_rng(0)
    X, values, labels = rng.integers(0, 3, (7, 4)), drawn(rng, 5), rng.integers(0, 3, 7)
    loss = tp.cross_entropy(labels)
    run = train(NET, tp.MUP, tp.SGD(), X, loss, 0.1, 1, n=5, given=values)
    assert np.allclose(run.f[0, 0], by_hand(X, **values), rtol=1e-13)

    def at(moved):
        return loss.loss(by_hand(X, **moved))

    stepped = {}
    for name, value in values.items():
        gradient = np.zeros_like(value)
        for place in np.ndindex(*value.shape):
            up, down = value.copy(), value.copy()
            up[place] += 1e-5
            down[place] -= 1e-5
            gradient[place] = (at({**values, name: up}) - at({**values, name: down})) / 2e-5
        # μP moves vectors by η n times the gradient of the mean
        stepped[name] = value - 0.1 * gradient * (5 if name in "wu" else 1)
    assert np.allclose(run.f[0, 1], by_hand(X, **stepped), atol=1e-8)
    wrong = {**stepped, "E": values["E"]}
    assert not np.allclose(run.f[0, 1], by_hand(X, **wrong), atol=1e-4)
