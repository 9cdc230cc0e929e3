"""`tp.watch` on networks that are nobody's example, each with its limit beside it, without code of their own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import tplimits as tp


def digits(classes: tuple[int, ...], each: int) -> tuple[np.ndarray, np.ndarray]:
    """Scanned digits of 8 × 8 dots between −1 and 1, the classes in turn, and which they are."""
    x, labels = load_digits(return_X_y=True)
    rows = np.array([np.flatnonzero(labels == c)[:each] for c in classes]).T.ravel()
    return x[rows] / 8 - 1, np.tile(np.arange(len(classes)), each)


@tp.network
def two_layers(ξ: tp.Input["dot"], U: tp.Vector["dot"], W: tp.Matrix, v: tp.Vector["digit"]):
    h = tp.relu(tp.sum(U * ξ, over="dot") / tp.sqrt(tp.size("dot")))
    g = tp.relu(W @ h)
    return v * g


@tp.network
def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "block"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    for i in range(2):
        x = x + tp.tanh(W.sel(block=i) @ x) / 2
    return v * x


@tp.network
def attention(
    x: tp.Input["token"].of("vocab"),
    E: tp.Vector["vocab"],
    P: tp.Vector["token"],
    Q: tp.Vector["token"],
    v: tp.Vector["vocab"],
):
    """Each token looks for the place that its query Q points at, and says which token stands there."""
    z = E.sel(vocab=x) + P
    keys = z.rename(token="key")
    weights = tp.softmax(2 * tp.avg(Q * keys), over="key")
    read = tp.sum(weights * keys, over="key")
    return v * read


def away(rec, width, other):
    """Root mean square distance of the outputs on the probes at the last frame, over seeds, from an array."""
    seeds = [run.seed for run in rec.runs if run.width == width]
    return np.sqrt(np.mean([(rec.outputs(width=width, seed=s) - other) ** 2 for s in seeds]))


@pytest.mark.long
def test_a_perceptron_on_digits_in_mup():
    x, labels = digits((0, 1, 4), 5)
    loss = tp.cross_entropy(labels, train=range(12))
    how = {"error": loss, "optimizer": tp.Adam(eps=1e-3), "lr": 0.15, "steps": 6}
    rec = tp.watch(two_layers.bind(digit=3), x, **how, widths=(32, 256, tp.inf), seeds=3, particles=1280, replicates=2)
    limit = rec.average(width=tp.inf).mean
    assert away(rec, 256, limit) < 0.6 * away(rec, 32, limit)
    start, end = (np.mean(rec.loss[tp.inf][:, t]) for t in (0, -1))
    assert end < 0.5 * start and abs(np.mean(rec.loss[256][:, -1]) - end) < 0.1 * (start - end)
    assert np.mean(rec.curves("held-out accuracy")[tp.inf][:, -1]) >= 0.75
    assert rec.value("g", width=32).shape == (15, 32) and rec.value("g", width=tp.inf).shape[0] == 15


@pytest.mark.long
def test_a_perceptron_on_digits_in_ntp():
    """Outputs at the start are random; the loss from them on falls on average as that of the limit does."""
    x, labels = digits((3, 5), 16)
    how = {"error": tp.squared_error(np.eye(2)[labels], train=range(24)), "optimizer": tp.SGD(), "lr": 1.0, "steps": 12}
    rec = tp.watch(two_layers.bind(digit=2), x, **how, widths=(256, tp.inf), seeds=24, parametrization=tp.NTP)
    fall = {n: np.log(c[:, 0] / c[:, -1]) for n, c in rec.loss.items()}
    spread = np.sqrt(sum(f.var(ddof=1) / len(f) for f in fall.values()))
    assert abs(fall[256].mean() - fall[tp.inf].mean()) < 4 * spread + 0.05
    assert fall[tp.inf].mean() > 5 * spread
    assert np.mean(rec.curves("held-out accuracy")[tp.inf][:, -1]) > 0.8


@pytest.mark.long
def test_a_residual_network():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, 4))
    how = {"error": tp.squared_error(np.tanh(x[:, 0] - x[:, 1])), "optimizer": tp.SGD(momentum=0.5), "lr": 0.3}
    rec = tp.watch(residual.bind(block=2), x, **how, steps=5, widths=(32, 256, tp.inf), seeds=4, particles=1024)
    limit = np.mean([rec.outputs(width=tp.inf, seed=s) for s in range(4)], axis=0)
    noise = away(rec, tp.inf, limit)
    assert noise < away(rec, 256, limit) < 0.6 * away(rec, 32, limit)
    assert np.mean(rec.loss[tp.inf][:, -1]) < 0.5 * np.mean(rec.loss[tp.inf][:, 0])


def test_attention_on_a_copy_task():
    """Three tokens of two kinds; each place has to say which token stands at the next one."""
    x = np.array([[a, b, c] for a in range(2) for b in range(2) for c in range(2)])
    loss = tp.cross_entropy(np.roll(x, -1, axis=1))
    how = {"error": loss, "optimizer": tp.Adam(eps=1e-4), "lr": 0.1, "steps": 60}
    net = attention.bind(vocab=2, token=3)
    rec = tp.watch(net, x, **how, widths=(32, 512, tp.inf), seeds=4, every=10, particles=1024)
    limit = np.mean([rec.outputs(width=tp.inf, seed=s) for s in range(4)], axis=0)
    assert away(rec, 512, limit) < 0.6 * away(rec, 32, limit)
    assert rec.run(tp.inf).curves["accuracy"][-1] == 1
    weights = rec.value("weights", width=tp.inf)
    assert weights.shape == (8, 3, 3) and weights.argmax(axis=2).tolist() == [[1, 2, 0]] * 8
