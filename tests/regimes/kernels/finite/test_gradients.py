"""Gradients of networks against finite differences of `Program.run`, in every parameter."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.files.serial import from_json, to_json
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.regimes.kernels.finite.gradients import GradientSampler

AROUND = np.array([[p + t - 1 if 0 <= p + t - 1 < 5 else -1 for p in range(5)] for t in range(3)])
ROWS = np.array([[p + t if p + t < 3 else -1 for p in range(3)] for t in range(2)])


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], c: tp.Vector, W: tp.Matrix, v: tp.Vector, b: tp.Scalar):
    x = tp.tanh(tp.sum(U * ξ, over="d") + c)
    return tp.readout(v * tp.softplus(W @ x + 0.3 * c)) + 0.1 * b


@tp.network
def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    for layer in range(2):
        h = W.sel(layer=layer) @ x
        x = x + h + tp.relu(h)
    return v * x


@tp.network
def tied_rnn(ξ: tp.Input["t", "d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    u = tp.sum(U * ξ, over="d")
    h = tp.tanh(u.sel(t=0))
    for t in range(1, 3):
        h = tp.tanh(W @ h + u.sel(t=t) + b)
    return v * h


@tp.network
def transposed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    h = W.T @ tp.tanh(W @ x)
    return v * tp.tanh(h) + tp.sigmoid(x) * (W @ h)


@tp.network
def squares(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    h = W @ tp.sum(U * ξ, over="d")
    return h**2 - 1


@tp.network
def last_matmul(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "unit"]):
    return W @ tp.sin(tp.sum(U * ξ, over="d"))


@tp.network
def gated(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Matrix, W: tp.Matrix, v: tp.Vector, γ: tp.Scalar = 2):
    x = tp.sum(U * ξ, over="d")
    return v * tp.gelu(γ * (V @ x)) * (W @ x)


@tp.network
def layer_norm(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, γ: tp.Vector = 1, β: tp.Vector = 2):
    h = W @ tp.erf(tp.sum(U * ξ, over="d"))
    h = h - tp.avg(h)
    return v * tp.sigmoid(γ * h / tp.sqrt(tp.avg(h * h) + 0.01) + β)


@tp.network
def attention(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "qkv"], v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    for _ in range(2):
        q, k, w = W.sel(qkv=0) @ x, W.sel(qkv=1) @ x, W.sel(qkv=2) @ x
        A = tp.softmax(tp.avg(q * k.rename(token="key")), over="key")
        x = x + tp.sum(A * w.rename(token="key"), over="key")
        x = x / tp.sqrt(tp.avg(x * x) + 0.01)
    return v * x


@tp.network
def many_heads(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    WQ: tp.Matrix["k", "n", "head"],
    WK: tp.Matrix["k", "n", "head"],
    WV: tp.Matrix["n", "n", "head"],
    v: tp.Vector,
):
    x = tp.sum(U * ξ, over="d")
    q, k, w = WQ @ x, (WK @ x).rename(token="key"), (WV @ x).rename(token="key")
    logits = tp.avg(q * k) * tp.sqrt(tp.width("k"))
    mask = tp.constant([[0, -1e9, -1e9], [0, 0, -1e9], [0, 0, 0]], axes=("token", "key"))
    y = tp.sum(tp.sum(tp.softmax(logits + mask, over="key") * w, over="key"), over="head")
    return v * tp.tanh(y.sel(token=2)) + tp.sqrt(tp.avg(y.sel(token=1) ** 2)) * x.sel(token=0)


@tp.network
def convolution(ξ: tp.Input["p"], U: tp.Vector, W: tp.Matrix["n", "n", "tap", "layer"], v: tp.Vector["p"]):
    x = tp.tanh(U * ξ)
    for layer in range(2):
        x = tp.tanh(tp.sum(W.sel(layer=layer) @ x.take(p=AROUND, axes=("tap", "p")), over="tap"))
    return tp.sum(v * x, over="p")


@tp.network
def two_dimensional(ξ: tp.Input["r", "c"], U: tp.Vector, W: tp.Matrix["n", "n", "down", "right"], v: tp.Vector):
    x = tp.tanh(U * ξ)
    x = x.take(r=ROWS, axes=("down", "r")).take(c=ROWS, axes=("right", "c"))
    return v * tp.relu(tp.sum(tp.sum(W @ x, over="down"), over="right"))


@tp.network
def looked_up(ξ: tp.Input["p"], U: tp.Vector["p"], s: tp.Scalar["p"], W: tp.Matrix, v: tp.Vector):
    """Tables on parameters and scalars, on the output, with indices that several tables share, and at a number."""
    h = W @ tp.tanh(U * ξ + s)
    θ = tp.avg(h * h)
    y = (
        h.take(p=AROUND, axes=("tap", "p"))
        * U.take(p=AROUND, axes=("tap", "p"))
        * tp.exp(-θ.take(p=AROUND, axes=("tap", "p")))
    )
    z = tp.sin(h).take(p=AROUND, axes=("tap", "q")).sel(tap=1).rename(q="p")
    return v * tp.sum(y, over="tap") + z * tp.tanh(h)


@tp.network
def outer(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    A: tp.Matrix["k", "m"],
    B: tp.Matrix["m", "n"],
    W: tp.Matrix["n", "k"],
    v: tp.Vector,
    g: tp.Vector["k"],
    a: tp.Scalar,
):
    β, γ, δ = tp.neuron("β"), tp.neuron("γ"), tp.neuron("δ")
    u = tp.sum(U * ξ, over="d")
    p = B @ tp.tanh(u)
    r = tp.tanh(A @ p)
    s = W @ tp.avg(tp.tanh(r * p[β] + a) * p[β] * g, over=β)
    q = tp.avg(tp.sin(s * u[δ] + r[γ] * tp.avg(p)), over=(δ, γ))
    e = tp.avg(tp.avg(tp.tanh(u * u[δ]), over=δ) * s)
    return v * (q + s * tp.expect(lambda z: tp.tanh(z) ** 2)) + (tp.avg(p * p) * a + e) * u


@tp.network
def outputs(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    W: tp.Matrix,
    v: tp.Vector["unit"],
    b: tp.Scalar["unit"],
    e: tp.Scalar["other"],
    g: tp.Vector = 1,
):
    h = g * (W @ tp.tanh(tp.sum(U * ξ, over="d")))
    return tp.readout(v * tp.relu(h) * tp.mean(h, over="token")) + 0.1 * b * (1 + tp.avg(g * g)) + tp.sin(e)


@tp.network
def two_inputs(ξ: tp.Input["d"], η: tp.Input["e"], U: tp.Vector["d"], V: tp.Vector["e"], W: tp.Matrix, v: tp.Vector):
    x, y = tp.sum(U * ξ, over="d"), tp.tanh(tp.sum(V * η, over="e"))
    return v * (W @ tp.where(x, x + y, tp.exp(x) * y)) + tp.maximum(x, y) * tp.abs(y) + tp.leaky_relu(x * y, 0.1)


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
    return U * ξ


@tp.network
def constant(ξ: tp.Input["d"], U: tp.Vector, b: tp.Scalar):
    """The scalars' gradients do not depend on a neuron."""
    return tp.exp(tp.sum(ξ, over="d")) * b * (U * 0 + 1) + tp.avg(U)


