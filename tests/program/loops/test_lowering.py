"""Loops of networks against the program itself: values, outputs and gradients, on NumPy arrays."""

import numpy as np
import pytest
from loops_on_arrays import run

import tplimits as tp
from tplimits import zoo
from tplimits.errors import ProgramError
from tplimits.program.loops.lowering import forward, training
from tplimits.program.loops.updating import with_signal
from tplimits.program.network.samples import with_samples
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector
from tplimits.regimes.training.finite.loss_gradients import LossGradients
from tplimits.regimes.training.finite.networks import Networks
from tplimits.regimes.training.finite.recipe import recipe
from tplimits.zoo.networks.sparse_modular_addition import sparse_modular_addition

INPUTS, WIDTH = 5, 7


def bound(net):
    return net.bind(**{a: 3 for a in net.all_axes if net.size(a) is None and a == net.root_axis(a)})


ZOO = [bound(p) for p in (*(e.program for e in zoo.NETWORKS.values()), sparse_modular_addition)]


@tp.network
def rich(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    b: tp.Vector,
    W: tp.Matrix["n", "n", "l"],
    R: tp.Matrix["m", "n"],
    v: tp.Vector["out"],
    c: tp.Scalar,
    s: tp.Scalar = 1,
):
    x = tp.tanh(tp.sum(U * ξ, over="d") + b)
    for layer in range(2):
        x = x + s * (W.sel(l=layer).T @ tp.tanh(W.sel(l=layer) @ x))
    x = x + R.T @ tp.relu(R @ x - tp.avg(x))
    return tp.readout(v * tp.tanh(x) + 0.1 * b * x) + 0.3 * c


rich = rich.bind(l=2, out=2, d=3)


@tp.network
def tokens(
    x: tp.Input["token"].of("vocab"), E: tp.Vector["vocab"], P: tp.Vector["token"], q: tp.Scalar["vocab"], v: tp.Vector
):
    """Indices as data: of vectors, of a computed table, of scalars; the same entry is read several times."""
    table = tp.tanh(E + P)
    attention = tp.softmax(q.sel(vocab=x), over="token")
    return v * tp.sum(attention * table.sel(vocab=x), over="token")


tokens = tokens.bind(vocab=3, token=4)
NETWORKS = [*ZOO, rich, tokens]


def data_of(net, rng, inputs=INPUTS):
    found = {}
    for position in net.inputs:
        s = net[position]
        shape = (inputs, *(int(net.size(a)) for a in s.axes))
        found[s.name] = rng.integers(0, int(net.size(s.of)), shape) if s.of else rng.standard_normal(shape)
    return found


def ratios_of(net):
    return {w: 1.5 for w in net.widths if w != "n"}


@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
def test_every_value_is_that_of_the_program(net):
    rng = np.random.default_rng(0)
    data, names = data_of(net, rng), [s.name for s in net if not isinstance(s, InitialMatrix)]
    loops = forward(net, keep=names)
    sampled, axis = with_samples(net)
    sampled = sampled.bind(**{axis: INPUTS})
    ran = Execution(sampled, WIDTH, 1, rng, ratios_of(net), data).run()
    given = {a.name: values for a in loops.of_role("data", "parameter") for values in [drawn(ran, sampled, a)]}
    found = run(loops, {loops.samples: INPUTS, **ran.width}, given)
    for name in names:
        position = net.position(name)
        expected = ran.arrays[position][0]
        if axis in sampled[position].axes:
            expected = np.moveaxis(expected, 0, len(sampled[position].axes) - 1)
        np.testing.assert_allclose(found[loops.names[name]], expected, rtol=1e-12, atol=1e-13, err_msg=name)


def drawn(ran, sampled, array):
    for position, s in enumerate(sampled):
        if s.name == array.title and isinstance(s, (InitialMatrix, InitialVector, InitialScalar)):
            values = ran.arrays[position][0]
            return (
                np.moveaxis(values, 0, -1).astype(np.int64 if array.whole else float)
                if array.role == "data"
                else values
            )
    raise AssertionError(array)


@pytest.mark.parametrize("table", [tp.MUP, tp.NTP], ids=lambda table: table.name)
@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
def test_gradients_are_those_of_single_inputs_added_up(net, table):
    """One walk over a batch, against the gradients of every output by itself."""
    rng = np.random.default_rng(1)
    data, asked = data_of(net, rng), recipe(net, table, tp.SGD(), 0.1)
    networks = Networks(asked, WIDTH, 1, rng, None, ratios_of(net))
    ran = networks.run(data)
    f = networks.outputs(ran)
    χ = rng.standard_normal(f.shape)
    expected = LossGradients(asked.sampler, ran, asked.a_out, χ)
    loops = training(net, table.a_out)
    given = {"chi": np.moveaxis(χ[0], 0, -1)}
    for a in loops.of_role("data", "parameter"):
        if a.name != "chi":
            given[a.name] = np.moveaxis(data[a.title], 0, -1) if a.role == "data" else networks.held[a.title][0]
    found = run(loops, {loops.samples: INPUTS, **ran.width}, given)
    np.testing.assert_allclose(np.moveaxis(found["f"], -1, 0), f[0], rtol=1e-12, atol=1e-13)
    for a in loops.of_role("gradient"):
        g = expected.of(a.title)[0]
        np.testing.assert_allclose(found[a.name], g, rtol=1e-10, atol=1e-13 * max(1.0, abs(g).max()), err_msg=a.title)


