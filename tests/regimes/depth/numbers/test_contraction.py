"""Plans of sums over tokens against NumPy's own sums, for drawn products."""

import numpy as np
import pytest

from tplimits.regimes.depth.derivation.groupings import end, identify
from tplimits.regimes.depth.numbers import contraction
from tplimits.regimes.depth.numbers.contraction import ContractionPlan

SIZE = 3


def tensors(rng):
    """Symmetric ones, one without symmetry, a vector, and one of three tokens that two of them may be exchanged in."""
    half, any_, three = (
        rng.standard_normal((SIZE,) * 2),
        rng.standard_normal((SIZE,) * 2),
        rng.standard_normal((SIZE,) * 3),
    )
    return {"V": half + half.T, "R": any_, "w": any_[0], "T": three, "I": np.eye(SIZE)}


def einsum(factors, values, out):
    places = {i: k for k, i in enumerate(dict.fromkeys([*out, *(i for _, at in factors for i in at)]))}
    operands = [x for name, at in factors for x in (values[name], [places[i] for i in at])]
    ones = [x for i in out for x in (np.ones(SIZE), [places[i]])]
    return np.einsum(*operands, *ones, [places[i] for i in out])


def product_of(rng, labels):
    """A drawn product; what δ makes one stands elsewhere, too."""
    ranks = {"V": 2, "R": 2, "w": 1, "T": 3, "I": 2}
    found = []
    for label in rng.choice(labels, rng.integers(1, 6)):
        found.append((str(label), tuple(int(i) for i in rng.choice([-4, -3, 0, 1, 2, 3], ranks[label])), 0))
    return (*found, *(("w", (i,), 0) for label, at, _ in found for i in at if label == "I" and i >= 0))


@pytest.mark.parametrize("searched", [6, 1])
@pytest.mark.parametrize("seed", range(25))
def test_a_plan_is_the_sum(seed, searched, monkeypatch):
    """Products that share a plan; intermediates that are said to be symmetric are."""
    monkeypatch.setattr(contraction, "_SEARCHED", searched)
    rng = np.random.default_rng(seed)
    values, plan, planned = tensors(rng), ContractionPlan(), []
    for _ in range(4):
        factors = product_of(rng, ["V", "V", "R", "w", "T", "I"])
        under = tuple(("Q" if label == "R" else label, at, copy) for label, at, copy in factors)
        planned.append((factors, plan.product(under, {"Q": "R"})))
    values["d"] = values["V"].diagonal()
    for made in plan.intermediates:
        open_ = tuple(range(made.rank))
        values[made.name] = einsum(made.factors, values, open_)
        assert {i for _, at in made.factors for i in at} == {*open_, made.rank}
        exchanged = made.rank == 2 and np.allclose(values[made.name], values[made.name].T)
        assert exchanged == made.symmetric
    for factors, product in planned:
        plain = [(label, at) for label, at, _ in factors]
        assert all(i < 0 for _, at in product.factors for i in at) and "I" not in dict(product.factors)
        got = einsum(product.factors, values, (-4, -3)) * (np.eye(SIZE) if product.diagonal else 1)
        assert got == pytest.approx(einsum(plain, values, (-4, -3)), rel=1e-9, abs=1e-9)


def test_the_cheaper_order_is_taken_and_shared():
    """Σ R[α,0] R[0,1] R[1,β] w[1]: the vector first leaves loops of three; what is known costs nothing."""
    plan = ContractionPlan()
    first = plan.product((("R", (-4, 0), 0), ("R", (0, 1), 0), ("w", (1,), 0)), {})
    assert [t.rank for t in plan.intermediates] == [1, 1] and [f[1] for f in first.factors] == [(-4,)]
    again = plan.product((("R", (5, 7), 0), ("w", (7,), 0), ("R", (-3, 5), 0)), {})
    assert len(plan.intermediates) == 2 and again.factors == ((first.factors[0][0], (-3,)),)


def test_what_is_known_costs_nothing():
    """wᵀ R w from R w, which stands already, and not from wᵀ R."""
    plan = ContractionPlan()
    plan.product((("R", (-4, 1), 0), ("w", (1,), 0)), {})
    plan.product((("w", (0,), 0), ("R", (0, 1), 0), ("w", (1,), 0)), {})
    assert [t.rank for t in plan.intermediates] == [1, 0]


def test_three_tokens_of_which_two_may_be_exchanged():
    """Σ V[α,0] V[β,0] R[δ,0] is not symmetric in all three."""
    values, plan = tensors(np.random.default_rng(0)), ContractionPlan()
    plain = [("V", (-4, 0)), ("R", (-2, 0)), ("V", (-3, 0))]
    found = plan.product(tuple((*f, 0) for f in plain), {})
    (made,) = plan.intermediates
    values[made.name] = einsum(made.factors, values, (0, 1, 2))
    assert not made.symmetric
    assert einsum(found.factors, values, (-4, -3, -2)) == pytest.approx(einsum(plain, values, (-4, -3, -2)))


def test_indices_that_are_made_one():
    change = {}
    assert identify(change, 3, 0) == [] and change == {0: 3}
    assert identify(change, -1, 3) == [] and end(change, 0) == -1
    assert identify(change, 0, -1) == [] and identify(change, 0, -2) == [("I", (-1, -2), 0)]
    assert identify(change, 0, 7) == [] and end(change, 7) == -1
    fresh = {}
    assert identify(fresh, -1, 0) == identify(fresh, 0, 0) == [] and fresh == {0: -1}
    other = {}
    assert identify(other, 0, -2) == [] and other == {0: -2}
