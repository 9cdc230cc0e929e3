"""Constants at whose values the limit is another one: jumps that land on them, vectors that they multiply by 0."""

import math

import pytest

import tplimits as tp


@tp.program
def root_of_width(*, c):
    return tp.step(c + 1 / tp.sqrt(tp.n))


@tp.program
def inverse_of_width(x: tp.Vector, *, c):
    return tp.avg(tp.step(c * x + 1 / tp.n) * (1 + x))


@tp.program
def moment(x: tp.Vector, *, c):
    return tp.avg(tp.step(c * x) * x)


@tp.program
def landing(x: tp.Vector, *, c):
    return tp.step(tp.avg(x * x) - c)


@tp.program
def cancelling(x: tp.Vector, y: tp.Vector, *, c, k=1.0):
    return tp.avg(tp.sign(c * x - k * x + tp.avg(y)) * (1 + x))


@tp.program
def image(W: tp.Matrix, x: tp.Vector, *, c):
    return tp.avg(tp.step(W @ (c * x) + tp.avg(x)))


HALF = 1 / math.sqrt(2 * math.pi)
#: with a program and its constants the number of every wide network, None where there is none
NUMBERS = [
    (root_of_width, {"c": 0.0}, 1.0),
    (root_of_width, {"c": -1.0}, 0.0),
    (inverse_of_width, {"c": 0}, 1.0),
    (inverse_of_width, {"c": 2.0}, 0.5 + HALF),
    (moment, {"c": 0.0}, 0.0),
    (moment, {"c": 0.5}, HALF),
    (moment, {"c": -0.5}, -HALF),
    (landing, {"c": 0.5}, 1.0),
    (landing, {"c": 1.0}, None),
    (cancelling, {"c": 1.0}, None),
    (cancelling, {"c": 2.0}, 2 * HALF),
    (cancelling, {"c": 2.0, "k": 2}, None),
    (image, {"c": 0.0}, None),
    (image, {"c": 0.3}, 0.5),
]


@pytest.mark.parametrize(("program", "given", "expected"), NUMBERS, ids=[f"{p.name} {g}" for p, g, _ in NUMBERS])
def test_given_later_or_before(program, given, expected):
    """As when they are put into the program, which is refused where this is."""
    if expected is None:
        with pytest.raises(tp.EvaluationError, match=r"no number at c = .* jump"):
            tp.derive(program).evaluate(**given)
        with pytest.raises(tp.NoLimitError, match="jump"):
            tp.derive(program.bind(**{c: value for c, value in program.constants.items() if value is not None} | given))
        return
    later, before = tp.derive(program).evaluate(**given), tp.derive(program.bind(**given)).evaluate()
    assert later["return"].value == pytest.approx(expected, abs=1e-12)
    assert before["return"].value == pytest.approx(expected, abs=1e-12)


def test_one_limit_has_numbers_at_one_value_after_the_other():
    limit = tp.derive(inverse_of_width)
    found = [limit.evaluate(c=c)["return"].value for c in (1.0, 0.0, -1.0, 0.0)]
    assert found == pytest.approx([0.5 + HALF, 1.0, 0.5 - HALF, 1.0])


def test_whole_numbers_beyond_doubles_are_refused_where_a_jump_could_stand():
    @tp.program
    def jumps(W: tp.Matrix, x: tp.Vector, *, c):
        return tp.avg(tp.step(W @ x - c))

    limit = tp.derive(jumps)
    assert limit.evaluate(c=10**300)["return"].value == 0
    with pytest.raises(tp.EvaluationError, match="finite number"):
        limit.evaluate(c=10**400)


@tp.program
def power(x: tp.Vector, *, p):
    return tp.avg(tp.abs(x) ** p)


@tp.program
def bump(x: tp.Vector, *, c):
    return tp.avg(tp.exp(c * x * x))


MOMENTS = [
    (power, {"p": -0.3}, 2**-0.15 * math.gamma(0.35) / math.sqrt(math.pi)),
    (power, {"p": 0.5}, 2**0.25 * math.gamma(0.75) / math.sqrt(math.pi)),
    (power, {"p": -0.5}, None),
    (bump, {"c": 0.2}, 0.6**-0.5),
    (bump, {"c": -1}, 3**-0.5),
    (bump, {"c": 0.3}, None),
]


@pytest.mark.parametrize(("program", "given", "expected"), MOMENTS, ids=[f"{p.name} {g}" for p, g, _ in MOMENTS])
def test_moments_that_values_of_constants_decide(program, given, expected):
    limit = tp.derive(program)
    if expected is None:
        with pytest.raises(tp.EvaluationError, match="has no finite second moment"):
            limit.evaluate(**given)
    else:
        assert limit.evaluate(**given)["return"].value == pytest.approx(expected, rel=1e-12)


def test_a_moment_that_was_taken_on_stays_so():
    """E exp(c x²) is finite for c < ½, its second moment for c < ¼."""
    limit = tp.derive(bump, assume=("moment of _2",))
    assert limit.evaluate(c=0.3)["return"].value == pytest.approx(0.4**-0.5, rel=1e-9)