CASES = {
    "linear": (linear.bind(d=2), {}),
    "constant": (constant, {"d": 2}),
    "mlp": (mlp, {"d": 2}),
    "residual": (residual.bind(layer=2), {"d": 2}),
    "tied RNN": (tied_rnn.bind(t=3), {"d": 2}),
    "a matrix and its transpose": (transposed, {"d": 2}),
    "squares": (squares, {"d": 2}),
    "a matrix last": (last_matmul.bind(unit=2), {"d": 2}),
    "gated": (gated, {"d": 2}),
    "layer norm": (layer_norm, {"d": 2}),
    "attention": (attention.bind(token=3, qkv=3), {"d": 2}),
    "heads": (many_heads.bind(token=3, head=2), {"d": 2}),
    "convolution": (convolution.bind(p=5, layer=2), {}),
    "2-d convolution": (two_dimensional.bind(r=3, c=3), {}),
    "look-ups": (looked_up.bind(p=5), {}),
    "outer nonlinearities": (outer, {"d": 2}),
    "outputs": (outputs.bind(unit=2, other=2), {"d": 2, "token": 2}),
    "two inputs": (two_inputs, {"d": 2, "e": 3}),
}
RATIOS = {"k": 0.75, "m": 1.5}


class Differences:
    """A network at a tiny width, with parameters that can be moved."""

    def __init__(self, net, sizes, n, count, seed):
        rng = np.random.default_rng(seed)
        self.net, self.sizes, self.n, self.count = net, sizes, n, count
        self.ratios = {w: RATIOS[w] for w in net.widths if w != "n"}
        self.width = {"n": n, **{w: max(1, round(n * r)) for w, r in self.ratios.items()}}
        self.X = {net[p].name: rng.standard_normal((count, *self.shape(net[p].axes))) for p in net.inputs}
        self.values = {name: self.drawn(net[net.initial_names[name]], rng) for name in parameters(net)}
        self.axes = tuple(dict.fromkeys(a for p in net.returns for a in net[p].axes))

    def size(self, axis):
        known = self.net.size(axis)
        return int(known) if known is not None else self.sizes[self.net.root_axis(axis)]

    def shape(self, axes):
        return tuple(map(self.size, axes))

    def drawn(self, s, rng):
        if isinstance(s, InitialMatrix):
            size = self.width[s.rows], self.width[s.columns]
            return rng.standard_normal((*self.shape(s.axes), *size)) / np.sqrt(size[1])
        return rng.standard_normal((*self.shape(s.axes), *([self.width[s.width]] if s.width else [])))

    def output(self, values):
        """f = n₀^(−1/2) Σ x + shift, for every input."""
        found = []
        for i in range(self.count):
            data = {name: X[i] for name, X in self.X.items()}
            run = self.net.run(n=self.n, ratios=self.ratios, constants={**values, **data})
            vector, *shift = (self.net[p] for p in self.net.returns)
            x = np.asarray(run[vector.name]).sum(axis=-1) / np.sqrt(self.width[vector.width])
            total = self.on_axes(x, vector.axes)
            for s in shift:
                total = total + self.on_axes(np.asarray(run[s.name]), s.axes)
            found.append(total)
        return np.array(found)

    def on_axes(self, array, axes):
        array = np.transpose(array, [axes.index(a) for a in self.axes if a in axes])
        return np.broadcast_to(
            array.reshape([self.size(a) if a in axes else 1 for a in self.axes]), self.shape(self.axes)
        )

    def jacobian(self, name, step=5e-4):
        """∂f/∂w for every entry of one parameter: (entries, inputs, *outputs); matrices are W = w/√columns.

        Central differences at two steps, extrapolated: the error is of order step⁴.
        """
        s, value, rows = self.net[self.net.initial_names[name]], self.values[name], []
        for index in np.ndindex(*value.shape):
            moved = np.zeros(value.shape)
            moved[index] = step
            points = {k: self.output({**self.values, name: value + k * moved}) for k in (-2, -1, 1, 2)}
            rows.append((8 * (points[1] - points[-1]) - (points[2] - points[-2])) / (12 * step))
        return np.array(rows) / (np.sqrt(self.width[s.columns]) if isinstance(s, InitialMatrix) else 1.0)

    def kernel(self, name):
        jacobian = self.jacobian(name)
        return np.moveaxis(np.tensordot(jacobian, jacobian, axes=(0, 0)), 1 + len(self.axes), 1)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_finite_differences(name, seed):
    net, sizes = CASES[name]
    moved = Differences(net, sizes, n=4 if name in ("heads", "outer nonlinearities") else 3, count=2, seed=seed)
    sampler = GradientSampler(net)
    found = sampler.kernels(moved.X, n=moved.n, draws=2, ratios=moved.ratios, given=moved.values)
    for draw in range(2):
        assert np.allclose(found.outputs[draw], moved.output(moved.values), rtol=1e-10)
        total = 0
        for parameter in parameters(net):
            expected = moved.kernel(parameter)
            total = total + expected
            scale = max(1e-3, float(np.abs(expected).max()))
            assert np.abs(found.ntk_of[parameter][draw] - expected).max() < 1e-6 * scale, parameter
        assert np.allclose(found.ntk[draw], total, rtol=1e-5, atol=1e-5 * np.abs(total).max())


