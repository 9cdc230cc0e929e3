"""Compiled training against the same training on NumPy arrays, and limits against wide networks."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.numbers.loops import machine, training
from tplimits.program.loops.updating import kind_of
from tplimits.regimes.training.finite.networks import train
from tplimits.regimes.training.trainer import engine
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.zoo.networks.attention import residual_attention, tied_attention, transformer_block

RNG = np.random.default_rng(7)
N = 6


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector["out"]):
    return v * tp.tanh(V @ tp.gelu(W @ tp.relu(tp.sum(U * ξ, over="d"))))


@tp.network
def residual(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    W: tp.Matrix["n", "n", "l"],
    v: tp.Vector["out"],
    c: tp.Scalar,
    s: tp.Scalar = 1,
):
    x = tp.sum(U * ξ, over="d")
    for layer in range(2):
        x = x + s * (W.sel(l=layer).T @ tp.tanh(W.sel(l=layer) @ (x - tp.avg(x))))
    return tp.readout(v * x / tp.sqrt(tp.avg(x**2) + 1)) + 0.3 * c


@tp.network
def two_widths(ξ: tp.Input["d"], U: tp.Vector["d", "m"], W: tp.Matrix["n", "m"], v: tp.Vector["out"]):
    return v * tp.erf(W @ tp.gelu(tp.sum(U * ξ, over="d")))


@tp.network
def tokens(
    x: tp.Input["token"].of("vocab"),
    E: tp.Vector["vocab"],
    P: tp.Vector["token"],
    q: tp.Scalar["vocab"],
    v: tp.Vector["out"],
):
    attention = tp.softmax(q.sel(vocab=x), over="token")
    return v * tp.sum(attention * tp.tanh(E + P).sel(vocab=x), over="token")


@tp.network
def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector["out"], a: tp.Scalar["out"]):
    """A network of means over neurons, with a scalar that stands in front of one, and one behind."""
    h = tp.gelu(tp.sum(U * ξ, over="d") + b)
    scale = tp.avg(h**2)
    return tp.readout(v * h / tp.sqrt(1 + scale) * (1 + a**2)) + 0.1 * a


@tp.network
def with_a_norm_at_rest(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector["out"], a: tp.Scalar["out"]):
    """The same values, and no gradient through the mean square."""
    h = tp.gelu(tp.sum(U * ξ, over="d") + b)
    scale = tp.stop_gradient(tp.avg(h**2))
    return tp.readout(v * h / tp.sqrt(1 + scale) * (1 + a**2)) + 0.1 * a


def sized(net):
    known = {"d": 3, "out": 2, "l": 2, "vocab": 3, "token": 4}
    return net.bind(**{a: size for a, size in known.items() if a in net.all_axes and net.size(a) is None})


NETWORKS = [
    sized(n)
    for n in (mlp, residual, two_widths, tokens, shallow, tied_attention, residual_attention, transformer_block)
]
OPTIMIZERS = {
    "SGD": tp.SGD(),
    "momentum": tp.SGD(momentum=0.5),
    "Adam": tp.Adam(eps=1e-3),
    "NAdam": tp.NAdam(eps=0.1),
    "RMSProp": tp.RMSProp(eps=0.1),
    "sign": tp.SignSGD(eps=0.1),
    "own": tp.Entrywise(
        lambda g, m, k: tp.tanh(g) + m * k, states={"m": lambda m, k, g: k / 2 + g, "k": lambda m, k: m - k / 3}
    ),
    "normalised": tp.Normalized(tp.SGD(), by="weight"),
    "clipped": tp.Clipped(tp.Adam(eps=1e-3), 0.5, of="gradient"),
    "Adafactor": tp.Adafactor(eps=0.05),
}


def data_of(net, inputs=N):
    s = net[net.inputs[0]]
    shape = (inputs, *(int(net.size(a)) for a in s.axes))
    rng = np.random.default_rng(3)
    return rng.integers(0, int(net.size(s.of)), shape) if s.of else rng.standard_normal(shape)


def targets_of(net, inputs=N):
    outputs = tuple(int(net.size(a)) for a in net[net.returns[0]].axes)
    return np.random.default_rng(4).standard_normal((inputs, *outputs))


def paths(net, table, optimizer, error=None, lr=0.05, steps=3, width=9, **more):
    """Outputs over time by both routes, from the same initial parameters."""
    X = data_of(net)
    error = tp.squared_error(targets_of(net)) if error is None else error
    ratios = {w: 1.5 for w in net.widths if w != "n"}
    decay = 0.02 if optimizer.is_entrywise else 0.0
    run = Trainer(net, error, optimizer, lr, table, decay, **more).start(X, width=width, seed=2, ratios=ratios)
    start = run.parameters
    found = [run.outputs()]
    for _ in range(steps):
        run.advance(1)
        found.append(run.outputs())
    expected = train(net, table, optimizer, X, error, lr, steps, width, given=start, weight_decay=decay, ratios=ratios)
    return np.array(found), expected.f[0]


@pytest.mark.parametrize("table", [tp.MUP, tp.NTP, tp.SP], ids=lambda table: table.name)
@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
def test_networks_train_as_on_arrays(net, table):
    found, expected = paths(net, table, tp.Adam(eps=1e-2))
    assert abs(expected[-1] - expected[0]).max() > 1e-4
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * abs(expected).max())


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("net", [NETWORKS[1], NETWORKS[3]], ids=lambda net: net.name)
def test_optimizers_are_those_of_their_formulas(net, name):
    """Recursions of states that need one another, decays, and norms of all entries or of all parameters."""
    found, expected = paths(net, tp.MUP, OPTIMIZERS[name], lr=lambda t: 0.05 / (1 + t), steps=4)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * abs(expected).max())


def test_an_error_signal_of_ones_own_is_called_with_the_time():
    found, expected = paths(NETWORKS[0], tp.MUP, tp.Adam(eps=0.1), error=lambda f, t: np.tanh(f) * (1 + t))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def rate_off(monkeypatch):
    whole = engine.SizedRecipe._scalar

    def scaled(self, entry, *at):
        found = whole(self, entry, *at)
        return np.asarray(found) * 1.1 if isinstance(entry, tuple) and entry[0] == "rate" else found

    monkeypatch.setattr(engine.SizedRecipe, "_scalar", scaled)


def norm_dropped(monkeypatch):
    """The gradient through the mean square of the norm is left out."""
    whole = engine.training
    monkeypatch.setattr(engine, "training", lambda net, *how: whole(sized(with_a_norm_at_rest), *how))
    monkeypatch.setattr(engine, "_code", engine._code.__wrapped__)  # what was made before is not taken


def test_a_rate_that_is_off_by_a_tenth_is_seen(monkeypatch):
    rate_off(monkeypatch)
    found, expected = paths(NETWORKS[0], tp.MUP, tp.Adam(eps=1e-2))
    assert abs(found - expected)[1:].max() > 1e-3 * abs(expected).max()


# -- losses and batches -----------------------------------------------------------------------------------


def test_losses_by_name_in_loops_are_those_of_their_functions():
    """With weights, held-out inputs and smoothing; the functions themselves are tested where they are."""
    net, X = NETWORKS[3], data_of(NETWORKS[3], 9)
    labels, train_on = RNG.integers(0, 2, 9), np.arange(9) < 7
    for loss in (
        tp.cross_entropy(labels, train=train_on, smoothing=0.1, weights=np.linspace(0.5, 2, 9)),
        tp.squared_error(RNG.standard_normal((9, 2)), train=train_on, weights=np.linspace(0.5, 2, 9)),
    ):
        runs = [
            Trainer(net, error, tp.Adam(eps=0.01), 0.1).start(X, width=8) for error in (loss, lambda f, e=loss: e(f))
        ]
        for run in runs:
            run.advance(5)
        np.testing.assert_allclose(runs[0].outputs(), runs[1].outputs(), rtol=1e-12)
        gradients = [run.gradients() for run in runs]
        for name, g in gradients[0].items():
            np.testing.assert_allclose(g, gradients[1][name], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("sampler", ["epochs", "draws"])
def test_batches_are_the_rows_of_the_schedule(sampler):
    """One call for all steps, against one run a step on the rows themselves."""
    net, X, y = NETWORKS[0], data_of(NETWORKS[0], 20), targets_of(NETWORKS[0], 20)
    train_on, batches = np.arange(20) % 5 > 0, tp.batches(3, seed=1, sampler=sampler)
    loss = tp.squared_error(y, train=train_on)
    run = Trainer(net, loss, tp.SGD(), 0.1, batches=batches).start(X, width=8)
    held = run.parameters
    run.advance(7)
    for t in range(7):
        rows = loss.rows_at(t, batches)
        assert train_on[rows].all()
        one = Trainer(net, tp.squared_error(y[rows]), tp.SGD(), 0.1).start(X[rows], width=8, parameters=held)
        one.advance(1)
        held = one.parameters
    for name, w in run.parameters.items():
        np.testing.assert_allclose(w, held[name], rtol=1e-11, atol=1e-13)


def test_a_batch_of_many_blocks_is_one_batch():
    """Sums over inputs grow from block to block."""
    net, X, y = NETWORKS[1], data_of(NETWORKS[1], 50), targets_of(NETWORKS[1], 50)
    runs = [Trainer(net, tp.squared_error(y), tp.SGD(), 0.1).start(X, width=8) for _ in range(2)]
    runs[1]._kernel.block = 8
    for run in runs:
        run.advance(3)
    np.testing.assert_allclose(runs[1].outputs(), runs[0].outputs(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("width", [4, 9])
@pytest.mark.parametrize("table", [tp.NTP, tp.SP], ids=lambda table: table.name)
def test_networks_start_alike_in_all_parametrizations(table, width):
    """The same draws: outputs of NTP and SP at the start are √n times those of μP."""
    net = NETWORKS[0]
    found, natural = (
        Trainer(net, tp.squared_error(targets_of(net)), tp.SGD(), 0.1, t).start(data_of(net), width=width, seed=3)
        for t in (table, tp.MUP)
    )
    np.testing.assert_allclose(found.outputs(), width**0.5 * natural.outputs(), rtol=1e-12)


# -- limits -----------------------------------------------------------------------------------------------


def shallow_trainer(optimizer, lr=0.2):
    net = sized(shallow)
    return Trainer(net, tp.squared_error(targets_of(net)), optimizer, lr)


def ended(trainer, **at):
    """Scalars and outputs after some steps of a network, or of the limit."""
    run = trainer.start(data_of(sized(shallow)), parameters={"a": [0.3, -0.2]}, **at)
    run.advance(12)
    return np.concatenate([run.parameters["a"], run.outputs().ravel()])


@pytest.mark.parametrize(("optimizer", "lr"), [(tp.SGD(), 0.2), (tp.Adam(eps=1e-2), 0.03)], ids=["SGD", "Adam"])
def test_networks_come_near_the_limit_as_the_root_of_the_width(optimizer, lr):
    trainer = shallow_trainer(optimizer, lr)
    widths, limit = np.array([64, 256, 1024]), ended(trainer, particles=2**14)
    found = [np.mean([(ended(trainer, width=n, seed=s) - limit) ** 2 for s in range(24)]) for n in widths]
    slope = np.polyfit(np.log(widths), np.log(found) / 2, 1)[0]
    assert -0.65 < slope < -0.35


@pytest.mark.long
def test_the_limit_is_that_of_the_particle_engine():
    net = sized(shallow)
    X, y = data_of(net), targets_of(net)
    run = Trainer(net, tp.squared_error(y), tp.Adam(eps=0.1), 0.2).start(
        X, particles=2**14, parameters={"a": [0.3, -0.2]}
    )
    run.advance(4)
    limit = tp.derive(net, tp.MaximalUpdate(tp.Adam(eps=0.1)))
    other = limit.evaluate(X, error=tp.squared_error(y), lr=0.2, steps=4, a=[0.3, -0.2], replicates=4)
    error, noise = (np.sqrt(np.mean(x**2)) for x in (run.outputs() - other.f[4], other.stderr[4]))
    assert error < 3 * noise < 0.01


@pytest.mark.parametrize("twin", [rate_off, norm_dropped], ids=["rate", "norm"])
def test_wrong_twins_of_the_limit_are_not_what_networks_tend_to(twin, monkeypatch):
    """A rate off by a tenth, and a gradient without the mean square that divides: networks stay away from both."""
    trainer = shallow_trainer(tp.SGD())
    right = ended(trainer, particles=2**13)
    with monkeypatch.context() as patched:
        twin(patched)
        wrong = ended(shallow_trainer(tp.SGD()), particles=2**13)
    direction = (wrong - right) / np.linalg.norm(wrong - right)
    networks = np.array([ended(trainer, width=4096, seed=s) for s in range(12)]) @ direction
    error = networks.std(ddof=1) / np.sqrt(len(networks))
    assert abs(networks.mean() - right @ direction) < 4 * error
    assert abs(networks.mean() - wrong @ direction) > 8 * error


def test_initial_draws_are_nested_over_widths_and_scalars_shared():
    net, X = sized(shallow), data_of(sized(shallow))
    trainer = Trainer(net, tp.squared_error(targets_of(net)), tp.SGD(), 0.1)
    narrow, wide, limit = (
        trainer.start(X, seed=5, **at).parameters for at in ({"width": 8}, {"width": 20}, {"particles": 64})
    )
    np.testing.assert_array_equal(narrow["U"], wide["U"][:, :8])
    assert narrow["a"].tolist() == wide["a"].tolist() == limit["a"].tolist()
    assert abs(limit["U"].mean()) < 0.05 and abs(limit["U"].std() - 1) < 0.05
    assert narrow["U"].tolist() != trainer.start(X, seed=6, width=8).parameters["U"].tolist()


# -- states and failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Adam", "own", "normalised", "Adafactor"])
def test_a_run_goes_on_from_its_state_to_the_last_bit(name):
    net, X = NETWORKS[1], data_of(NETWORKS[1])
    trainer = Trainer(net, tp.squared_error(targets_of(net)), OPTIMIZERS[name], 0.05)
    whole, first, second = (trainer.start(X, width=9, seed=s) for s in (1, 1, 2))
    whole.advance(6)
    first.advance(2)
    state = first.state()
    first.advance(1)
    second.restore(state)
    second.advance(4)
    assert second.step == 6
    for key, value in whole.state().items():
        assert np.array_equal(value, second.state()[key]), key
    with pytest.raises(EvaluationError, match="`parameter U` does not fit this run"):
        second.restore({**state, "parameter U": np.zeros(3)})


@pytest.mark.parametrize("inputs", [N, 60])
def test_outputs_that_overflow_are_reported_with_their_step(inputs):
    net = NETWORKS[1]
    trainer = Trainer(net, tp.squared_error(targets_of(net, inputs)), tp.SGD(), 1e150, tp.SP)
    run = trainer.start(data_of(net, inputs), width=9)
    with pytest.raises(
        EvaluationError, match=r"`residual` at width 9: the outputs overflow at step [1-4]; give a smaller lr"
    ):
        run.advance(50)
    assert 1 <= run.step <= 4


def test_values_by_name_have_inputs_first():
    net, X = NETWORKS[3], data_of(NETWORKS[3])
    run = Trainer(net, tp.squared_error(targets_of(net)), tp.SGD(), 0.1).start(X, width=8)
    attention = run.value("attention")
    q = run.parameters["q"][X]
    np.testing.assert_allclose(attention, np.exp(q) / np.exp(q).sum(axis=1, keepdims=True), rtol=1e-12)
    assert run.value("q").shape == (3,) and run.value("return", X[:2]).shape == (2, 2, 8)
    np.testing.assert_allclose(run.value("return").mean(axis=-1), run.outputs(), rtol=1e-12)


@pytest.mark.parametrize("train", [None, range(1, 4)])
def test_one_look_gives_outputs_and_gradients(train):
    net = sized(shallow)
    X, y = data_of(net), targets_of(net)
    for loss in (tp.squared_error(y, train=train), lambda f: f - y):
        run = Trainer(net, loss, tp.Adam(), 0.1).start(X, width=8)
        run.advance(2)
        f, gradients = run.outputs_and_gradients()
        np.testing.assert_allclose(f, run.outputs(), rtol=1e-13)
        assert all(np.array_equal(g, gradients[name]) for name, g in run.gradients().items())


@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Adam()], ids=lambda o: o.name)
def test_particles_are_maximal_updates_however_these_are_written(optimizer):
    """Powers may be moved between weights, starts and rates; one that moves alone is another limit."""
    net, X = sized(shallow), data_of(sized(shallow))
    loss = tp.squared_error(targets_of(net))
    kinds = {kind: tp.MUP.kind(kind) for kind in ("vector", "readout")}

    def started(tables):
        return Trainer(net, loss, optimizer, 0.1, tp.ABCD(tables, base=tp.MUP)).start(X, particles=16)

    for shift in (Fraction(1, 2), Fraction(-1, 4)):
        moved = started({kind: e.shifted(shift) for kind, e in kinds.items()})
        np.testing.assert_allclose(moved.outputs(), started({}).outputs(), rtol=1e-12)
    for kind, place in itertools.product(kinds, range(4)):
        table = [v + Fraction(k == place, 2) for k, v in enumerate(kinds[kind])]
        with pytest.raises(EvaluationError, match="one of means over neurons"):
            started({kind: table})


def test_what_cannot_be_trained_is_refused():
    net, X, loss = sized(shallow), data_of(sized(shallow)), tp.squared_error(targets_of(sized(shallow)))
    with pytest.raises(EvaluationError, match=r"start\(width=…\) or start\(particles=…\): give one"):
        Trainer(net, loss, tp.SGD(), 0.1).start(X)
    with pytest.raises(
        EvaluationError, match=r"NTP: the limit of `shallow` is one of means .* give parametrization=tp.MUP"
    ):
        Trainer(net, loss, tp.SGD(), 0.1, tp.NTP).start(X, particles=64)
    with pytest.raises(EvaluationError, match="particles stand for neurons where there are no matrices"):
        Trainer(NETWORKS[0], loss, tp.SGD(), 0.1).start(data_of(NETWORKS[0]), particles=64)
    with pytest.raises(EvaluationError, match="a batch has a loss of its own"):
        Trainer(net, lambda f: f, tp.SGD(), 0.1, batches=tp.batches(2))
    with pytest.raises(EvaluationError, match="`U` has shape"):
        Trainer(net, loss, tp.SGD(), 0.1).start(X, width=8, parameters={"U": np.zeros((3, 7))})
    with pytest.raises(EvaluationError, match="has no constant, parameter or axis of this name"):
        Trainer(net, loss, tp.SGD(), 0.1).start(X, width=8, parameters={"Q": 1.0})
    with pytest.raises(
        EvaluationError, match=r"targets have shape \(3,\), the outputs"
    ):  # before code reads their rows
        Trainer(net, tp.squared_error(np.ones(3)), tp.SGD(), 0.1).start(X, width=8)
    assert kind_of(lambda f: f) is None and kind_of(loss) is not None


def test_loops_that_are_not_rewritten_compute_the_same(monkeypatch):
    X, loss = np.random.default_rng(1).standard_normal((3, 3)), tp.squared_error(np.ones((3, 2)))
    found = []
    for rewritten in (True, False):
        monkeypatch.setattr(training, "compiled", lambda text, way=rewritten: machine.compiled(text, way))
        run = Trainer(sized(shallow), loss, tp.SGD(), 0.5).start(X, width=8, seed=1)
        run.advance(3)
        found.append(run.outputs())
    assert np.allclose(*found, rtol=1e-13, atol=1e-14)
