"""Functions of Σ_m x h_m: what all members share stands outside, and what is left is one Gaussian variable."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.0], [0.6, 0.8]])
SLOPES = np.array([0.5, -1.0, 2.0])


def network(read):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "member"], v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        return v * tp.tanh(read(W @ x, x))

    return tp.derive(net.bind(member=3), tp.Kernels()).evaluate(X)


def slopes():
    return tp.constant(SLOPES, axes=("member",))


SAME = {
    "mean": (lambda h, x: tp.mean(h * x, over="member"), lambda h, x: x * tp.mean(h, over="member")),
    "array": (
        lambda h, x: tp.sum(slopes() * x * h, over="member"),
        lambda h, x: x * tp.sum(slopes() * h, over="member"),
    ),
    "beside": (lambda h, x: x + tp.sum(x * h, over="member"), lambda h, x: x * (1 + tp.sum(h, over="member"))),
    "square": (lambda h, x: tp.sum(x**2 * h, over="member"), lambda h, x: x**2 * tp.sum(h, over="member")),
}


@pytest.mark.parametrize("name", [pytest.param("mean", marks=pytest.mark.long), *(n for n in SAME if n != "mean")])
def test_a_factor_inside_of_a_sum_is_one_outside(name):
    inside, outside = (network(read) for read in SAME[name])
    for kind in ("nngp", "ntk"):
        one, other = getattr(inside, kind), getattr(outside, kind)
        errors = [getattr(k, f"{kind}_error") for k in (inside, outside)]
        spread = sum(np.asarray(e) if e is not None else 0 for e in errors)
        assert (np.abs(one - other) < 1e-8 + 5 * spread).all()


def test_networks_have_this_kernel():
    """E tanh(x g)² with x = tanh u and g ~ N(0, 3 E x²), which is not E tanh(x g₁)², one member of the three."""
    K = network(lambda h, x: tp.sum(h * x, over="member"))
    z, w = np.polynomial.hermite_e.hermegauss(90)
    w = w / w.sum()
    x = np.tanh(z)
    three, one = (w @ np.tanh(x[:, None] * np.sqrt(k * (w @ x**2)) * z) ** 2 @ w for k in (3, 1))
    assert abs(K.nngp[0, 0] - three) < 1e-4 and abs(three - one) > 0.1


@pytest.mark.parametrize(
    "read",
    [
        lambda h, x: tp.sum(x * tp.relu(h), over="member"),
        lambda h, x: tp.sum(x * h + h**2, over="member"),
        lambda h, x: tp.sum(h * h, over="member"),
    ],
)
def test_sums_of_other_functions_are_refused(read):
    with pytest.raises(tp.NoLimitError, match="as many variables as the axis is long"):
        network(read)