@pytest.mark.parametrize("name", CASES)
def test_total_programs_are_programs(name):
    backward = GradientSampler(CASES[name][0]).backward
    assert from_json(to_json(backward.program)) == backward.program
    assert f"program {CASES[name][0].name}(" in repr(backward.program)


def test_rectangles_are_parts_of_squares(seed):
    """Θ(X1, X2) is a block of Θ(X, X) with the same draws."""
    X = np.random.default_rng(seed).standard_normal((5, 2))
    sampler = GradientSampler(mlp)
    whole = sampler.kernels(X, n=8, draws=3, rng=1)
    part = sampler.kernels(X[:2], X[2:], n=8, draws=3, rng=1)
    assert np.allclose(whole.ntk[:, :2, 2:], part.ntk) and np.allclose(whole.nngp[:, :2, 2:], part.nngp)
    assert np.allclose(whole.outputs, part.outputs) and part.ntk.shape == (3, 2, 3)
    assert not np.allclose(part.ntk[0], part.ntk[1])


def test_frozen_parameters_do_not_contribute(seed):
    X = np.random.default_rng(seed).standard_normal((2, 2))
    everything = GradientSampler(mlp).kernels(X, n=8, draws=2)
    some = GradientSampler(mlp, train=("W", "b")).kernels(X, n=8, draws=2)
    assert set(some.ntk_of) == {"W", "b"}
    assert np.allclose(some.ntk, everything.ntk_of["W"] + everything.ntk_of["b"])
    assert np.allclose(everything.ntk_of["b"], 0.01)
    assert np.allclose(GradientSampler(mlp, train=()).kernels(X, n=8).ntk, 0)
    with pytest.raises(tp.EvaluationError, match=r"`V` is no parameter of `mlp`; it has U, c, W, v, b"):
        GradientSampler(mlp, train=("V",))


