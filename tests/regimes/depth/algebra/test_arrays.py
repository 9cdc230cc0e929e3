"""Normal forms of constant arrays: drawn products are the same numbers before and after, by a sum over all indices."""

from fractions import Fraction

import numpy as np
import pytest
from sympy import Integer

import tplimits as tp
from tplimits.regimes.depth.algebra.arrays import Arrays, at_indices
from tplimits.regimes.depth.algebra.products import ProductTerm, renamed
from tplimits.regimes.depth.algebra.tables import exactly, without_background

SIZE = 3
V = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.7], [-0.4, 0.7, 1.1]])
KINDS = ("any", "scaled", "mask", "diagonal", "constant", "symmetric", "stochastic", "transposed", "reciprocal")


def drawn(rng, kind, rank):
    """An array of a kind."""
    any_ = rng.standard_normal((SIZE,) * rank)
    if kind == "constant":
        return np.full_like(any_, rng.choice([0.5, -2.0, 0.0]))
    if rank != 2 or kind == "any":
        return any_
    mask = np.tril(np.ones((SIZE, SIZE))) / np.arange(1, SIZE + 1)[:, None]
    circle = sum(c * np.roll(np.eye(SIZE), k, axis=1) for k, c in enumerate((0.5, 0.25, 0.25)))
    return {
        "scaled": np.outer(rng.standard_normal(SIZE), rng.standard_normal(SIZE)),
        "mask": mask,
        "diagonal": np.diag(any_[0]),
        "symmetric": any_ + any_.T,
        "stochastic": circle,
        "transposed": mask.T,
        "reciprocal": 1 / circle,
    }[kind]


def summed(factors, values, at):
    """Σ of a product over all indices that are not in `at`, an axis for each of those."""
    places = {i: k for k, i in enumerate(dict.fromkeys([*at, *(i for _, held, _ in factors for i in held)]))}
    operands = [x for label, held, _ in factors for x in (values(label), [places[i] for i in held])]
    ones = [x for i in at for x in (np.ones(SIZE), [places[i]])]
    return np.einsum(*operands, *ones, [places[i] for i in at])


def product_of(rng, arrays, most, indices):
    """Some arrays at some indices, as factors of a number, and what they are by themselves."""
    number, factors, plain = Fraction(1), [], []
    for _ in range(rng.integers(1, most + 1)):
        rank = int(rng.choice([1, 2, 2, 3]))
        at = tuple(
            int(i) for i in rng.choice(indices, rank, replace=(rank > 2 and len(indices) < 3) or rng.random() < 0.1)
        )
        values = drawn(rng, rng.choice(KINDS), rank)
        scale, normal = arrays.factor(values, at)
        number, factors, plain = number * scale, [*factors, *normal], [*plain, (values, at, 0)]
    return number, tuple(factors), plain


def of(arrays):
    return lambda label: {"V": V, "I": np.eye(SIZE)}.get(label, arrays.values.get(label))


@pytest.mark.parametrize("seed", range(40))
def test_a_product_in_normal_form_is_the_same_number(seed):
    rng, arrays = np.random.default_rng(seed), Arrays()
    number, factors, plain = product_of(rng, arrays, 3, [-2, -1, 0, 1, 2])
    rest = (("V", (0, -1), 0),) if seed % 2 else ()
    held = {i for _, at, _ in (*factors, *rest) for i in at if i >= 0}
    whole = summed([*plain, *((V, at, 0) for _, at, _ in rest)], lambda x: x, (-2, -1))
    lost = SIZE ** len({i for _, at, _ in plain for i in at if i >= 0} - held)  # indices of constant arrays alone
    scale, found = arrays.arranged((*factors, *rest), held)
    again = arrays.arranged(found, {i for _, at, _ in found for i in at if i >= 0})
    assert again == (1, found)
    both = float(number * scale) * summed(found, of(arrays), (-2, -1)) * lost
    assert both == pytest.approx(whole, rel=1e-9, abs=1e-9)
    alone = {i for _, at, _ in found if len(at) == 1 for i in at if i >= 0}
    assert all(sum(i in at for _, at, _ in found) > 1 for i in alone)
    places = [set(at) for label, at, _ in found if label in arrays.values and len(set(at)) == len(at)]
    assert not any(
        one < other or one == other for k, other in enumerate(places) if len(other) > 2 for one in places[:k]
    )
    assert not any(one < other for other in places if len(other) > 2 for one in places)


