"""Images of x·S, S = √n·Avg: their variance is S², which is random, and may be zero."""

from __future__ import annotations

import numpy
import pytest

import tplimits as tp


def loose(W, x, b):
    """A fluctuation of variance 1."""
    return tp.sqrt(tp.n) * tp.avg((W @ b) * x)


def switched(W, x, b):
    """Zero with probability one half."""
    return tp.relu(loose(W, x, b))


def none(W, x, b):
    """Of variance zero: relu of a mean that tends to 0 stands in it."""
    return tp.sqrt(tp.n) * tp.avg((W @ b) * x * tp.relu(tp.avg(x)))


def disguised(W, x, b):
    """Of variance zero by Stein's lemma."""
    return tp.sqrt(tp.n) * tp.avg((W @ b) * x * tp.relu(tp.avg(b * tp.tanh(b) + tp.tanh(b) ** 2 - 1)))


def program_of(scalar, body):
    @tp.program
    def program(V: tp.Matrix, Q: tp.Matrix, W: tp.Matrix, x: tp.Vector, b: tp.Vector, c: tp.Vector):
        return tp.avg(body(V @ (b * scalar(W, x, b)), Q, c))

    return program


JUMPS = {
    "step": lambda h, Q, c: tp.step(h),
    "of an image": lambda h, Q, c: tp.step(Q @ h),
    "of a kink": lambda h, Q, c: tp.sign(Q @ tp.relu(h)) + c * c,
    "pole": lambda h, Q, c: tp.abs(h) ** (-1 / 4),
}


@pytest.mark.parametrize("scalar", [switched, none, disguised])
@pytest.mark.parametrize("body", JUMPS)
def test_what_may_vanish_is_no_free_gaussian(scalar, body):
    with pytest.raises(tp.TplimitsError, match=r"tends to|argument of \w+ is 0"):
        tp.derive(program_of(scalar, JUMPS[body])).evaluate(only=("return",))


@pytest.mark.parametrize(("body", "value"), [("step", 0.5), ("of an image", 0.5), ("of a kink", 1.0)])
@pytest.mark.sampling
def test_what_does_not_vanish_is(body, value):
    limit = tp.derive(program_of(loose, JUMPS[body]))
    assert limit.evaluate()["return"].value == pytest.approx(value, abs=1e-12)
    options = {"widths": (32, 64, 128), "draws": 800, "seed": 2}
    assert tp.check(limit, **options).accepted
    assert not tp.check(limit, claims={"return": value / 2}, **options).accepted


@pytest.mark.parametrize("scalar", [switched, none, disguised])
def test_beside_a_free_gaussian_nothing_vanishes(scalar):
    """step(g + h), h an image of what is zero half of the time."""
    limit = tp.derive(program_of(scalar, lambda h, Q, c: tp.step(h + Q @ c)))
    assert limit.evaluate(only=("return",))["return"].value == pytest.approx(0.5, abs=1e-12)


def test_continuous_functions_do_not_mind():
    """E relu(V(b·relu(S))) = E relu(S)/√(2π) = 1/(2π)."""
    limit = tp.derive(program_of(switched, lambda h, Q, c: tp.relu(h)))
    assert limit.evaluate()["return"].value == pytest.approx(0.15915494309189535, abs=1e-12)


def test_a_norm_that_is_zero_half_of_the_time_is_not_divided_by():
    @tp.program
    def program(V: tp.Matrix, W: tp.Matrix, x: tp.Vector, b: tp.Vector):
        h = V @ (b * switched(W, x, b))
        return tp.avg(h / tp.sqrt(tp.avg(h * h)))

    with pytest.raises(tp.TplimitsError, match="not finite at the limit of its arguments"):
        tp.derive(program).evaluate()


def network_of(scalar, body):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, y: tp.Vector, z: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * body(x * scalar(W @ x, y, z), V)

    return tp.derive(net, tp.Kernels(train=("v",)))


INPUTS = numpy.array([[1.0, 0.5], [0.3, -0.7]])
ABOVE = {"step": lambda h, V: tp.step(h), "of an image": lambda h, V: tp.step(V @ h)}
LOGITS = {
    "of a kink": lambda u, y, z: tp.sqrt(tp.n) * tp.avg(u * y * tp.relu(tp.avg(z))),
    "disguised": lambda u, y, z: tp.sqrt(tp.n) * tp.avg(u * y * tp.relu(tp.avg(z * tp.tanh(z) + tp.tanh(z) ** 2 - 1))),
}


@pytest.mark.parametrize("body", ABOVE)
@pytest.mark.parametrize("logit", LOGITS)
def test_kernels_refuse_logits_of_variance_zero_at_jumps(logit, body):
    with pytest.raises(tp.TplimitsError, match=r"argument of step is 0"):
        network_of(LOGITS[logit], ABOVE[body]).sample(INPUTS, draws=4, seed=0)


@pytest.mark.parametrize("body", ABOVE)
def test_kernels_of_logits_that_are_zero_half_of_the_time(body):
    """Given S a step is 0 for S < 0, at every width."""
    switched = lambda u, y, z: tp.relu(tp.sqrt(tp.n) * tp.avg(u * y))  # noqa: E731 - a row of a table
    found = network_of(switched, ABOVE[body]).sample(INPUTS, draws=64, seed=0).nngp
    assert set(found[:, 0, 0].round(12)) == {0.0, 0.5}
    alike = found[:, 0, 1][found[:, 0, 1] > 0]
    cosine = INPUTS[0] @ INPUTS[1] / numpy.prod(numpy.linalg.norm(INPUTS, axis=1))
    assert alike == pytest.approx(0.25 + numpy.arcsin(cosine) / (2 * numpy.pi), abs=1e-12)


def _read(below, inline=False):
    """What stands beside a mean given S = √n⟨a|y⟩ of W(y S), and is 0 by its oddness."""

    @tp.program
    def program(W: tp.Matrix, a: tp.Vector, x: tp.Vector, y: tp.Vector):
        moved = tp.sqrt(tp.n) * tp.avg(a * y)
        h = W @ (y * moved)
        if inline:
            return tp.avg(x * below(W @ (y * (tp.sqrt(tp.n) * tp.avg(a * y)))))
        read = below(h)
        return tp.avg(x * read)

    return tp.derive(program)


@pytest.mark.parametrize("inline", [False, True])
def test_a_mean_given_what_stays_random_is_looked_at_where_that_may_be(inline):
    """E[h tanh h|S] = S² E[1 − tanh² h|S] by Stein's lemma: a jump at ½ beside it is one at 0 whatever S is."""

    def zero(h):
        return tp.avg(h * tp.tanh(h)) - tp.avg(1 - tp.tanh(h) ** 2) * tp.avg(h * h)

    # E[h tanh h|S] is 0 at S = 0 alone, where S almost never is
    positive = (lambda h: tp.step(tp.avg(h * tp.tanh(h))), lambda h: tp.log(tp.avg(h * tp.tanh(h))))
    for apart in (lambda h: tp.step(zero(h) + 0.5), lambda h: 1 / tp.avg(tp.exp(tp.tanh(h))), *positive):
        found = _read(apart, inline).evaluate(only=("return",))["return"]
        assert (found.value, found.variance) == (0, 0)
    for lands, why in (
        (lambda h: tp.step(zero(h)), "lands on a jump"),
        (lambda h: tp.avg(h * tp.tanh(h)) / zero(h), "tends to 0"),
    ):
        with pytest.raises(tp.TplimitsError, match=why):
            _read(lands, inline).evaluate(only=("return",))