def test_tables_are_computed_once_and_gradients_of_what_is_looked_up_are_added_in_place():
    """No loop runs over inputs and the vocabulary at once."""
    loops = training(tokens, tp.MUP.a_out)
    crossed = [s for s in loops.statements if {"vocab", loops.samples} <= {x.extent for x in (*s.loops, *s.summed)}]
    assert crossed == []
    assert any(s.scatters and s.add for s in loops.statements)


def test_a_softmax_of_large_logits_is_finite():
    @tp.network
    def net(x: tp.Input["token"], a: tp.Scalar["token"], v: tp.Vector):
        return v * tp.sum(tp.softmax(a * x, over="token") * x, over="token")

    loops = forward(net.bind(token=2))
    arrays = {a.title: a.name for a in loops.of_role("data", "parameter")}
    given = {arrays["x"]: [[1.0], [2.0]], arrays["a"]: [800.0, 800.0], arrays["v"]: [1.0]}
    assert run(loops, {loops.samples: 1, "n": 1}, given)["f"].tolist() == [2.0]


def test_what_has_no_loop_is_refused_by_name():
    @tp.network
    def net(x: tp.Input, v: tp.Vector, *, γ):
        return v * x * γ

    with pytest.raises(ProgramError, match=r"the constant `γ` .* has no value: fix it with .bind\(γ=…\)"):
        forward(net)


def test_a_readout_of_terms_that_depend_on_less_is_as_cheap_as_its_parts():
    """Σ_d E_vd (ξ_sd + u_dn g_sn) has no array over outputs, inputs and neurons at once, nor has its gradient."""

    @tp.network
    def joint(x: tp.Input["d"], E: tp.Scalar["v", "d"], u: tp.Vector["d"], w: tp.Vector["d"]):
        g = tp.tanh(tp.sum(w * x, over="d"))
        return tp.sum(E * (x + 32 * u * g), over="d")

    loops = training(joint.bind(d=2, v=3), tp.MUP.a_out)
    assert not any({loops.samples, "v", "n"} <= set(a.extents) for a in loops.arrays)
    assert not any({loops.samples, "d", "n"} <= set(a.extents) for a in loops.arrays)

    @tp.network
    def apart(x: tp.Input["d"], E: tp.Scalar["v", "d"], u: tp.Vector["d"], w: tp.Vector["d"]):
        g = tp.tanh(tp.sum(w * x, over="d"))
        return tp.readout(32 * tp.sum(E * u, over="d") * g) + tp.sum(E * x, over="d")

    rng, sizes = np.random.default_rng(0), {loops.samples: 5, "n": 7}
    values = {"x": (2, 5), "E": (3, 2), "u": (2, 7), "w": (2, 7), "χ": (3, 5)}
    given = {name: rng.standard_normal(shape) for name, shape in values.items()}

    def found(loops):
        known = {a.name: given[a.title] for a in loops.of_role("data", "parameter")}
        arrays = run(loops, sizes, known)
        return [arrays["f"], *(arrays[a.name] for a in loops.of_role("gradient"))]

    for one, other in zip(found(loops), found(training(apart.bind(d=2, v=3), tp.MUP.a_out)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_sum_stays_whole_where_a_term_depends_on_as_much():
    """Its terms could cancel: Σ_d (x_d − mean) c_d with c over neurons is not parted into two large sums."""

    @tp.network
    def centred(x: tp.Input["d"], c: tp.Vector["d"]):
        return tp.sum((x - tp.sum(x, over="d") / tp.size("d")) * c, over="d")

    loops = forward(centred.bind(d=3))
    x, c = 1e9 + np.arange(3.0), np.array([[1.0], [2.0], [4.0]])
    data, parameter = (next(a.name for a in loops.of_role(role)) for role in ("data", "parameter"))
    found = run(loops, {loops.samples: 1, "n": 1}, {data: x[:, None], parameter: c})["f"]
    assert found.ravel() == pytest.approx([3.0], rel=1e-12)


def test_entropies_are_of_outputs_with_classes():
    """One output has no classes; its loops leave the error to a function."""

    @tp.network
    def one(x: tp.Input, v: tp.Vector):
        return v * x

    @tp.network
    def several(x: tp.Input, v: tp.Vector["label"]):
        return v * x

    for network, given in ((one, False), (several.bind(label=3), True)):
        loops = training(network, tp.MUP.a_out)
        assert (with_signal(loops, ("entropy", 0.0)) is not None) == given
        assert with_signal(loops, ("squared", 0.0)) is not None and with_signal(loops, None) is None
