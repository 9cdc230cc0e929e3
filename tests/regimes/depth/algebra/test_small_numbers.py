"""Numbers of a program are as small as they are: what is no larger than 10⁻¹² had been taken for rounding."""

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 0.8]])


def limit(f):
    def block(x: tp.State["token"], M: tp.Matrix, Z: tp.Matrix):
        return f(x, M, Z)

    return tp.derive(tp.block(block), tp.Proportional())


@pytest.mark.parametrize("c", [1e-5, 1e-7, 1e-20])
def test_a_small_branch_has_its_drift(c):
    """E V′ − V = c² V/n."""
    sde = limit(lambda x, M, Z: x + c * (M @ x) / tp.sqrt(tp.n))
    np.testing.assert_allclose(sde.drift_at(V), c**2 * V, rtol=1e-13)
    assert np.abs(sde.drift_at(V) - V * c**2 / 2).max() > 0.1 * c**2
    inside = limit(lambda x, M, Z: x + (M @ (c * x + c * (Z @ x))) / tp.sqrt(tp.n))
    np.testing.assert_allclose(inside.drift_at(V), 2 * c**2 * V, rtol=1e-13)


def test_a_small_branch_of_order_one_has_its_noise():
    """Cov(V′_αα) = n⁻¹·4 a² c² V² + … of a x + c Z x with a² + c² = 1."""
    c = 1e-7
    sde = limit(lambda x, M, Z: tp.sqrt(1 - c**2) * x + c * (Z @ x))
    assert sde.diffusion_at(V)[0, 0] == pytest.approx(4 * c**2, rel=1e-9)


def test_a_slow_decay_is_one():
    sde = limit(lambda x, M, Z: x * (1 - 1e-14 / tp.n))
    np.testing.assert_allclose(sde.drift_at(V), -2e-14 * V, rtol=1e-12)


def test_decimals_that_cancel_are_rounding():
    """0.6² + 0.8² is 1, and 3·0.1 is 0.3."""
    sde = limit(lambda x, M, Z: 0.6 * x + 0.8 * (Z @ x) + (0.3 - 3 * 0.1) * (M @ x))
    assert sde.drift_at(V) == pytest.approx(0, abs=1e-15)
    assert sde.diffusion_at(V)[0, 0] == pytest.approx(2 * 0.8**2 * (2 * 0.6**2 + 0.8**2), rel=1e-12)


SMALL = (1e-7, 1e-13, 1e-14, 1e-20, 1e-40)
SHAPE = np.array([1.0, 2.0])


def tokens(values):
    return tp.constant(np.asarray(values), axes=("token",))


@pytest.mark.parametrize("c", SMALL)
def test_small_arrays_are_as_large_as_they_are(c):
    """Nothing below 10⁻¹² had been left of branches, decays, sums and noise with a coefficient from an array."""
    a = c * SHAPE
    branch = limit(lambda x, M, Z: x + tokens(a) * (M @ x) / tp.sqrt(tp.n))
    np.testing.assert_allclose(branch.drift_at(V), np.outer(a, a) * V, rtol=1e-12)
    decay = limit(lambda x, M, Z: x * (1 + tokens(a) / tp.n))
    np.testing.assert_allclose(decay.drift_at(V), np.add.outer(a, a) * V, rtol=1e-12)
    one = limit(lambda x, M, Z: x * (1 + tokens([c, c]) / tp.n) + 1e-3 * np.sqrt(c) * (M @ x) / tp.sqrt(tp.n))
    np.testing.assert_allclose(one.drift_at(V), (2 + 1e-6) * c * V, rtol=1e-12)
    summed = limit(
        lambda x, M, Z: x * (1 + tp.sum(tp.constant(a, axes=("key",)), over="key") / tp.n) + 0 * tokens(a) * (M @ x)
    )
    np.testing.assert_allclose(summed.drift_at(V), 6 * c * V, rtol=1e-12)
    noise = limit(lambda x, M, Z: x + tokens(a) * (M @ x) / tp.sqrt(tp.n) + c * x * tp.avg((M @ x) * (Z @ x)))
    variance = (2 * c * V[0, 0]) ** 2 * V[0, 0] ** 2
    assert noise.diffusion_at(V)[0, 0] == pytest.approx(variance, rel=1e-12)
    assert abs(noise.diffusion_at(V)[0, 0] - variance / 2) > 0.1 * variance


