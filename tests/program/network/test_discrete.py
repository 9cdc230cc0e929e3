"""Discrete inputs: gathers at finite width, and their gradients as scatters, against NumPy by hand."""

import numpy as np
import pytest
import scipy
import sympy

import tplimits as tp
from tplimits.program.network.backward import backpropagation
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, DataIndex, Entry, Kron, axis_symbol
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.grid import scatter, scattered
from tplimits.program.nodes.spec import verify
from tplimits.program.parametrization.roles import roles
from tplimits.regimes.training.finite.networks import train


@tp.network
def attention(
    x: tp.Input["token"].of("vocab"),
    E: tp.Scalar["vocab", "d"],
    P: tp.Scalar["token", "d"],
    q: tp.Scalar["d"],
    V: tp.Scalar["d", "e"],
    w: tp.Vector["e"],
    u: tp.Vector["e"],
):
    z = E + P
    Z = z / tp.sqrt(tp.sum(z**2, over="d"))  # a table: for every token at every place
    a = tp.exp(tp.sum(q * Z, over="d")).sel(vocab=x)
    s = a / tp.sum(a, over="token")
    ξ = tp.sum(s * tp.sum(V * Z, over="d").sel(vocab=x), over="token")
    ψ = u * tp.gelu(tp.sum(w * ξ, over="e"))
    out = E.rename(d="e", vocab="out")
    return tp.readout(tp.sum(ψ * out, over="e")) + tp.sum(ξ * out, over="e")


NET = attention.bind(vocab=3, token=4, d=2)


def by_hand(x, E, P, q, V, w, u):
    """The outputs of `attention` in μP, one input at a time, with one-hot vectors."""
    found = []
    for tokens in x:
        Z = np.eye(len(E))[tokens] @ E + P
        Z = Z / np.sqrt((Z**2).sum(axis=1, keepdims=True))
        s = np.exp(Z @ q)
        ξ = (s / s.sum()) @ Z @ V
        h = w.T @ ξ
        found.append(E @ (ξ + (u * (h * scipy.special.ndtr(h))).mean(axis=1)))
    return np.array(found)


