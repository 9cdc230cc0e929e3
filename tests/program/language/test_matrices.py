"""Matrices multiply vectors, and do nothing else."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.nodes.kinds import MatMul


def test_transpose_of_transpose():
    @tp.program
    def twice(W: tp.Matrix, x: tp.Vector):
        return W.T.T @ x - W @ x

    assert sum(isinstance(s, MatMul) for s in twice) == 1
    assert twice[twice.position("return")].body == 0


def test_a_family_is_matched_entry_by_entry_never_contracted():
    @tp.program
    def heads(W: tp.Matrix["n", "n", "head"], x: tp.Vector["head", "token"]):
        return W @ x

    rng = np.random.default_rng(0)
    W, x = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 4, 3))
    np.testing.assert_allclose(heads.run(n=3, W=W, x=x)["return"], np.einsum("hab,htb->hta", W, x), atol=1e-13)


def test_members_renamed_and_transposed():
    @tp.program
    def views(W: tp.Matrix["k", "n", "head"], x: tp.Vector["head"], y: tp.Vector["k"]):
        a = W.sel(head=1).T @ (W.rename(head="other") @ x)
        b = W.T.sel(head=0) @ y
        return tp.sum(a, over="head"), b

    rng = np.random.default_rng(1)
    W, x, y = rng.normal(size=(2, 6, 3)), rng.normal(size=(2, 3)), rng.normal(size=6)
    ran = views.run(n=3, ratios={"k": 2}, W=W, x=x, y=y)
    assert views[views.position("a")].axes == ("head", "other")
    expected = np.einsum("ka,okb,hb->oa", W[1], W, x)
    np.testing.assert_allclose(ran["return[0]"], expected, atol=1e-12)
    np.testing.assert_allclose(ran["b"], W[0].T @ y, atol=1e-13)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda W, U, F, x: W * x, "entrywise arithmetic with a matrix; a matrix only multiplies vectors"),
        (lambda W, U, F, x: x * W, "entrywise arithmetic with a matrix"),
        (lambda W, U, F, x: W + W, "entrywise arithmetic with a matrix"),
        (lambda W, U, F, x: 2 * W @ x, "entrywise arithmetic with a matrix"),
        (lambda W, U, F, x: -W @ x, "entrywise arithmetic with a matrix"),
        (lambda W, U, F, x: 1 / W @ x, "entrywise arithmetic with a matrix"),
        (lambda W, U, F, x: np.eye(2) @ W @ x, "np.matmul with a matrix"),
        (lambda W, U, F, x: W @ W, "a product of two matrices; multiply the vector first"),
        (lambda W, U, F, x: W @ 3, "a matrix times a value of type int"),
        (lambda W, U, F, x: W @ tp.avg(x), r"a matrix times a scalar; .* use \* for scalars"),
        (lambda W, U, F, x: W @ x[tp.neuron("β")], "a matrix times a value with the free neuron index β"),
        (lambda W, U, F, x: U.T @ x, "a matrix that takes vectors over `k` times a vector over `n`; use the transpose"),
        (lambda W, U, F, x: W[0] @ x, r"an entry of a matrix; .* W\.sel\(layer=0\)"),
        (lambda W, U, F, x: tp.tanh(W) @ x, "tp.tanh of a matrix; matrices only multiply vectors"),
        (lambda W, U, F, x: tp.maximum(W, x), "tp.maximum of a matrix"),
        (lambda W, U, F, x: np.tanh(W) @ x, "np.tanh with a matrix; a matrix only multiplies vectors"),
        (lambda W, U, F, x: tp.avg(W), "tp.avg of a matrix n×n; average a vector"),
        (lambda W, U, F, x: tp.sum(F, over="head"), r"tp\.sum of a matrix n×n with axes \(head\)"),
        (lambda W, U, F, x: F.sel(layer=0) @ x, r"sel\(\) along `layer` on a matrix .*; its axes are \(head\)"),
        (lambda W, U, F, x: W.sel(head=0) @ x, r"sel\(\) along `head` on a matrix n×n; it has no finite axes"),
        (lambda W, U, F, x: F.sel(head=-1) @ x, "the indices of `head` start at 0"),
        (lambda W, U, F, x: F.rename(layer="a") @ x, r"rename\(\) along `layer`"),
        (lambda W, U, F, x: (W if W == W.T else U) @ x, "`==` or `!=`"),
        (lambda W, U, F, x: len(W) * x, "len"),
        (lambda W, U, F, x: sum(W @ x for _ in W), "iteration"),
        (lambda W, U, F, x: W.shape[0] * x, "has no attribute 'shape'"),
        (lambda W, U, F, x: (W if W else U) @ x, "used as a condition"),
    ],
)
def test_what_a_matrix_does_not_do(use, words):
    with pytest.raises(ProgramError, match=words):

        @tp.program
        def ill(W: tp.Matrix, U: tp.Matrix["k", "n"], F: tp.Matrix["n", "n", "head"], x: tp.Vector):
            return use(W, U, F, x)