@pytest.mark.parametrize("c", SMALL[:-1])
def test_what_functions_of_arrays_leave_has_its_digits(c):
    """exp(c) − 1 and tanh(c), the digits of which a sum in double precision loses."""
    a = c * SHAPE
    for f, values in ((lambda t: tp.exp(t) - 1, np.expm1(a)), (lambda t: tp.tanh(t + 1) - np.tanh(1), None)):
        found = limit(lambda x, M, Z, f=f: x * (1 + f(tokens(a)) / tp.n)).drift_at(V)
        if values is not None:
            np.testing.assert_allclose(found, np.add.outer(values, values) * V, rtol=1e-11)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e13, 1e20])
@pytest.mark.parametrize(
    "zero",
    [
        lambda: 3 * tokens([0.1, 0.1]) - 0.3,
        lambda: tokens([0.1, 0.1]) + 0.2 - 0.3,
        lambda: tp.exp(tp.log(tokens([0.3, 0.7]))) - tokens([0.3, 0.7]),
        lambda: tp.softmax(tokens([0.3, 0.3]), over="token") - 0.5,
        lambda: tp.sum(tp.softmax(tp.constant([0.3, 0.7], axes=("key",)), over="key"), over="key") - 1,
    ],
    ids=["triple", "sum", "logarithm", "softmax", "rows"],
)
def test_zeros_in_disguise_of_arrays_are_none_of_any_size(zero, size):
    sde = limit(lambda x, M, Z: x * (1 + size * zero() / tp.n) + (M @ x) / tp.sqrt(tp.n))
    np.testing.assert_allclose(sde.drift_at(V), V, rtol=1e-13)


@pytest.mark.parametrize("apart", [1e-3, 1e-8, 1e-10])
def test_arrays_that_are_nearly_the_same_are_two(apart):
    """(c + 1) x/n less c x/n for entries c that differ in the tenth digit: they had been one array."""
    first = np.array([1.0, 0.5])
    second = first + apart * np.array([0.0, 1.0])
    left = (second - first) / apart
    sde = limit(lambda x, M, Z: x + tokens(second) * x / apart / tp.n - tokens(first) * x / apart / tp.n)
    np.testing.assert_allclose(sde.drift_at(V), np.add.outer(left, left) * V, atol=1e-5)


@pytest.mark.parametrize("c", [1.0, *SMALL[:3]])
def test_a_kink_beside_an_array_is_as_far_as_it_is(c):
    """relu(c + Y) with Y of order n^(−1/2) is c + Y, however small c is; at 0.1 + 0.2 − 0.3 it is at the kink."""
    sde = limit(lambda x, M, Z: x * (1 + tp.relu(tokens(c * SHAPE) + tp.avg((M @ x) * (Z @ x))) / tp.n))
    np.testing.assert_allclose(sde.drift_at(V), np.add.outer(c * SHAPE, c * SHAPE) * V, rtol=1e-12)
    kink = lambda y: tp.relu(y) / tp.sqrt(tp.n)  # noqa: E731
    at = limit(lambda x, M, Z: x * (1 + kink(tokens([0.1, 0.1]) + 0.2 - 0.3 + tp.avg((M @ x) * (Z @ x)))))
    mean = np.diag(V) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(at.drift_at(V), np.add.outer(mean, mean) * V, rtol=1e-9)


@pytest.mark.parametrize("c", [1e-3, 1e-7, 1e-9, 1e-14])
def test_small_logits_are_random(c):
    """tanh²(c S)/n with S of order 1: variances of 10⁻²⁸ had been none."""
    sde = limit(lambda x, M, Z: x + tp.tanh(tokens([c, c]) * tp.sqrt(tp.n) * tp.avg((M @ x) * (Z @ x))) ** 2 * x / tp.n)
    mean = c**2 * np.diag(V) ** 2
    np.testing.assert_allclose(sde.drift_at(V), np.add.outer(mean, mean) * V, rtol=1e-5)