def drawn(rng, n):
    shapes = {"E": (3, 2), "P": (4, 2), "q": (2,), "V": (2, 2), "w": (2, n), "u": (2, n)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def test_outputs_and_a_step_of_gradient_descent():
    rng = np.random.default_rng(0)
    X, values, labels = rng.integers(0, 3, (7, 4)), drawn(rng, 5), rng.integers(0, 3, 7)
    loss = tp.cross_entropy(labels)
    run = train(NET, tp.MUP, tp.SGD(), X, loss, 0.1, 1, n=5, given=values)
    assert np.allclose(run.f[0, 0], by_hand(X, **values), rtol=1e-13)
    stepped = {}
    for name, value in values.items():
        gradient = np.zeros_like(value)
        for place in np.ndindex(*value.shape):
            step = np.zeros_like(value)
            step[place] = 1e-5
            up, down = (loss.loss(by_hand(X, **{**values, name: value + sign * step})) for sign in (1, -1))
            gradient[place] = (up - down) / 2e-5
        # μP moves vectors by η n times the gradient of the mean
        stepped[name] = value - 0.1 * gradient * (5 if name in "wu" else 1)
    assert np.allclose(run.f[0, 1], by_hand(X, **stepped), atol=1e-8)
    wrong = {**stepped, "E": values["E"]}
    assert not np.allclose(run.f[0, 1], by_hand(X, **wrong), atol=1e-4)


def test_a_computed_table_gets_its_gradient_by_a_scatter():
    """d a[vocab, token] = Σ of what was read, at the token that read it."""
    backward = backpropagation(NET)
    assert "δ[vocab, x[token]]" in repr(backward.program)
    assert all(not i.has(DataIndex) for uses in backward.gradients.values() for use in uses for i in use.indices)
    body = next(s.body for s in backpropagation(twice.bind(vocab=3, token=4)).program if s.name == "dE")
    assert any(scatter(total) is not None for total in body.atoms(AxisSum))


def test_a_scatter_is_the_sum_over_one_hot_vectors():
    rng = np.random.default_rng(3)
    g, x = rng.standard_normal((2, 5, 1, 7)), rng.integers(0, 4, (1, 5, 1, 1))
    found = scattered(g, x, summed=1, onto=2, size=4)
    assert np.allclose(found[:, 0], np.einsum("atn,tv->avn", g[:, :, 0], np.eye(4)[x[0, :, 0, 0]]))
    # a number is added as often as its place is named, and fewer dimensions stand for the last ones
    counts = np.bincount(x.ravel(), minlength=4)
    assert np.array_equal(scattered(np.float64(2.0), x, summed=1, onto=2, size=4)[0, 0, :, 0], 2 * counts)
    row = scattered(g[0, 0], x, summed=1, onto=2, size=4)
    assert np.allclose(row[0, 0], np.outer(counts, g[0, 0, 0]))


@tp.network
def twice(x: tp.Input["token"].of("vocab"), y: tp.Input.of("vocab"), E: tp.Vector["vocab"], v: tp.Vector["vocab"]):
    bag = tp.tanh(tp.sum(E.sel(vocab=x), over="token"))
    return (v * bag).sel(vocab=y) + v.sel(vocab=y) * E.sel(vocab=x.sel(token=0))


def test_several_inputs_and_tokens_that_repeat():
    """Σ over tokens of one input and over inputs: a token counts as often as it stands there."""
    rng = np.random.default_rng(1)
    net, n = twice.bind(vocab=3, token=4), 6
    X = {"x": np.array([[2, 2, 2, 0], [1, 2, 1, 1], [0, 0, 0, 0]]), "y": np.array([1, 1, 2])}
    E, v = rng.standard_normal((2, 3, n))
    χ = np.array([0.5, -1.0, 2.0])
    run = train(net, tp.MUP, tp.SGD(), X, lambda f: χ, 1.0, 1, n=n, given={"E": E, "v": v}, keep=("E", "v"))
    bag = np.array([np.tanh(E[tokens].sum(axis=0)) for tokens in X["x"]])
    f = np.array([(v[y] * (b + E[x[0]])).mean() for x, y, b in zip(X["x"], X["y"], bag, strict=True)])
    assert np.allclose(run.f[0, 0], f, rtol=1e-13)
    dE, dv = np.zeros_like(E), np.zeros_like(v)
    for x, y, b, c in zip(X["x"], X["y"], bag, χ, strict=True):
        dv[y] += c * (b + E[x[0]])
        dE[x[0]] += c * v[y]
        for token in x:
            dE[token] += c * v[y] * (1 - b**2)
    assert np.allclose(run.kept["E"][0, 1], E - dE, rtol=1e-12)
    assert np.allclose(run.kept["v"][0, 1], v - dv, rtol=1e-12)


def test_a_family_of_matrices_is_chosen_behind_the_product():
    @tp.network
    def chosen(x: tp.Input.of("vocab"), W: tp.Matrix["n", "n", "vocab"], u: tp.Vector, v: tp.Vector):
        return v * (W @ u).sel(vocab=x)

    n, rng = 4, np.random.default_rng(2)
    W, u, v = rng.standard_normal((3, n, n)), rng.standard_normal(n), rng.standard_normal(n)
    given = {"W": W, "u": u, "v": v}
    run = train(chosen.bind(vocab=3), tp.MUP, tp.SGD(), [1, 1], lambda f: f, 1.0, 1, n=n, given=given, keep=["W"])
    f = (v * (W[1] @ u)).mean()
    assert np.allclose(run.f[0, 0], f)
    moved = run.kept["W"][0, 1] - W
    assert np.array_equal(moved[[0, 2]], np.zeros((2, n, n))) and np.allclose(moved[1], -2 * f * np.outer(v, u) / n)


def test_values_look_up_in_a_table_of_data():
    @tp.network
    def pointer(ξ: tp.Input["place"], x: tp.Input["token"].of("place"), v: tp.Vector["token"]):
        return tp.sum(v * ξ.sel(place=x), over="token")

    ξ, v = np.array([10.0, 20.0, 30.0]), np.arange(8.0).reshape(2, 4)
    found = pointer.bind(place=3, token=2).run(n=4, ξ=ξ, x=[2, 0], v=v)
    assert np.allclose(found["return"], 30 * v[0] + 10 * v[1])


def test_it_comes_back_from_a_file_and_prints():
    for program in (NET, backpropagation(NET).program):
        back = tp.from_json(tp.to_json(program))
        assert back == program and repr(back) == repr(program)
    assert "given, indices of vocab" in repr(NET) and "[token, x[token]]" in repr(NET)


@pytest.mark.parametrize(
    ("X", "what"),
    [
        ([[0, 1, 2, 3]], r"`X` holds 3; it takes indices of `vocab`, which has 3 entries, from 0 to 2"),
        ([[0, 1, 2, -1]], "`X` holds -1"),
        ([[0, 1, 2, 0.5]], r"`X` holds 0\.5; it takes indices of `vocab`, whole numbers from 0 on"),
        ([[0, 1, 2, np.nan]], "NaN"),
        ([[0, 1, 2]], "4"),
        ([0, 1, 2, 1], r"shape \(4,\)"),
        ([["a", "b", "a", "a"]], "array of numbers"),
        ([], r"shape \(0,\)"),
    ],
)
def test_tokens_that_are_none(X, what):
    values = drawn(np.random.default_rng(0), 3)
    with pytest.raises(tp.EvaluationError, match=what):
        train(NET, tp.MUP, tp.SGD(), X, tp.cross_entropy([0]), 0.1, 1, n=3, given=values)


def test_tokens_beyond_a_vocabulary_that_only_a_parameter_sizes():
    values = drawn(np.random.default_rng(0), 3)
    with pytest.raises(tp.EvaluationError, match="`x` holds 3; it takes indices of `vocab`, which has 3 entries"):
        Execution(attention, 3, 1, np.random.default_rng(0), given={"x": [0, 1, 2, 3], **values})


def refused(function, what):
    with pytest.raises(tp.ProgramError, match=what):
        tp.network(function)


def test_what_indices_are_not_used_for():
    def added(x: tp.Input["token"].of("vocab"), v: tp.Vector["token"]):
        return tp.sum(v * x, over="token")

    def entrywise(x: tp.Input["token"].of("vocab"), v: tp.Vector["token"]):
        return tp.sum(v * tp.relu(x), over="token")

    def returned(x: tp.Input["token"].of("vocab"), v: tp.Vector["token"]):
        return x

    def shifted(x: tp.Input.of("vocab"), v: tp.Vector):
        return tp.readout(v) + x

    def matrix(x: tp.Input.of("vocab"), W: tp.Matrix["n", "n", "vocab"], v: tp.Vector):
        return W.sel(vocab=x) @ v

    def other(x: tp.Input.of("vocab"), v: tp.Vector["token"]):
        return v.sel(vocab=x)

    def subscript(x: tp.Input.of("vocab"), v: tp.Vector["vocab"]):
        return v[x]

    def taken(x: tp.Input["token"].of("vocab"), v: tp.Vector["vocab"]):
        return v.sel(vocab=x.take(token=[0], axes="tap"))

    def nested(x: tp.Input["token"].of("vocab"), y: tp.Input.of("token"), v: tp.Vector["vocab"]):
        return v.sel(vocab=x.sel(token=y))

    def sized(x: tp.Input.of("vocab"), v: tp.Vector["vocab"], w: tp.Vector["other"]):
        c = tp.constant([1.0, 2.0], axes="vocab")
        d = tp.constant([1.0, 2.0, 3.0], axes="other")
        return v.sel(vocab=x) + (w * d).sel(other=x) + (v * c).sel(vocab=x)

    def default(x: tp.Input.of("vocab") = 1, v: tp.Vector["vocab"] = None):
        return v.sel(vocab=x)

    refused(added, "arithmetic of indices of `vocab` with axes .token.; they look values up, Z.sel.vocab=x.")
    refused(entrywise, "tp.relu of indices of `vocab`")
    refused(returned, "returns indices of `vocab`")
    refused(shifted, "arithmetic of indices|a readout plus")
    refused(matrix, r"multiply by all members, then look the product up: \(W @ x\)\.sel\(vocab=…\)")
    refused(other, r"sel\(\) along `vocab` on a vector over `n` with axes \(token\)")
    refused(subscript, "index neurons by")
    refused(taken, "look up first, then take")
    refused(nested, "look values up in two steps")
    refused(sized, "which has 2 entries, but `other` has 3")
    refused(default, "a default for the input `x`")


@pytest.mark.parametrize(
    ("annotation", "what"),
    [
        (lambda: tp.Input["token"].of(3), "an axis is a name in quotes"),
        (lambda: tp.Vector["token"].of("vocab"), "only data are indices|no attribute"),
        (lambda: tp.Input["token"].of("a b"), "an axis is a name in quotes"),
        (lambda: tp.Input["token"].uniform(0, 1), "data are given"),
    ],
)
def test_annotations_that_say_nothing(annotation, what):
    with pytest.raises((tp.ProgramError, AttributeError), match=what):
        annotation()


def test_programs_with_indices_where_none_can_be_are_not_legal():
    """What a file could hold: x read as a value, indices of another axis, comparisons that are none of data."""
    small = twice.bind(vocab=3, token=4)
    x, y, E = range(3)
    token, vocab = axis_symbol("token"), axis_symbol("vocab")
    read = DataIndex(sympy.Integer(x), token)

    def with_body(body, axes=()):
        last = small[small.returns[0]]
        changed = type(last)(last.name, axes, last.line, body=body, over="n")
        return small.replace(instructions=(*small.instructions[:-1], changed))

    def entry(*indices):
        return Entry(sympy.Integer(E), OWN, *indices)

    legal = AxisSum(
        entry(vocab) * Kron(read.xreplace({token: axis_symbol("token′1")}), vocab),
        axis_symbol("token′1"),
        sympy.Symbol("token"),
    )
    verify(with_body(legal, ("vocab",)))
    for body, axes in [
        (Entry(sympy.Integer(x), NO_NEURON, token) * entry(sympy.Integer(0)), ("token",)),  # a token as a number
        (entry(DataIndex(sympy.Integer(E), token)), ("token",)),  # an index that is no data
        (entry(DataIndex(sympy.Integer(x))), ()),  # without its axis
        (entry(DataIndex(sympy.Integer(x), vocab)), ("vocab",)),  # along another axis
        (entry(DataIndex(sympy.Integer(x), DataIndex(sympy.Integer(y)))), ()),
        (entry(vocab) * Kron(vocab, axis_symbol("token")), ("vocab", "token")),
        (entry(vocab) * Kron(DataIndex(sympy.Integer(99)), vocab), ("vocab",)),
        (read * entry(vocab), ("vocab", "token")),
    ]:
        with pytest.raises(tp.ProgramError):
            verify(with_body(body, axes))


def test_what_data_look_up_is_an_input_weight():
    @tp.network
    def linear(x: tp.Input["token"].of("vocab"), v: tp.Vector, E: tp.Vector["vocab"]):
        return v * tp.sum(E.sel(vocab=x), over="token")

    @tp.network
    def bigram(x: tp.Input.of("vocab"), E: tp.Vector["vocab", "out"]):
        return E.sel(vocab=x)

    assert dict(roles(linear).kinds) == {"v": "readout", "E": "vector"}
    assert dict(roles(bigram).kinds) == {"E": "readout"}
