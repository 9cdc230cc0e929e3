"""Canonical products, splits and responses of drawn forms, against their values at drawn V and all entries of noise."""

from types import SimpleNamespace

import numpy as np
import pytest
import sympy

from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, DELTA, OMEGA, SPAN, indices, renamed
from tplimits.regimes.depth.derivation.responses import Response
from tplimits.regimes.depth.derivation.splitting import left_factor, splitting, without_identities

SIZE = 4
L = np.tril(np.random.default_rng(0).uniform(0.2, 1.0, (SIZE, SIZE)))
V, M = L @ L.T, np.random.default_rng(1).uniform(0.2, 1.0, (SIZE, SIZE))
VALUES = {"V": V, "P|m": M, "s": np.random.default_rng(2).uniform(0.5, 2.0, SIZE), "I": np.eye(SIZE)}


def value(factors, out, **more):
    """Σ of a product over its summed indices."""
    known = {**VALUES, **more}
    assert not any(copy for _, _, copy in factors)
    places = {i: k for k, i in enumerate(dict.fromkeys([*out, *(i for _, at, _ in factors for i in at)]))}
    operands = [x for label, at, _ in factors for x in (known[label], [places[i] for i in at])]
    ones = [x for i in out for x in (np.ones(SIZE), [places[i]])]
    return np.einsum(*operands, *ones, [places[i] for i in out])


def of_form(form, out=(ALPHA, BETA), **more):
    return sum((float(c) * value(f, out, **more) for f, c in form.terms.items()), np.zeros((SIZE,) * len(out)))


def product_of(rng, free=(ALPHA, BETA), most=3, many=3):
    """A drawn product; every summed index may stand anywhere."""
    found = []
    for label in rng.choice(["V", "V", "P|m", "s"], rng.integers(1, most + 1)):
        rank = 1 if label == "s" else 2
        found.append((str(label), tuple(int(i) for i in rng.choice([*free, *range(many)], rank)), 0))
    return tuple(found)


@pytest.mark.parametrize("seed", range(20))
def test_a_canonical_product_does_not_know_how_it_was_written(seed):
    """Order of factors, numbers of summed indices, sides of V; nothing else may be changed."""
    rng = np.random.default_rng(seed)
    factors = product_of(rng, most=6, many=4)
    numbers = dict(zip(range(4), (int(i) + 5 for i in rng.permutation(9)[:4]), strict=True))
    shuffled = [renamed([factors[k]], numbers)[0] for k in rng.permutation(len(factors))]
    turned = tuple((f[0], f[1][::-1] if f[0] == "V" and rng.random() < 0.5 else f[1], 0) for f in shuffled)
    form = canonical(factors)
    assert form == canonical(turned) == canonical(form)
    assert value(form, (ALPHA, BETA)) == pytest.approx(value(factors, (ALPHA, BETA)))
    changed = next((f for f in factors if f[1][0] != f[1][-1] and f[0] == "P|m"), None)
    if changed is not None:
        other = tuple((f[0], f[1][::-1], 0) if f is changed else f for f in factors)
        same = np.allclose(value(other, (ALPHA, BETA)), value(factors, (ALPHA, BETA)), rtol=1e-9)
        assert (canonical(other) == form) == same


def edges(text, *free):
    """V at pairs of letters, P at pairs of capitals: letters named first are free."""
    letters = {
        c: -3 - k if c in free else k for k, c in enumerate(dict.fromkeys([*free, *text.lower().replace(" ", "")]))
    }
    labels = ("P|m" if pair.isupper() else "V" for pair in text.split())
    return tuple(
        (label, tuple(letters[c] for c in pair.lower()), 0) for label, pair in zip(labels, text.split(), strict=True)
    )


#: graphs whose vertices look alike, in pairs that are not the same: three-fold and two-fold, with tails, in two axes
ALIKE = [
    (edges("ab bc ca de ef fd"), edges("ab bc cd de ef fa")),
    (edges("ab bc ca de ef fd ad be cf"), edges("ad ae af bd be bf cd ce cf")),
    (edges("aa bb cc"), edges("aa bb bc")),
    (edges("xa xb aa bb", "x"), edges("xa xb ab ab", "x")),
    (edges("xa ab bc cd da ya yc", "x", "y"), edges("xa ab bc cd da ya yb", "x", "y")),
    (edges("ab cd ac bd"), edges("ab cd ac bc")),
    (edges("ab ab cd cd"), edges("ab bc cd da")),
    (edges("ab bc cd de ef fa gh hi ig"), edges("ab bc cd de ea fg gh hi if")),
    (edges("AB BC CD DA ac bd EF FG GH HE ef gh"), edges("AB BC CD DA ac bd EF FG GH HE eg fh")),
    (edges("xa xb xc xd ab bc cd da ef fe", "x"), edges("xa xb xc xd ab ab cd cd ef fe", "x")),
]


