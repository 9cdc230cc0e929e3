"""Members of one family of matrices are independent: logits may read one for queries and another for keys."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = np.random.default_rng(0).normal(size=(2, 3, 4)) / 2


def attended(q, k, w):
    logits = tp.sqrt(tp.n) * tp.avg(q * k.rename(token="key"))
    return tp.mean(tp.sum(tp.tanh(logits) * w.rename(token="key"), over="key"), over="token")


@tp.network
def separate(ξ: tp.Input["token", "d"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    h = tp.sum(U * ξ, over="d")
    return v * attended(Q @ h, K @ h, V @ h)


@tp.network
def by_matrix(ξ: tp.Input["token", "d"], U: tp.Vector["d"], A: tp.Matrix["n", "n", "which"], v: tp.Vector):
    h = tp.sum(U * ξ, over="d")
    return v * attended(*(A.sel(which=i) @ h for i in range(3)))


@tp.network
def by_image(ξ: tp.Input["token", "d"], U: tp.Vector["d"], A: tp.Matrix["n", "n", "which"], v: tp.Vector):
    images = A @ tp.sum(U * ξ, over="d")
    return v * attended(*(images.sel(which=i) for i in range(3)))


@tp.network
def one_for_both(ξ: tp.Input["token", "d"], U: tp.Vector["d"], A: tp.Matrix["n", "n", "which"], v: tp.Vector):
    h = tp.sum(U * ξ, over="d")
    return v * attended(*(A.sel(which=i) @ h for i in (0, 0, 1)))


def by_position(which):
    """Matrices along the axis that tokens have, of which nothing else is shared."""

    @tp.network
    def network(ξ: tp.Input["token", "d"], U: tp.Vector["d"], A: tp.Matrix["n", "n", "token"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        return v * attended(*(A.sel(token=i) @ h for i in which))

    return network


@tp.network
def headed(
    ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector,
    Q: tp.Matrix["n", "n", "head"], K: tp.Matrix["n", "n", "head"], V: tp.Matrix["n", "n", "head"],
):  # fmt: skip
    h = tp.sum(U * ξ, over="d")
    return v * tp.sum(attended(Q @ h, K @ h, V @ h), over="head")


def by_table(places):
    """The matrices of two heads in one family, where a table says which of them a head has."""

    @tp.network
    def network(ξ: tp.Input["token", "d"], U: tp.Vector["d"], A: tp.Matrix["n", "n", "which"], v: tp.Vector):
        images = A @ tp.sum(U * ξ, over="d")
        return v * tp.sum(attended(*(images.take(which=np.array(p), axes="head") for p in places)), over="head")

    return network.bind(which=6)


@pytest.mark.parametrize(
    ("network", "apart"),
    [
        (by_matrix.bind(which=3), separate),
        (by_image.bind(which=3), separate),
        (by_position((0, 1, 2)), separate),
        (by_table([(0, 1), (2, 3), (4, 5)]), headed.bind(head=2)),
    ],
)
def test_kernels_are_those_of_separate_matrices(network, apart):
    """At levels of 1e-6 in each of 8 numbers."""
    draws = 3000
    found, expected = (
        tp.derive(net, tp.Kernels()).sample(X, draws=draws, seed=seed) for seed, net in enumerate([network, apart])
    )
    for mine, theirs in ((found.nngp, expected.nngp), (found.ntk, expected.ntk)):
        error = np.sqrt((mine.var(axis=0) + theirs.var(axis=0)) / draws)
        assert (abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 4.9 * error).all()
        assert (error < 0.05 * theirs.mean(axis=0).max()).all()


def test_one_member_for_both_sides_is_refused():
    with pytest.raises(tp.NoLimitError, match=r"⟨h\|h⟩.* unless the means .* cancel it grows|outside the class"):
        tp.derive(one_for_both.bind(which=2), tp.Kernels())


def product(number):
    @tp.program
    def program(A: tp.Matrix["n", "n", "which"], x: tp.Vector, y: tp.Vector):
        images = A @ x
        return tp.tanh(tp.sqrt(tp.n) * tp.avg(images.sel(which=0) * (A.sel(which=number) @ y))) ** 2

    return program.bind(which=3)


def test_width_limits_of_two_members_and_of_one():
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    expected = np.sum(weights * np.tanh(nodes) ** 2) / np.sqrt(2 * np.pi)
    found = tp.derive(product(1)).evaluate()["return"]
    assert found.value == pytest.approx(expected, abs=1e-7)
    with pytest.raises(tp.NoLimitError, match="outside the class"):
        tp.derive(product(0)).evaluate()