def test_the_nngp_is_the_mean_product_of_the_readout_and_the_covariance_of_the_shift(seed):
    X = np.random.default_rng(seed).standard_normal((2, 2))
    found = GradientSampler(mlp).kernels(X, n=8, draws=2, rng=3)
    bare = found.nngp - 0.01  # 0.1 b with b ~ N(0, 1)
    assert np.linalg.eigvalsh(bare).min() > -1e-12 and np.linalg.matrix_rank(bare[0]) == 2

    @tp.network
    def known(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Scalar, c: tp.Scalar = 3):
        return tp.readout(tp.sum(U * ξ, over="d")) + 2 * b + c

    found = GradientSampler(known).kernels(X, n=6, draws=1, given={"U": np.ones((2, 6))})
    sums = X.sum(axis=1)
    assert np.allclose(found.nngp[0], np.outer(sums, sums) + 4)  # c is not drawn

    @tp.network
    def curved(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Scalar):
        return tp.readout(0 * tp.sum(U * ξ, over="d")) + b**2

    found = GradientSampler(curved).kernels(X, n=2, draws=4000, rng=seed)
    assert abs(found.nngp.mean() - 2) < 5 * found.nngp[:, 0, 0].std() / np.sqrt(4000)  # Var b² = 2


def test_outputs_have_the_covariance_of_the_nngp(seed):
    X = np.random.default_rng(seed).standard_normal((2, 2))
    found = GradientSampler(mlp).kernels(X, n=16, draws=4000, rng=seed)
    products = found.outputs[:, :, None] * found.outputs[:, None, :]
    error = products.std(axis=0) / np.sqrt(4000) + found.nngp.std(axis=0) / np.sqrt(4000)
    assert (np.abs(products.mean(axis=0) - found.nngp.mean(axis=0)) < 4.5 * error).all()


