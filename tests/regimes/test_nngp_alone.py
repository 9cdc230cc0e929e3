"""Networks whose NNGP exists and whose tangent kernel does not, or where neither does."""

from __future__ import annotations

import numpy as np
import pytest
import reference_kernels as R

import tplimits as tp

X = np.array([[1.0, 0.5, -0.25], [0.5, -1, 2], [-1, 1, 1]])
REASON = "a product of the derivatives of two jumps, which is infinite at coinciding inputs"
JUMPS = {"step": tp.step, "sign": tp.sign}


def jumping(name: str) -> tp.Program:
    φ = JUMPS[name]

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, c: tp.Scalar):
        h = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
        return tp.readout(v * φ(W @ φ(h))) + c / 2

    return net


def limit(name: str, *train: str) -> tp.KernelLimit:
    return tp.derive(jumping(name), tp.Kernels(train=train or None))


def arc_sine(name: str) -> np.ndarray:
    """The NNGP by hand."""
    x = R.activation(R.dense(R.data(X[:, None, :])), name)
    return R.output(R.activation(R.dense(x), name), 1, 0.5)[0]


@pytest.mark.parametrize("name", JUMPS)
def test_the_nngp_is_given_and_the_tangent_kernel_refused(name):
    pair = limit(name).evaluate(X)
    np.testing.assert_allclose(pair.nngp, arc_sine(name), rtol=1e-13)
    for ask in (lambda: pair.ntk, lambda: tuple(pair), lambda: limit(name).evaluate(X, X).ntk):
        with pytest.raises(tp.NoLimitError, match=REASON):
            ask()


@pytest.mark.parametrize("name", JUMPS)
def test_inference_with_the_kernel_that_exists(name):
    K, y = arc_sine(name), np.array([1.0, -1, 2])
    found = limit(name).posterior(X, y, noise=0.5)
    np.testing.assert_allclose(found.mean, K @ np.linalg.solve(K + np.eye(3) / 2, y), rtol=1e-10)
    for ask in (
        lambda: limit(name).posterior(X, y, noise=0.5, kernel="ntk"),
        lambda: limit(name).train(X, y),
        lambda: limit(name).log_marginal_likelihood(X, y, 0.5, kernel="ntk"),
    ):
        with pytest.raises(tp.NoLimitError, match=REASON):
            ask()


def test_parameters_behind_the_jump_have_a_tangent_kernel():
    pair = limit("step", "v", "c").evaluate(X)
    np.testing.assert_allclose(pair.ntk, pair.nngp, rtol=1e-14)
    part = limit("step").contribution("c").evaluate(X)
    np.testing.assert_allclose(part.ntk, np.full((3, 3), 0.25), rtol=1e-14)


def test_one_jump_is_no_obstacle():
    """E step(u)′ of one jump beside smooth functions: E δ(h) relu(h′) … is a number away from coinciding inputs."""

    @tp.network
    def mixed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.relu(W @ tp.step(tp.sum(U * ξ, over="d")))

    assert tp.derive(mixed, tp.Kernels(train=("v", "W"))).evaluate(X).ntk.shape == (3, 3)
    with pytest.raises(tp.NoLimitError, match=REASON):
        tp.derive(mixed, tp.Kernels()).evaluate(X).ntk  # noqa: B018


def test_files_hold_the_nngp_alone(tmp_path):
    pair = limit("sign").evaluate(X, out=tmp_path / "gram")
    assert sorted(p.name for p in (tmp_path / "gram").iterdir()) == ["lock", "manifest.json", "nngp.npy"]
    with pytest.raises(tp.NoLimitError, match=REASON):
        tp.load_kernels(tmp_path / "gram").ntk  # noqa: B018
    np.testing.assert_allclose(pair.nngp, arc_sine("sign"), rtol=1e-13)