def test_a_jump_at_a_rounded_zero_is_refused():
    with pytest.raises(tp.NoLimitError, match="but for the rounding of decimal numbers"):
        limit(lambda x, M, Z: x * (1 + tp.step(tokens([0.1, 0.1]) + 0.2 - 0.3) / tp.n))
    sde = limit(lambda x, M, Z: x * (1 + tp.step(tokens([0.1, 0.1]) + 0.2 - 0.299) / tp.n))
    np.testing.assert_allclose(sde.drift_at(V), 2 * V, rtol=1e-12)


@pytest.mark.parametrize(("c", "real"), [(1e-14, True), (-1e-14, False), (-1.0, False)])
def test_a_root_of_a_small_negative_constant_is_not_real(c, real):
    @tp.block
    def block(x: tp.State["token"], M: tp.Matrix, *, c):
        return x + tp.sqrt(c) * (M @ x) / tp.sqrt(tp.n)

    sde = tp.derive(block, tp.Proportional())
    if real:
        np.testing.assert_allclose(sde.drift_at(V, c=c), c * V, rtol=1e-12)
    else:
        with pytest.raises(tp.EvaluationError, match="is not real"):
            sde.drift_at(V, c=c)


def pairs(values):
    return tp.constant(np.asarray(values), axes=("token", "key"))


def summed(A, y):
    return tp.sum(pairs(A) * y.rename(token="key"), over="key")


def logits(x, Z, A):
    return tp.avg(pairs(A) * (Z @ (pairs(1 / A) * x.rename(token="key"))) * x)


@pytest.mark.parametrize("e", [1e-3, 1e-5, 1e-10, 1e-13, 1e-20, 1e-60, 1e-150])
def test_entries_of_very_different_sizes_meet_their_inverses(e):
    """Masks A and B with A_ij B_ij = 1: what was small beside others had been 0, or the digits of a difference."""
    small = np.array([[e, 1.0], [1.0, e]])
    for A in (small, np.array([[e, 1.0], [1.0, 1.0]]), np.array([[e, 1.0], [e, 1.0]])):
        ones = np.full((2, 2), V.sum())
        inside = limit(
            lambda x, M, Z, A=A: (
                x + tp.sum(pairs(A) * (M @ (pairs(1 / A) * x.rename(token="key"))), over="key") / tp.sqrt(tp.n)
            )
        )
        np.testing.assert_allclose(inside.drift_at(V), ones, rtol=1e-12)
        assert np.abs(inside.drift_at(V) - np.diag(np.diag(ones))).max() > 1
        noise = limit(lambda x, M, Z, A=A: x + x * tp.sum(logits(x, Z, A), over="key"))
        assert noise.diffusion_at(V)[0, 0] == pytest.approx(4 * V[0, 0] ** 3 * V.sum(), rel=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e12, 1e20])
def test_a_token_is_compared_with_zero_by_its_own_terms(size):
    """A(B y) − C y with rows of any size: 0 where C = A B, and of order 1 where a small row differs."""
    A, B = np.array([[size, 2.0 * size], [0.5, 0.7]]), np.array([[3.0, 0.5], [1.0, 2.0]])
    sde = limit(lambda x, M, Z: x + Z @ x / tp.sqrt(tp.n) + summed(A, summed(B, M @ x)) - summed(A @ B, M @ x))
    np.testing.assert_allclose(sde.drift_at(V), V, rtol=1e-12)
    other = A @ B + np.diag([0.0, 0.5])
    with pytest.raises(tp.NoLimitError, match="of order 1"):
        limit(lambda x, M, Z: x + summed(A, summed(B, M @ x)) - summed(other, M @ x))


