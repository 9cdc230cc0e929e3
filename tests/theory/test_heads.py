"""Functions of outputs: losses through them in every training regime, kernels given the outputs."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.trainer.trainer import Trainer

RNG = np.random.default_rng(0)
X, F, SIGNAL = RNG.standard_normal((4, 2)), RNG.standard_normal((4, 3)), RNG.standard_normal((4, 3))
LABELS = [0, 1, 2, 1]


@tp.program
def cap(f: tp.Scalar["c"]):
    """A soft cap, steep at 0, and centred."""
    g = 2 * tp.tanh(2 * f)
    return g - tp.mean(g, over="c")


@tp.program
def log_probabilities(f: tp.Scalar["c"]):
    return f - tp.log(tp.sum(tp.exp(f), over="c"))


@tp.program
def gaps(f: tp.Scalar["c"]):
    """Outputs at chosen places: fewer than came in."""
    return f.sel(c=0) ** 2 - f.sel(c=2) * tp.sum(f, over="c")


HEADS = {"cap": tp.Head(cap), "log": tp.Head(log_probabilities), "gaps": tp.Head(gaps.bind(c=3))}


@tp.network
def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector["c"]):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


NET = network.bind(c=3)
OPTIONS = {"X": X, "lr": 2.0, "steps": 2, "widths": (64, 128, 256), "draws": (100, 80, 60)}


@pytest.mark.parametrize("name", HEADS)
def test_derivatives_are_those_of_the_function(name):
    head, step = HEADS[name], 1e-6
    J = head.jacobian(F)
    for k in range(3):
        moved = np.zeros_like(F)
        moved[:, k] = step
        by_differences = (head(F + moved) - head(F - moved)) / (2 * step)
        assert np.allclose(J[..., k], by_differences, atol=1e-8)
    χ = SIGNAL if name != "gaps" else SIGNAL[:, 0]
    assert np.allclose(head.pull(F, χ), np.einsum("ik,ikb->ib", χ.reshape(4, -1), J.reshape(4, -1, 3)))


def test_cross_entropy_is_that_of_log_probabilities():
    """−log p(label) through the head is the loss that is known by name, whose softmax does not see the head."""
    plain, through = tp.cross_entropy(LABELS), HEADS["log"].loss(tp.cross_entropy(LABELS))
    assert abs(plain.loss(F) - through.loss(F)) < 1e-14 and plain.accuracy(F) == through.accuracy(F)
    assert np.allclose(plain(F), through(F), atol=1e-15)


def test_the_signal_is_the_derivative_of_the_loss_and_batches_keep_it():
    loss = HEADS["cap"].loss(tp.cross_entropy(LABELS, smoothing=0.1, train=[0, 2, 3]))
    for i, k in np.ndindex(4, 3):
        moved = np.zeros_like(F)
        moved[i, k] = 1e-6
        assert abs((loss.loss(F + moved) - loss.loss(F - moved)) / 2e-6 - loss(F)[i, k]) < 1e-9
    assert not loss(F)[1].any() and np.allclose(loss.batch([2, 2])(F[[2, 2]]).sum(axis=0), loss.batch([2])(F[[2]])[0])


def test_gradients_of_networks_through_a_head_are_those_by_hand():
    head, n = HEADS["cap"], 5
    weights = {"U": RNG.standard_normal((2, n)), "W": RNG.standard_normal((n, n)), "v": RNG.standard_normal((3, n))}
    loss = head.loss(tp.cross_entropy(LABELS))

    def f(v):
        return np.tanh(np.tanh(X @ weights["U"]) @ weights["W"].T) @ v.T

    run = Trainer(NET, loss, tp.SGD(), 1.0, parametrization=tp.SP).start(X, width=n, parameters=weights)
    by_hand = np.empty_like(weights["v"])
    for place in np.ndindex(3, n):
        moved = np.zeros((3, n))
        moved[place] = 1e-6
        by_hand[place] = (loss.loss(f(weights["v"] + moved)) - loss.loss(f(weights["v"] - moved))) / 2e-6
    assert np.allclose(run.gradients()["v"], by_hand, atol=1e-8)


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_training_limits_through_a_head(regime):
    limit = tp.derive(NET, regime(tp.SGD()))
    plain = tp.cross_entropy(LABELS)
    through = {**OPTIONS, "error": HEADS["cap"].loss(plain)}
    assert tp.check(limit, **through).accepted
    without = {row.claim.label: row.claim.value for row in tp.check(limit, **OPTIONS, error=plain).rows}
    assert not tp.check(limit, claims=without, **through).accepted


def test_user_written_signals_go_through_too():
    error = HEADS["cap"].loss(lambda y, t: (t + 1) * y)
    limit = tp.derive(NET, tp.NeuralTangent(tp.SGD(), f0=0))
    found = limit.evaluate(X, error=error, lr=0.1, steps=1).f
    assert np.array_equal(found[1], found[0])  # y(0) = 0, so that nothing moves


def test_the_kernel_of_outputs_given_the_outputs():
    """J Θ J′ᵀ beside the products of gradients of y at width 6, each by the network itself."""
    head, n = HEADS["cap"], 6
    weights = {"U": RNG.standard_normal((2, n)), "W": RNG.standard_normal((n, n)), "v": RNG.standard_normal((3, n))}

    def rows(signal):
        run = Trainer(NET, lambda f: signal(f), tp.SGD(), 1.0, parametrization=tp.SP).start(
            X, width=n, parameters=weights
        )
        return np.concatenate([g.ravel() for g in run.gradients().values()]), run.outputs()

    def unit(i, k):
        found = np.zeros((4, 3))
        found[i, k] = 1.0
        return found

    f = rows(lambda f: np.zeros_like(f))[1]
    of_f = np.array([[rows(lambda f, i=i, k=k: unit(i, k))[0] for k in range(3)] for i in range(4)])
    of_y = np.array([[rows(lambda f, i=i, k=k: head.pull(f, unit(i, k)))[0] for k in range(3)] for i in range(4)])
    Θ = np.einsum("iap,jbp->ijab", of_f, of_f)
    assert np.allclose(head.kernel(Θ, f), np.einsum("iap,jbp->ijab", of_y, of_y), atol=1e-10)
    assert np.allclose(head.kernel(Θ[:2, 1:], f[:2], f[1:]), head.kernel(Θ, f)[:2, 1:])


# -- what is refused ------------------------------------------------------------------------------


def test_steps_with_a_head_are_not_written_out():
    limit = tp.derive(NET, tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(tp.EvaluationError, match="goes through the head `cap`"):
        limit.unrolled(X, error=HEADS["cap"].loss(tp.cross_entropy(LABELS)), lr=1, steps=1)


def vectors(x: tp.Vector):
    return tp.avg(x)


def two_arguments(f: tp.Scalar, g: tp.Scalar):
    return f * g


def open_constant(f: tp.Scalar, *, κ):
    return κ * f


def two_results(f: tp.Scalar):
    return f**2, f**3


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (vectors, "is no scalar"),
        (two_arguments, "one argument without a value"),
        (open_constant, "the constant `κ` has no value"),
        (two_results, "returns one function"),
    ],
)
def test_programs_that_are_no_heads_are_refused(function, what):
    with pytest.raises(tp.ProgramError, match=what):
        tp.Head(tp.program(function))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(tp.EvaluationError, match=r"takes outputs of shape \(inputs, 3\)"):
        HEADS["gaps"](F[:, :2])
    with pytest.raises(tp.EvaluationError, match="labels"):
        HEADS["cap"].loss(tp.cross_entropy([0, 1]))(F)
    with pytest.raises(tp.EvaluationError, match="kernel= has shape"):
        HEADS["cap"].kernel(np.eye(4), F)
    with pytest.raises(tp.ProgramError, match=r"tp\.Head"):
        tp.network(capped)


def capped(ξ: tp.Input["d"], U: tp.Vector["d"]):
    return tp.tanh(tp.readout(tp.sum(U * ξ, over="d")))