def test_bad_inputs_are_refused():
    sampler = GradientSampler(mlp.bind(d=2))
    for X, message in (
        (np.ones(2), r"X1 has shape \(2,\); `ξ` takes \(N, d\), one row for each input"),
        (np.ones((3, 4)), "X1 has 4 entries along `d`; `mlp` has 2"),
        (np.ones((0, 2)), "X1 holds no input"),
        (np.full((1, 2), np.nan), "`X1` has NaN or infinite entries"),
        ({"x": np.ones((1, 2))}, "X1 has x; `mlp` takes ξ"),
    ):
        with pytest.raises(tp.EvaluationError, match=message):
            sampler.kernels(X)
    several = GradientSampler(two_inputs)
    with pytest.raises(tp.EvaluationError, match="`two_inputs` takes the inputs ξ, η; give X1="):
        several.kernels(np.ones((1, 2)))
    with pytest.raises(tp.EvaluationError, match=r"X1 holds different numbers of inputs: \[1, 2\]"):
        several.kernels({"ξ": np.ones((1, 2)), "η": np.ones((2, 3))})


@tp.network
def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector["out"], b: tp.Scalar.normal(0, 0.7), c: tp.Scalar["out"]):
    return tp.readout(v * tp.tanh(tp.sum(U * ξ, over="d"))) + 2 * tp.sum(ξ, over="d") * b + 3 * c


@tp.network
def bent(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar.normal(0, 0.7)):
    return tp.readout(v * tp.tanh(tp.sum(U * ξ, over="d"))) + tp.relu(tp.sum(ξ, over="d") * b)


def test_the_covariance_of_what_is_added_is_exact_where_it_is_linear():
    """4·0.49 ξ ξ′ for all outputs together, and 9 for each alone; of a bent one, half of squared differences."""
    X1, X2 = np.random.default_rng(4).standard_normal((2, 3, 2))
    net = shifted.bind(out=2)
    found = GradientSampler(net).kernels(X1, X2, n=5, draws=2)
    sums = np.multiply.outer(X1.sum(axis=1), X2.sum(axis=1))
    wanted = 4 * 0.49 * sums[:, :, None, None] + 9 * np.eye(2)
    np.testing.assert_allclose(found.shift, [wanted] * 2, rtol=1e-12)
    np.testing.assert_allclose(found.below("v", 4.0), 4 * found.ntk_of["v"] + found.shift, rtol=1e-12)
    np.testing.assert_allclose(found.ntk_of["c"], 9 * np.broadcast_to(np.eye(2), (2, 3, 3, 2, 2)), rtol=1e-12)
    np.testing.assert_allclose(found.ntk_of["b"], np.broadcast_to(4 * sums[:, :, None, None], (2, 3, 3, 2, 2)))
    weighted = found.weighted({"b": 0.5})
    np.testing.assert_allclose(weighted, found.ntk - 0.5 * found.ntk_of["b"], rtol=1e-12, atol=1e-12)
    drawn = GradientSampler(bent).kernels(X1[:1], n=2, draws=40_000).shift[:, 0, 0]
    variance = 0.49 * X1[0].sum() ** 2 * (1 / 2 - 1 / (2 * np.pi))  # of relu(z)
    assert abs(drawn.mean() - variance) < 4 * drawn.std() / 200
