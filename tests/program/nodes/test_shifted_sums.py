"""Sums of exponentials that overflow doubles, in runs at finite width, against NumPy with the maximum taken out."""

import numpy as np
import pytest

import tplimits as tp


def weights(z):
    e = np.exp(z - z.max(0))
    return e / e.sum(0)


def sums(z, y):
    """m, Σ e^(z − m) and Σ y e^(z − m)."""
    m = z.max(0)
    return m, np.exp(z - m).sum(0), (y * np.exp(z - m)).sum(0)


def softmax(x):
    return tp.softmax(x, over="token")


def total(x):
    return tp.sum(x, over="token")


#: what a program does with two vectors of three tokens, and the same in NumPy
WRITTEN = {
    "two softmaxes": (
        lambda x, y: total(softmax(900 * x) * softmax(900 * y)),
        lambda x, y: (weights(900 * x) * weights(900 * y)).sum(0),
    ),
    "its square": (
        lambda x, y: total(softmax(900 * x) ** 2 * x),
        lambda x, y: (weights(900 * x) ** 2 * x).sum(0),
    ),
    "of a softmax": (
        lambda x, y: total(softmax(900 * x) * softmax(900 * softmax(900 * x))),
        lambda x, y: (weights(900 * x) * weights(900 * weights(900 * x))).sum(0),
    ),
    "its derivative": (
        lambda x, y: total(softmax(900 * x) * (y - total(softmax(900 * x) * y)) ** 2),
        lambda x, y: (weights(900 * x) * (y - (weights(900 * x) * y).sum(0)) ** 2).sum(0),
    ),
    "logits that underflow": (
        lambda x, y: total(softmax(x - 742) * y),
        lambda x, y: (weights(x) * y).sum(0),
    ),
    "logarithm": (
        lambda x, y: tp.log(total(tp.exp(900 * x))),
        lambda x, y: sums(900 * x, y)[0] + np.log(sums(900 * x, y)[1]),
    ),
    "quotient of sums": (
        lambda x, y: total(y * tp.exp(900 * x)) / total(tp.exp(900 * x)),
        lambda x, y: sums(900 * x, y)[2] / sums(900 * x, y)[1],
    ),
    "beside 1": (
        lambda x, y: 2 * total(y * tp.exp(900 * x)) / (2 + 2 * total(tp.exp(900 * x))),
        lambda x, y: sums(900 * x, y)[2] / (sums(900 * x, y)[1] + np.exp(-np.maximum(sums(900 * x, y)[0], -600))),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_functions_of_large_logits_are_numbers(name):
    written, by_hand = WRITTEN[name]

    @tp.program
    def program(x: tp.Vector["token"], y: tp.Vector["token"]):
        return written(x, y)

    bound = program.bind(token=3)
    run = bound.run(n=400, seed=1)
    values = run[bound[bound.returns[0]].name]
    expected = by_hand(run["x"], run["y"])
    assert np.isfinite(values).all()
    assert np.allclose(values, expected, rtol=1e-9, atol=1e-12)


@tp.network
def attention(
    ξ: tp.Input["token", "d"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector, *, c
):
    x = tp.sum(U * ξ, over="d")
    q, k, w = Q @ x, (K @ x).rename(token="key"), (V @ x).rename(token="key")
    return v * total(tp.sum(tp.softmax(c * tp.avg(q * k), over="key") * w, over="key"))


def test_attention_with_large_logits_trains():
    """Logits are 0 at the start, so that the first step is that of any factor before them; then weights are 0 and 1."""
    X = np.random.default_rng(0).standard_normal((3, 2, 2))
    asked = {"error": tp.squared_error(np.array([1.0, 0.0, -1.0])), "lr": 0.05, "steps": 3}
    large, small = (tp.derive(attention.bind(c=c), tp.MaximalUpdate(tp.SGD())) for c in (900.0, 1.0))
    found, other = (limit.evaluate(X, particles=128, replicates=2, **asked).f for limit in (large, small))
    assert np.isfinite(found).all() and np.abs(found).max() < 5
    assert np.allclose(found[1], other[1], atol=1e-9) and not np.allclose(found[3], other[3], atol=0.1)
    # those of networks are finite as well, whose logits are ±100 at the start
    assert tp.check(large, X=X, **asked, widths=(16, 32), draws=20, particles=128, progress=False).rows