def test_reports_do_not_say_that_the_tangent_kernel_is_zero():
    found = limit("step")
    text = repr(found)
    assert "and no tangent kernel Θ of U, W, v, c: " in text and REASON in text
    assert "Θ(ξ,ξ′) =" not in text and r"\Theta" not in found.latex()
    assert any(line.startswith("there is no Θ of training") for line in found.assumptions)
    assert all("Θ" not in step.conclusion for step in found.steps)
    assert "Θ(ξ,ξ′) =" in repr(limit("step", "v"))


@pytest.mark.sampling
def test_the_nngp_is_checked_without_gradients(seed):
    found, options = limit("step"), {"widths": (16, 32, 64), "draws": 2000, "seed": seed, "progress": False}
    verdict = tp.check(found, X1=X[:2], **options)
    assert verdict.accepted and [r.claim.name for r in verdict.rows] == ["K[0,0]", "K[0,1]", "K[1,1]"]
    assert not tp.check(found, X1=X[:2], claims={"nngp": 1.2 * arc_sine("step")[:2, :2]}, **options).accepted
    for claims in ({"ntk": np.eye(2)}, {"Θ[0,0]": 1.0}):
        with pytest.raises(tp.NoLimitError, match=REASON):
            tp.check(found, X1=X[:2], claims=claims, **options)


@pytest.mark.sampling
def test_a_check_follows_trained_parameters_alone(seed):
    """Gradients in front of the jump are never formed."""
    found = limit("step", "v", "c")
    options = {"widths": (16, 32, 64), "draws": 1000, "seed": seed, "progress": False}
    assert tp.check(found, X1=X[:2], **options).accepted
    assert not tp.check(found, X1=X[:2], claims={"ntk": 1.2 * found.evaluate(X[:2]).ntk}, **options).accepted


# -- attention ---------------------------------------------------------------------------------------------


def softmax_attention(queries: str) -> tp.Program:
    @tp.network
    def heads(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "head"],
        K: tp.Matrix["n", "n", "head"],
        V: tp.Matrix["n", "n", "head"],
        WO: tp.Matrix["n", "n", "head"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        q, k = Q @ x, ((Q if queries == "tied" else K) @ x).rename(token="key")
        A = tp.softmax(tp.sqrt(tp.n) * tp.avg(q * k), over="key")
        y = WO @ tp.sum(A * (V @ x).rename(token="key"), over="key")
        return v * tp.sum(y, over="head") / tp.sqrt(tp.size("head"))

    return heads


@pytest.mark.parametrize("infinite", [(), ("head",)])
def test_tied_queries_at_the_root_are_refused_with_the_term_that_diverges(infinite):
    with pytest.raises(tp.NoLimitError, match=r"of the term sqrt\(n\)\*⟨x\|x⟩\[token, key\] cancel it grows"):
        tp.derive(softmax_attention("tied"), tp.Kernels(infinite=infinite))
    tp.derive(softmax_attention("free"), tp.Kernels(infinite=infinite))


def test_a_vector_times_the_root_is_refused_by_its_name():
    @tp.network
    def rooted(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        y = W @ tp.tanh(tp.sum(U * ξ, over="d"))
        return v * (tp.sqrt(tp.n) * y + 1)

    with pytest.raises(tp.NoLimitError, match=r"the term sqrt\(n\)\*y grows with n and nothing"):
        tp.derive(rooted, tp.Kernels())


def test_a_fixed_number_of_heads_has_no_single_kernel():
    found = tp.derive(softmax_attention("free").bind(head=2), tp.Kernels())
    tokens, y = np.random.default_rng(0).standard_normal((2, 3, 2)), np.ones((2, 2))
    for ask in (
        lambda: found.evaluate(tokens),
        lambda: found.posterior(tokens, y),
        lambda: found.train(tokens, y),
        lambda: found.log_marginal_likelihood(tokens, y),
        lambda: tp.check(found, X1=tokens, widths=(8, 16), draws=20, progress=False),
    ):
        with pytest.raises(
            tp.EvaluationError, match=r"the limit is a mixture, and the kernels are random: use .sample"
        ):
            ask()
    assert found.sample(tokens, draws=3).nngp.shape == (3, 2, 2, 2, 2)