@pytest.mark.parametrize("size", [1.0, 1e6, 1e7, 1e10, 1e20])
def test_numbers_before_other_constants_are_no_measure(size):
    """g·10⁷ M x + h Z x: h² had been rounding beside 10¹⁴ g², whatever g is."""
    A, B = np.array([[1.0, 2.0], [0.5, 0.7]]), np.array([[3.0, 0.5], [1.0, 2.0]])

    def of(f):
        def block(x: tp.State["token"], M: tp.Matrix, Z: tp.Matrix, *, g, h):
            return f(x, M, Z, g, h)

        return tp.derive(tp.block(block), tp.Proportional())

    number, root = size * 1.1, tp.sqrt(tp.n)
    both = of(lambda x, M, Z, g, h: x + (g * number * (M @ x) + h * (Z @ x)) / root)
    np.testing.assert_allclose(both.drift_at(V, g=1 / number, h=1), 2 * V, rtol=1e-12)
    arrays = of(lambda x, M, Z, g, h: x + (g * tokens([number] * 2) * (M @ x) + h * tokens([0.3] * 2) * (Z @ x)) / root)
    np.testing.assert_allclose(arrays.drift_at(V, g=1 / number, h=1 / 0.3), 2 * V, rtol=1e-12)
    one = of(lambda x, M, Z, g, h: x + (g * number + h * 0.1) * (M @ x) / root)
    np.testing.assert_allclose(one.drift_at(V, g=1 / number, h=10), 4 * V, rtol=1e-12)
    zero = lambda y: summed(A, summed(B, y)) - summed(A @ B, y)  # noqa: E731
    with pytest.raises(tp.NoLimitError, match="h\\*\\*2"):
        of(lambda x, M, Z, g, h: x + g * size * zero(M @ x) + h * (Z @ x))


@pytest.mark.parametrize("c", [1e-3, 1e-10, 1e-40])
def test_what_cancels_in_numbers_is_refused(c):
    """E (e^(cu) − 1)(e^(cv) − 1)/c² = V + …: of 1/c² times what is near to 1 nothing but rounding is left."""
    sde = limit(lambda x, M, Z: x + (M @ (tp.exp(c * (Z @ x)) - 1)) / c / tp.sqrt(tp.n))
    if c == 1e-3:
        np.testing.assert_allclose(sde.drift_at(V), V, rtol=1e-5)
        return
    with pytest.raises(tp.EvaluationError, match="nothing but rounding is left"):
        sde.drift_at(V)
    with pytest.raises(tp.EvaluationError, match="nothing but rounding is left"):
        sde.simulate(V, T=0.1, dt=0.05, paths=2)


@pytest.mark.parametrize("c", [1e-80, 1e-60, 1.0, 1e60, 1e80])
def test_functions_of_numbers_of_any_size(c):
    """gelu(c u)/c is u/2 for small c and relu(u) for large ones; |c u|³ and (c u)³ have sixth powers of c."""
    gelu = limit(lambda x, M, Z: x + M @ tp.gelu(c * (Z @ x)) / c / tp.sqrt(tp.n))
    angle = np.arccos(V[0, 1] / np.sqrt(V[0, 0] * V[1, 1]))
    kernel = np.sqrt(V[0, 0] * V[1, 1]) * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    truth = {True: V / 4, False: np.array([[V[0, 0] / 2, kernel], [kernel, V[1, 1] / 2]])}[c < 1]
    if c != 1:
        np.testing.assert_allclose(gelu.drift_at(V), truth, rtol=1e-10)
    if 1e-50 < c < 1e70:
        cube = limit(lambda x, M, Z: x + M @ tp.elementwise(lambda u: abs(u) ** 3)(c * (Z @ x)) / c / tp.sqrt(tp.n))
        assert cube.drift_at(V)[0, 0] == pytest.approx(15 * c**4 * V[0, 0] ** 3, rel=1e-12)
    power = limit(lambda x, M, Z: x + M @ (c * (Z @ x)) ** 3 / c**3 / tp.sqrt(tp.n))
    assert power.drift_at(V)[1, 1] == pytest.approx(15 * V[1, 1] ** 3, rel=1e-12)
