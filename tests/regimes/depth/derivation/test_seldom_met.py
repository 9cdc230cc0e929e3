"""Places of rules that few blocks come to, each against a closed form, a quadrature or networks' own scalars."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from scipy import special

import tplimits as tp

V = np.array([[1.0, 0.4], [0.4, 1.5]])
DEPTH = tp.Proportional()


def agrees(found, wanted, wrong):
    """Whether numbers are those of a formula, and not those of a wrong one."""
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert not np.allclose(wrong, wanted, rtol=1e-3)


def scaled_by(number):
    """x + number W x/√n, of drift number² V."""

    @tp.block
    def scaled(x: tp.State["token"], W: tp.Matrix, *, c, d):
        return x + number(c, d) * (W @ x) / tp.sqrt(tp.n)

    return tp.derive(scaled, DEPTH)


GRID, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@pytest.mark.parametrize(
    ("number", "wanted", "wrong"),
    [
        (lambda c, d: c**d, 0.4**1.3, 0.4 * 1.3),
        (lambda c, d: tp.expect(lambda g: tp.abs(g)), np.sqrt(2 / np.pi), 1),
        (lambda c, d: tp.expect(lambda g: tp.relu(g) ** 3), np.sqrt(2 / np.pi), 1.5),
        (
            lambda c, d: d * tp.expect(lambda g: tp.tanh(c * g) ** 2),
            1.3 * WEIGHTS @ np.tanh(0.4 * GRID) ** 2,
            1.3 * 0.16,
        ),
    ],
    ids=["power of a constant", "modulus", "odd power on one side", "mean with a constant"],
)
def test_constants(number, wanted, wrong):
    agrees(scaled_by(number).drift_at(V, c=0.4, d=1.3), wanted**2 * V, wrong**2 * V)


@tp.block
def off_by_a_root(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, W3: tp.Matrix, W4: tp.Matrix, *, a, c):
    one = tp.avg((W1 @ x) * (W2 @ x)) * (1 + c / tp.sqrt(tp.n))
    return x * (1 + a * (tp.relu(one) - tp.relu(tp.avg((W3 @ x) * (W4 @ x)))))


def rectified(covariance):
    """E relu(u) relu(u′)."""
    scale = np.sqrt(covariance[0, 0] * covariance[1, 1])
    rho = min(1.0, covariance[0, 1] / scale)
    return scale * (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / (2 * np.pi)


def test_a_law_that_is_off_by_n_to_the_minus_one_half():
    """E relu((1 + c/√n) Y) − E relu(Y) is c E relu(√n Y)/n, though both vanish together at n^(−1/2)."""
    a, c, drift, wrong = 0.7, 0.9, np.zeros((2, 2)), np.zeros((2, 2))
    for i, j in np.ndindex(2, 2):
        means = V[[i, j], [i, j]] / np.sqrt(2 * np.pi)
        joint = rectified(np.array([[V[i, i], V[i, j]], [V[i, j], V[j, j]]]) ** 2)
        wrong[i, j] = V[i, j] * 2 * a**2 * (joint - means.prod())
        drift[i, j] = wrong[i, j] + V[i, j] * a * c * means.sum()
    agrees(tp.derive(off_by_a_root, DEPTH).drift_at(V, a=a, c=c), drift, wrong)


def pairs(covariance):
    """E f(u) f(u′) as a function of f, by quadrature."""
    root = np.linalg.cholesky(np.array(covariance) + 1e-14 * np.eye(2))
    first, second = root[0, 0] * GRID[:, None], root[1, 0] * GRID[:, None] + root[1, 1] * GRID
    return lambda f: (np.outer(WEIGHTS, WEIGHTS) * f(first) * f(second)).sum()


@tp.block
def gate(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix):
    Y = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
    return x * (1 + tp.sum(tp.tanh(Y) / tp.sqrt(tp.n) + tp.sigmoid(Y) / tp.n, over="key"))


def test_a_mean_without_tokens_counts_those_it_is_summed_over():
    """E σ(Y) is 1/2 at each of m keys."""
    noise = np.zeros((2, 2))
    for i, j, a, b in np.ndindex(2, 2, 2, 2):
        cross = V[i, j] * V[a, b]
        noise[i, j] += pairs([[V[i, i] * V[a, a], cross], [cross, V[j, j] * V[b, b]]])(np.tanh)
    agrees(tp.derive(gate, DEPTH).drift_at(V), V * (2 * 2 / 2 + noise), V * (2 / 2 + noise))


def test_what_does_not_fluctuate_is_a_constant_on_its_side_of_a_kink():
    @tp.block
    def same(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        h, k = W @ x, 1 * (W @ x)
        off = tp.avg(h * h) - tp.avg(k * k)
        return x + (tp.relu(off + 2) + tp.step(off)) * (U @ x) / tp.sqrt(tp.n)

    agrees(tp.derive(same, DEPTH).drift_at(V), 4 * V, 9 * V)


def pooled(size):
    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix):
        k = (WK @ x).rename(token="key")
        Y = tp.avg((WQ @ x) * (k + tp.mean(k, over="key")))
        return size * x * (1 + tp.sum(tp.relu(Y), over="key") / tp.sqrt(tp.n))

    return block


def deviations(V):
    """Σ_ν of the standard deviation of √n Y_αν."""
    mean = V.mean(axis=0)
    return np.sqrt(np.outer(np.diag(V), np.diag(V) + 2 * mean + V.mean())).sum(axis=1)


def moved_by(V):
    """The drift of `pooled`."""
    return V * np.add.outer(deviations(V), deviations(V)) / np.sqrt(2 * np.pi)


def test_a_deviation_in_a_stack_is_that_at_the_variance_it_meets():
    @tp.block
    def grows(x: tp.State["token"], W: tp.Matrix):
        return 2 * (W @ x)

    stack = tp.stack(grows, pooled(sympy.Rational(1, 2)))
    noise_of_matrix = tp.derive(tp.stack(grows, pooled(1), shrinks), DEPTH)
    agrees(tp.derive(pooled(1), DEPTH).drift_at(V), moved_by(V), moved_by(np.diag(np.diag(V))))
    for sde in (tp.derive(stack, DEPTH), noise_of_matrix):
        agrees(sde.drift_at(V), moved_by(4 * V) / 4, moved_by(V))


@tp.block
def shrinks(x: tp.State["token"], W: tp.Matrix):
    return (W @ x) / 2


def test_members_that_a_scalar_with_a_kink_mixes():
    """Y_h = Σ_g (δ_hg + ½) avg(q_g k_h): two of them are dependent where they share their keys alone."""

    @tp.block
    def heads(x: tp.State["token"], WQ: tp.Matrix["n", "n", "head"], WK: tp.Matrix["n", "n", "head"], WV: tp.Matrix):
        q, k = WQ @ x, (WK @ x).rename(token="key")
        Y = tp.avg(q * k) + tp.avg(tp.mean(q, over="head") * k)
        return x + tp.sum(tp.sum(tp.relu(Y), over="head") * (WV @ x).rename(token="key"), over="key")

    found, wanted, wrong = tp.derive(heads.bind(head=2), DEPTH).drift_at(V), np.zeros((2, 2)), np.zeros((2, 2))
    variance = 1.5**2 + 0.5**2
    for i, j, a, b in np.ndindex(2, 2, 2, 2):
        own = variance * np.array([[V[i, i] * V[a, a], V[i, j] * V[a, b]], [V[i, j] * V[a, b], V[j, j] * V[b, b]]])
        apart = np.sqrt(own[0, 0] * own[1, 1]) / (2 * np.pi)
        wanted[i, j] += V[a, b] * (2 * rectified(own) + 2 * apart)
        wrong[i, j] += V[a, b] * 4 * rectified(own)
    agrees(found, wanted, wrong)


@tp.block
def attended(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, W: tp.Matrix, U: tp.Matrix):
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key")), over="key")
    return x + tp.sum(A * (U @ tp.gelu(W @ x)).rename(token="key"), over="key") / tp.sqrt(tp.n)


def test_weights_of_order_one_beside_a_mean_of_an_activation():
    """Of two keys a softmax is a sigmoid of the difference of two logits, which is Gaussian with variance V_aa q."""
    found, error = tp.derive(attended, DEPTH).drift_estimate_at(V)
    spread = V[0, 0] + V[1, 1] - 2 * V[0, 1]
    root = np.linalg.cholesky(V)
    h = np.stack([root[0, 0] * GRID[:, None] + 0 * GRID, root[1, 0] * GRID[:, None] + root[1, 1] * GRID])
    weights, gelu = np.outer(WEIGHTS, WEIGHTS), h * special.ndtr(h)
    mixed, shares = np.einsum("xy,axy,bxy->ab", weights, gelu, gelu), special.expit(np.sqrt(spread) * h)
    A = np.stack([shares, 1 - shares], axis=1)
    wanted = np.einsum("xy,akxy,blxy,kl->ab", weights, A, A, mixed)
    assert (np.abs(found - wanted) < 5 * error + 1e-9).all() and (error < 1e-3).all()
    assert not np.allclose(np.einsum("xy,akxy,blxy,kl->ab", weights, A, A, V), wanted, rtol=0.1)


@pytest.mark.parametrize(
    ("inside", "kernel"),
    [
        (tp.abs, lambda S: 2 * rectified(S) + 2 * rectified(S * [[1, -1], [-1, 1]])),
        (tp.gelu, lambda S: pairs(S)(lambda h: h * special.ndtr(h))),
    ],
    ids=["modulus", "gelu"],
)
def test_logits_of_order_one_that_read_an_activation(inside, kernel):
    """Their covariance is E f(h_α) f(h_β) V_νκ, with a kernel or a mean in it."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, WV: tp.Matrix):
        S = tp.sqrt(tp.n) * tp.avg(inside(W @ x) * (U @ x).rename(token="key"))
        return x + tp.sum(tp.tanh(S) * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    K = np.array([[kernel(np.array([[V[i, i], V[i, j]], [V[i, j], V[j, j]]])) for j in (0, 1)] for i in (0, 1)])

    def drift(K):
        found = np.zeros((2, 2))
        for i, j, a, b in np.ndindex(2, 2, 2, 2):
            cross = K[i, j] * V[a, b]
            found[i, j] += V[a, b] * pairs([[K[i, i] * V[a, a], cross], [cross, K[j, j] * V[b, b]]])(np.tanh)
        return found

    agrees(tp.derive(block, DEPTH).drift_at(V), drift(K), drift(V))


BIAS = np.array([[0.2, 1.0], [-0.4, 0.3]])


def test_what_weights_read_is_told():
    @tp.block
    def read(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        Y = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
        F = tp.sigmoid(Y * tp.constant(BIAS, axes=("token", "key")))
        return x + tp.sum(F * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    @tp.block
    def entries(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, b: tp.Vector, c: tp.Vector["token"]):
        return x + U @ tp.tanh((W @ x) * b + c) / tp.sqrt(tp.n)

    arrays, vectors = tp.derive(read, DEPTH), tp.derive(entries, DEPTH)
    assert "array0    = the constant array [[0.2, 1.0], [-0.4, 0.3]]" in repr(arrays)
    assert r"\begin{pmatrix} 0.2 & 1 \\ -0.4 & 0.3 \end{pmatrix}" in arrays.latex()
    for told in ("an entry of `W` times the state", "an entry of `b`,", "an entry of `c`,", "[α], Y3[β]) = I[αβ]"):
        assert told in repr(vectors)
    assert r"Y_{3}^{\beta}\right) &= 1_{\alpha \beta}" in vectors.latex()


def test_a_vector_of_each_token():
    @tp.block
    def biased(x: tp.State["token"], b: tp.Vector["token"]):
        return x + b / tp.sqrt(tp.n)

    sde = tp.derive(biased, DEPTH)
    agrees(sde.drift_at(V), np.eye(2), np.ones((2, 2)))
    assert isinstance(sde.drift, sympy.KroneckerDelta)


def between_two(expr, **known):
    """A SymPy drift at the tokens 1 and 2 of two, its sums written out."""
    at = expr.subs({s: {"α": 1, "β": 2, "m": 2}[s.name] for s in expr.free_symbols if s.name in "αβm"}).doit()
    entries = {e: known[e.base.name][e.indices[0] - 1, e.indices[1] - 1] for e in at.atoms(sympy.Indexed)}
    return float(at.subs(entries))


@tp.block
def folded(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    return x + U @ tp.abs(W @ x) / tp.sqrt(tp.n)


@tp.block
def alone(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix):
    Y = tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
    return x * (1 + tp.sum(tp.relu(Y), over="key") / tp.sqrt(tp.n))


@pytest.mark.parametrize(
    ("block", "count"), [(pooled(1), 2), (alone, 3), (folded, 3)], ids=["deviation", "root", "modulus"]
)
def test_tangents_are_derivatives(block, count):
    """V of x + t δx is V + t (C + Cᵀ) + t² D, along which b_C + b_Cᵀ is the derivative of b."""
    x, δ = np.random.default_rng(3).standard_normal((2, 2, 5)) / np.sqrt(5)
    V, C, D = x @ x.T, x @ δ.T, δ @ δ.T
    sde, joint = tp.derive(block, DEPTH), tp.derive(block, tp.Proportional(tangent=True))
    b = joint.drift_at(V, C, D)

    def along(t):
        return sde.drift_at(V + t * (C + C.T) + t**2 * D)

    slope = (along(1e-5) - along(-1e-5)) / 2e-5
    assert np.allclose(b[1] + b[1].T, slope, rtol=1e-6, atol=1e-8)
    assert not np.allclose(b[1], slope, rtol=0.05)
    written = [between_two(expr, V=V, C=C, D=D) for expr in joint.drift[:count]]
    assert np.allclose(written, [part[0, 1] for part in b[:count]], rtol=1e-9)


def test_gradients_of_matrices_behind_such_a_kink_are_refused():
    joint = tp.derive(alone, tp.Proportional(tangent=True))
    with pytest.raises(tp.NoLimitError, match="behind a function of scalars with a kink"):
        joint.gradients(V, T=0.1, paths=10, of="WQ")
    assert "input" in repr(joint.gradients(V, T=0.1, paths=10)) and "∂/∂WQ     : not derived" in repr(joint)


def test_functions_under_one_mean_stand_in_brackets():
    """E[(1 − tanh²u) (1 − tanh²u′)] without its brackets is another mean."""

    @tp.block
    def residual(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + U @ tp.tanh(W @ x) / tp.sqrt(tp.n)

    joint = tp.derive(residual, tp.Proportional(tangent=True))
    assert "E[tanh(u) (-(2 - 2*tanh(u′)**2)*tanh(u′))]" in repr(joint)
    shown = joint.latex()
    assert r"\left(1 - \tanh^{2}\left(u\right)\right)\,\left(1 - \tanh^{2}\left(u'\right)\right)" in shown
    assert r"\,1 -" not in shown and r"\,- " not in shown


def at_three_tokens(of):
    @tp.block
    def three(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        h = W @ x
        return of(tp.avg(tp.abs(h) * h.rename(token="key")), x, (U @ x).rename(token="key"))

    return three


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (lambda Y, x, v: x + tp.sum(Y * v, over="key"), r"E\[V′ − V\] holds moments"),
        (lambda Y, x, v: x * tp.sign(tp.sum(Y, over="key")), "the law of a scalar with a kink holds moments"),
    ],
)
def test_moments_at_three_tokens(of, why):
    """A modulus is piecewise linear, and a matrix stands between already: neither is the way out."""
    with pytest.raises(tp.NoLimitError, match=why + r".*at three tokens and more .* Take a polynomial, or products at"):
        tp.derive(at_three_tokens(of), DEPTH)


def test_a_pole_at_an_entry_of_an_array():
    @tp.block
    def divided(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        Y = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) + tp.constant(np.eye(2) - 1, axes=("token", "key"))
        return x + tp.sum(tp.log(1 + Y) * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match=r"`log\(y.*\)` is not finite at y = .*, where the argument settles"):
        tp.derive(divided, DEPTH)


def test_dependent_kinks_of_skewed_arguments():
    """E n |y| z |z| is of order n^(−1/2) by the third cumulant of y, which z = y + y′ shares: no third average."""

    @tp.block
    def skewed(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        y = tp.avg((W @ x) ** 2) - tp.avg(x * x)
        z = y + tp.avg((U @ x) ** 2) - tp.avg(x * x)
        return x * (1 + tp.n * tp.abs(y) * tp.abs(z) * z)

    with pytest.raises(tp.NoLimitError, match="or a skewness of the arguments"):
        tp.derive(skewed, DEPTH)