@pytest.mark.parametrize("pair", ALIKE, ids=range(len(ALIKE)))
@pytest.mark.parametrize("axes", [1, 2])
def test_graphs_whose_vertices_look_alike(pair, axes):
    """However the vertices are numbered, one form; of two graphs, two.  Numbers of an axis are 0, 1, …"""
    rng, forms = np.random.default_rng(0), []
    for graph in pair:
        held = sorted(indices(graph))
        axis = {i: SPAN * (k % axes) for k, i in enumerate(held)}
        found = set()
        for _ in range(5):
            number = dict(zip(held, map(int, rng.permutation(20)), strict=False))
            renumbered = renamed(graph, {i: n + axis[i] for i, n in number.items()})
            found.add(canonical(tuple(renumbered[k] for k in rng.permutation(len(graph)))))
        (form,) = found
        for a in range(axes):
            own = {i - SPAN * a for i in indices(form) if i // SPAN == a}
            assert own == set(range(sum(x == SPAN * a for x in axis.values())))
        assert value(form, (ALPHA, BETA)) == pytest.approx(value(graph, (ALPHA, BETA)))
        forms.append(form)
    assert forms[0] != forms[1]


def test_products_are_equal_where_their_numbers_are():
    """Of all products of two or three V and P at two free and two summed indices."""
    rng, seen = np.random.default_rng(5), {}
    for _ in range(400):
        factors = product_of(rng, most=3, many=2)
        if not indices(factors) <= {0, 1}:
            continue
        key = value(factors, (ALPHA, BETA)).round(9).tobytes(), len(indices(factors))
        assert seen.setdefault(canonical(factors), key) == key
    assert len(set(seen.values())) == len(seen) > 100


def symmetric(rng, count=3):
    """A form that is the same with its two tokens exchanged."""
    half = [(product_of(rng), sympy.Rational(int(rng.integers(1, 9)), 4)) for _ in range(count)]
    half.append(((("V", (BETA, 0), 0), ("P|m", (ALPHA, 0), 0), ("V", (0, 0), 0)), sympy.Integer(2)))
    return collected([*half, *((renamed(f, {ALPHA: BETA, BETA: ALPHA}), c) for f, c in half)])


@pytest.mark.parametrize("seed", range(10))
def test_a_split_is_the_form(seed):
    form = symmetric(np.random.default_rng(seed))
    split = left_factor(form)
    X = of_form(split.factor)
    assert X @ V + V @ X.T + of_form(split.rest) == pytest.approx(of_form(form))
    alone = [[f for f in factors if BETA in f[1]] for factors in split.rest.terms]
    assert not any(len(a) == 1 and a[0][0] == "V" and a[0][1][0] != a[0][1][1] for a in alone)
    assert split.factor


def response(rng, exchanged):
    """A form in one R, the same with its two tokens exchanged."""
    half = [
        (((("R", (ALPHA, 0), 0)), ("V", (0, BETA), 0), ("s", (0,), 0)), sympy.Rational(3, 2)),
        (((("R", (0, ALPHA), 0)), ("V", (1, BETA), 0), ("P|m", (0, 1), 0)), sympy.Integer(-1)),
        ((("V", (ALPHA, BETA), 0), ("R", (ALPHA, 2), 0), ("P|m", (2, ALPHA), 0)), sympy.Integer(2)),
        ((("R", (ALPHA, BETA), 0), ("s", (int(rng.choice([ALPHA, BETA])),), 0)), sympy.Integer(1)),
    ]
    chosen = [half[k] for k in rng.permutation(4)[:2]]
    return Response(
        ("W",), collected([*chosen, *((renamed(f, {ALPHA: BETA, BETA: ALPHA}), c) for f, c in chosen)]), exchanged
    )


def noises(exchanged):
    """R at each entry of G alone."""
    units = np.eye(SIZE * SIZE).reshape(-1, SIZE, SIZE)
    return [L @ ((G + G.T) / np.sqrt(2) if exchanged else G) @ L.T for G in units]


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_covariance_of_a_response_is_a_sum_over_its_noise(seed, exchanged):
    found = response(np.random.default_rng(seed), exchanged)
    moved = [of_form(found.form, R=R) for R in noises(exchanged)]
    expected = sum(np.multiply.outer(x, x) for x in moved)
    assert of_form(found.covariance(), (ALPHA, BETA, DELTA, OMEGA)) == pytest.approx(expected)


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_responses_add_to_the_drift_is_taken_out_of_it(seed, exchanged):
    """(1 + E) V (1 + E)ᵀ has E[E V Eᵀ] more than V: a mean over all entries of the noise."""
    rng = np.random.default_rng(seed)
    drift, found = symmetric(rng, 1), [response(rng, exchanged), response(rng, not exchanged)]
    split = splitting(drift, SimpleNamespace(responses=tuple(found)))
    added = np.zeros((SIZE, SIZE))
    for each, own in zip(found, split.responses, strict=True):
        for R in noises(each.symmetric):
            E = of_form(own.factor, R=R)
            added += E @ V @ E.T
            assert E @ V + V @ E.T + of_form(own.rest, R=R) == pytest.approx(of_form(each.form, R=R))
    X = of_form(split.drift.factor)
    assert X @ V + V @ X.T + of_form(split.drift.rest) + added == pytest.approx(of_form(drift))


def test_sums_over_deltas_are_done():
    chain = (("I", (0, 1), 0), ("I", (1, ALPHA), 0), ("V", (0, BETA), 0))
    assert without_identities(chain) == (("V", (ALPHA, BETA), 0),)
    left = (("I", (ALPHA, BETA), 0), ("V", (ALPHA, ALPHA), 0))
    assert without_identities(left) == left
    assert without_identities((("I", (BETA, BETA), 0), ("s", (ALPHA,), 0))) == (("s", (ALPHA,), 0),)
    assert isinstance(collected([(left, sympy.Integer(0))]), Form) and not collected([(left, sympy.Integer(0))])