@pytest.mark.parametrize("seed", range(25))
def test_sums_over_other_axes_are_done(seed):
    """Of tables at two indices or fewer; a product at places is the slice of the product."""
    rng, arrays = np.random.default_rng(seed), Arrays()
    _, factors, _ = product_of(rng, arrays, 4, [-2, -1, 0, 1, 2])
    token = int(rng.choice([0, 2]))
    factors = (*factors, ("V", (-1, token), 0), *((("I", (0, 1), 0),) if rng.random() < 0.3 else ()))
    inner = {0, 1, 2} - {token}
    found = arrays.contracted(factors, lambda i: i in {-2, *inner})
    assert summed(found, of(arrays), (-2, -1)) == pytest.approx(
        summed(factors, of(arrays), (-2, -1)), rel=1e-9, abs=1e-9
    )
    diagonals = [at for label, at, _ in found if label == "I"]
    assert not any(min(at) >= 0 and at[0] in inner for at in diagonals)
    left = inner.intersection(i for _, at, _ in found for i in at) - {i for at in diagonals for i in at}
    neighbours = {i for _, at, _ in found if left.intersection(at) for i in at} - left
    assert not left or len(neighbours) > 2
    own = tuple(f for f in factors if f[0] in arrays.values)
    held = tuple(sorted({i for _, at, _ in own for i in at}))
    if held:
        whole, cut = (summed(x, of(arrays), t) for x, t in ((own, held), (arrays.sliced(own, {held[0]: 1}), held[1:])))
        assert cut == pytest.approx(whole[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_terms_that_differ_in_arrays_alone_are_one(seed):
    rng, arrays = np.random.default_rng(seed), Arrays()
    terms = []
    for _ in range(4):
        number, factors, _ = product_of(rng, arrays, 2, [-2, -1])
        rest = () if rng.random() < 0.5 else (("V", (-2, -1), 0),)
        coefficient = Integer(number.numerator) / number.denominator or Integer(3)
        terms.append(ProductTerm(coefficient, (0,), 0, (*factors, *rest)))
    open_ = ProductTerm(Integer(2), (0,), 0, ((arrays.label(V), (-1, 5), 0), ("V", (5, -2), 0)))
    found = arrays.gathered([*terms, open_], (-2, -1))
    others = [tuple(f for f in t.factors if f[0] not in arrays.values) for t in found]
    assert open_ in found and len(set(others)) == len(others)
    one, other = (
        sum(float(t.coeff) * summed(t.factors, of(arrays), (-2, -1)) for t in several)
        for several in ([*terms, open_], found)
    )
    assert other == pytest.approx(one, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_scales_of_rows_and_columns_meet_their_inverses(seed):
    """D P E, and its transpose the other way round, hold the factor that P holds."""
    rng = np.random.default_rng(seed)
    P = np.where(rng.random((SIZE, SIZE)) < 0.3, 0.0, rng.uniform(0.2, 2.0, (SIZE, SIZE)))
    P[:, 0] = 0.7, 0.1, 1.3
    scaled = np.diag(rng.uniform(0.1, 3, SIZE)) @ P @ np.diag(-rng.uniform(0.1, 3, SIZE))
    arrays = Arrays()
    middles = [
        [f for f in factors if len(f[1]) == 2]
        for _, factors in (arrays.factor(P, (0, 1)), arrays.factor(scaled, (0, 1)), arrays.factor(scaled.T, (1, 0)))
    ]
    assert middles[0] == middles[1] == middles[2]


def test_arrays_are_told_apart_by_their_entries():
    arrays, base = Arrays(), np.array([1.0, 0.5, 0.0])
    labels = {arrays.label(base + np.array([0.0, x, y])) for x in (0.0, 0.1) for y in (0.0, 1e-7, 1.1e-7, 1e-20)}
    assert len(labels) == 8
    assert len({arrays.label(np.array([1.0, x])) for x in (0.5, 0.5 + 1e-13)}) == 1
    assert arrays.label(np.array([1.0, -0.0])) == arrays.label(np.array([1.0, 0.0]))
    assert arrays.label(V)[0] == "S" and arrays.label(np.tril(V))[0] == arrays.label(base)[0] == "P"
    base = np.array([1.0, 1e-4, 1e-20])
    nearly = [base * (1 + apart * np.eye(3)[k]) for apart in (1e-8, 1e-9, 1e-10) for k in (1, 2)]
    assert len({arrays.label(a) for a in (base, *nearly)}) == 7  # another array may make any entry large again
    assert len({arrays.label(base * (1 + np.array([0, x, -x]))) for x in (0.0, 1e-15)}) == 1
    assert arrays.factor(np.array([1e6, 1e6 + 1e-7]), (0,))[1] == ()
    assert arrays.factor(np.array([0.1, 0.1 + 1.5e-12]), (0,))[1] != ()
    assert arrays.factor(np.array([1.0, 1e-13, 0.5]), (0,)) != arrays.factor(np.array([1.0, 0.0, 0.5]), (0,))


def test_small_entries_count_where_their_row_is_small():
    """e^(−33) is 3e-4 of a row of e^(−25), and e^(−40) of a row of 1 is what another array may divide by."""
    arrays = Arrays()

    def kept(values):
        number, factors = arrays.factor(np.exp(values), (-1, -2))
        return float(number) * at_indices(factors, arrays.values.__getitem__, (-1, -2))

    small = ([[0, 0.3], [-25, -33]], [[0, -25], [0.3, -33]], [[0, -40], [0.3, 0]], [[0, -340], [-340, 0]])
    for values in map(np.array, small):
        np.testing.assert_allclose(kept(values), np.exp(values), rtol=1e-12)


def test_parts_of_very_different_sizes_keep_their_product():
    """p = D Q E with entries of D from 2e-8 on: what is small in D² is large in p² again."""
    arrays, logits = Arrays(), np.array([[0.0, -1.0, -2.0], [0.5, 0.0, -40.0], [15.0, 0.0, 30.0]])
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    number, factors = arrays.factor(p, (-1, -2))
    more, twice = arrays.arranged((*factors, *renamed(factors, {-2: -3})), ())
    found = float(number) ** 2 * float(more) * at_indices(twice, arrays.values.__getitem__, (-1, -2, -3))
    np.testing.assert_allclose(found, p[:, :, None] * p[:, None, :], rtol=1e-9, atol=1e-15)
    assert arrays.factor(p, (0, 1))[0] == -arrays.factor(-p * (1 + 1e-15), (0, 1))[0]


def test_numbers_are_the_fractions_that_they_stand_for():
    assert exactly(2 / 7) == Fraction(2, 7) and exactly(-1e6 / 3) == Fraction(-(10**6), 3)
    assert exactly(1e6 / 3 * (1 + 1e-13)) == Fraction(10**6, 3) and exactly(1 / 3 + 1.5e-12) != Fraction(1, 3)
    assert exactly(1 / 9999) == Fraction(1, 9999) and exactly(1 / 10007) == Fraction(1 / 10007)
    assert exactly(1e-14) == Fraction(1e-14) and exactly(5.0e7 + 0.37) == Fraction(5.0e7 + 0.37)
    assert exactly(np.sqrt(2)) == Fraction(np.sqrt(2)) and exactly(1e-9) == Fraction(1e-9)


def test_a_background_stands_by_itself():
    parts = without_background(np.full((3, 3), 2.0) + np.diag([1.0, 0.0, -3.0]))
    assert [x.tolist() for x in parts] == [[[2.0] * 3] * 3, [[1.0, 0, 0], [0, 0, 0], [0, 0, -3.0]]]
    small = np.array([[1e-3, 1.0], [1.0, 0.0]])  # 1 + (10⁻³ − 1) has three digits less
    for whole in (small, np.diag([1.0, 2.0]), np.full((2, 2), 3.0), V, np.ones((2, 3)), np.ones(2), np.ones((1, 1))):
        assert [x.tolist() for x in without_background(whole)] == [whole.tolist()]


def test_more_dimensions_come_first_and_missing_indices_have_size_one():
    many = np.random.default_rng(0).standard_normal((5, SIZE, SIZE))
    found = at_indices((("A", (-1, 0), 0), ("V", (0, -3), 0)), {"A": many, "V": V}.__getitem__, (-3, -2, -1), 2.0)
    assert found == pytest.approx(2 * np.einsum("kab,bc->kca", many, V)[:, :, None, :])


@pytest.mark.parametrize("small", [1e-7, 1e-15, 1e-40])
def test_coefficients_of_tokens_are_as_small_as_they_are(small):
    """n E[V′ − V] of x + c∘(W x)/√n is c_α c_β V_αβ, and coefficients 10¹⁵ apart make no token smaller."""

    @tp.block
    def scaled(x: tp.State["token"], W: tp.Matrix):
        return x + tp.constant(np.array([1.0, small]), ("token",)) * (W @ x) / tp.sqrt(tp.n)

    @tp.block
    def undone(x: tp.State["token"], W: tp.Matrix):
        h = tp.constant(np.array([small, 1.0]), ("token",)) * (W @ x)
        return x + tp.constant(np.array([1 / small, 1.0]), ("token",)) * h / tp.sqrt(tp.n)

    at = np.array([[1.0, 0.3], [0.3, 2.0]])
    c = np.array([1.0, small])
    assert np.allclose(tp.derive(scaled, tp.Proportional()).drift_at(at), np.outer(c, c) * at, rtol=1e-9, atol=0)
    assert np.allclose(tp.derive(undone, tp.Proportional()).drift_at(at), at, rtol=1e-9, atol=0)
