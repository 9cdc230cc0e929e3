"""What has a limit in one spelling has it in all: maps that are refused by their names are read where they stand."""

import math
import pickle

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.language.without_names import without_names

TABLE = np.array([1, 0, 1])


@tp.program
def rich(x: tp.Vector["token"], W: tp.Matrix, y: tp.Vector, c: tp.Scalar = 0.5, *, γ=2):
    weights = tp.constant(np.array([0.3, -0.7]), axes=("token",))
    h = W @ x
    scaled = weights * h
    shifted = γ * tp.tanh(scaled) + c
    picked = shifted.take(token=TABLE, axes=("place",))
    β = tp.neuron("β")
    gate = tp.exp(y * y[β] / 4 - y**2)
    mixed = tp.avg(gate * y[β], over=β)
    total = tp.sum(picked, over="place") * mixed
    s = tp.avg(total)
    return total, s**2 + s


def test_it_runs_as_the_program_does():
    written = without_names(rich)
    assert len(written) < len(rich)
    bound, other = rich.bind(token=2), written.bind(token=2)
    here, there = (p.run(n=9, seed=4, constants={"γ": 1.5}) for p in (bound, other))
    for name in ("return[0]", "return[1]", "h", "s"):
        np.testing.assert_allclose(here[name], there[name], rtol=1e-13)
    # another constant is another value: it is none that was put in
    assert not np.allclose(there["return[1]"], other.run(n=9, seed=4)["return[1]"])


def test_names_of_what_stays_are_kept():
    written = without_names(rich)
    assert [written[p].name for p in written.arguments] == [rich[p].name for p in rich.arguments]
    assert written[written.position("s")].line == rich[rich.position("s")].line
    assert written.constants == rich.constants
    assert "picked" in rich.names
    with pytest.raises(tp.ProgramError, match="no limit of `picked` is derived"):
        written.position("picked")


def test_data_that_are_indices_stay():
    @tp.network
    def embedded(x: tp.Input["token"].of("vocab"), Z: tp.Vector["vocab"], W: tp.Matrix, v: tp.Vector):
        z = Z.sel(vocab=x)
        h = tp.sum(z, over="token")
        g = 2 * h
        return v * tp.relu(W @ g)

    written = without_names(embedded)
    assert len(written) < len(embedded)
    data = np.array([[0, 1], [2, 2]])
    kernels = [tp.derive(p.bind(vocab=3), tp.Kernels()).evaluate(data) for p in (embedded, written)]
    np.testing.assert_allclose(kernels[0].nngp, kernels[1].nngp, rtol=1e-12)
    np.testing.assert_allclose(kernels[0].ntk, kernels[1].ntk, rtol=1e-12)


def squared_sign(x: tp.Vector, y: tp.Vector):
    cube = tp.avg(x * y) ** 3
    w = tp.sign(cube)
    z = w * y
    return tp.avg(z**2)


def test_a_name_that_was_written_out_says_why_it_has_no_limit():
    """The program has `w`; a limit that was derived without its name says which hypothesis its map fails."""
    limit = tp.derive(tp.program(squared_sign))
    assert limit.scalar("return") == 1
    jump = r"and none with its names: .*`w`.* lands on a jump of `sign`"
    for ask in (limit.scalar, limit.ket, lambda name: limit.braket(name, "y"), lambda name: limit.braket("x", name)):
        for name in ("w", "z"):
            with pytest.raises(tp.ProgramError, match=f"no limit of `{name}` is derived: `squared_sign` has .*{jump}"):
                ask(name)
    with pytest.raises(tp.EvaluationError, match=f"only='w': no limit of `w` is derived.*{jump}"):
        limit.evaluate(only=["w"])
    with pytest.raises(tp.ProgramError, match="has nothing named `q`"):  # which nobody wrote
        limit.scalar("q")
    again = pickle.loads(pickle.dumps(limit))
    with pytest.raises(tp.ProgramError, match=jump):
        again.scalar("w")


def of_norms(x: tp.Vector, y: tp.Vector):
    s = tp.avg(x * y)
    square = s * s
    norm = tp.sqrt(square)
    u = s / norm
    return tp.avg((u * y) ** 2)


def beside_zero(x: tp.Vector, y: tp.Vector):
    c = tp.avg(x * y)
    u = tp.sign(c)
    w = u**2 - 1
    return tp.avg(tp.abs(w * y) + y**2)


def root_of_zero(x: tp.Vector, y: tp.Vector):
    z = tp.avg(x * y) * tp.tanh(y)
    size = tp.sqrt(tp.abs(z))
    side = tp.sign(z)
    return tp.avg(y**2 * tp.cos(side * size))


def on_one_side(x: tp.Vector, W: tp.Matrix):
    b = x + 0.5
    h = W @ b
    s = tp.sqrt(tp.n) * tp.avg(h * h)
    return tp.avg(tp.step(s) * b)


#: limits, by hand: sign² is 1, sign(c)² − 1 is 0, cos(√|z|) is cos 0, and √n avg(h²) is positive
LIMITS = {squared_sign: 1.0, of_norms: 1.0, beside_zero: 1.0, root_of_zero: 1.0, on_one_side: 0.5}


@pytest.mark.parametrize("function", LIMITS)
def test_what_has_a_limit_without_names_has_it_with_them(function):
    program = tp.program(function)
    number = tp.derive(program).evaluate()["return"]
    assert number.value == pytest.approx(LIMITS[function], abs=1e-12)
    assert number.variance == pytest.approx(0, abs=1e-12)
    # networks: to a few standard deviations of an average over n neurons, and the square root of |avg(x y)|
    n = 40_000
    runs = [program.run(n=n if function is not on_one_side else 1000, seed=seed)["return"] for seed in range(4)]
    assert np.mean(runs) == pytest.approx(LIMITS[function], abs=0.05)
    assert abs(np.mean(runs) - LIMITS[function] / 2) > 0.1


def sign_itself(s, y):
    w = tp.sign(s)
    return tp.avg(w * y**2)


def cubed(s, y):
    w = tp.sign(s)
    z = w * y
    return tp.avg(z**3 * y)


def shifted_square(s, y):
    w = tp.step(s)
    z = (w + 1) * y
    return tp.avg(z**2)


def square_of_a_root(s, y):
    r = tp.sqrt(s)
    return tp.avg(r * r * y + y)


def multiplied_by_a_matrix(s, y):
    return tp.sign(s) + y


REFUSED = [sign_itself, cubed, shifted_square, square_of_a_root, multiplied_by_a_matrix]


@pytest.mark.parametrize("function", REFUSED)
def test_what_has_none_in_any_words_is_refused_by_its_name(function):
    def program(x: tp.Vector, y: tp.Vector):
        return function(tp.avg(x * y), y)

    with pytest.raises(tp.NoLimitError, match=r"instruction \d+ `(w|r|return|_\d+)`.*(jump|root)"):
        tp.derive(tp.program(program))


def test_kernels_and_training_are_asked_alike():
    """With step(a) for a = avg(e²) − 1 nothing is left where gelu(avg sin) → 0 multiplies it."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], e: tp.Vector, W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        a = tp.avg(e**2) - 1
        side = tp.step(a)
        gone = tp.avg(tp.sin(W @ x))
        h = side * gone * x
        return v * (tp.relu(x) + h)

    X = np.array([[0.6, 0.8]])
    assert tp.derive(network, tp.Kernels()).evaluate(X).nngp.item() == pytest.approx(0.5)

    @tp.network
    def stays(ξ: tp.Input["d"], U: tp.Vector["d"], e: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        a = tp.avg(e**2) - 1
        side = tp.step(a)
        return v * (tp.relu(x) + side * x)

    with pytest.raises(tp.TplimitsError, match="jump"):
        tp.derive(stays, tp.Kernels()).evaluate(X)


def test_a_jump_at_the_scale_of_a_fluctuation_is_a_coin():
    """s = log avg(y²) tends to 0 like √2 N/√n: step(√n s) is 0 or 1, each with probability one half."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.log(2 * tp.avg(x * x)) + tp.log(3 * tp.avg(y * y)) - tp.log(6 * tp.avg(x * x))
        return tp.step(tp.sqrt(tp.n) * s)

    number = tp.derive(program).evaluate()["return"]
    assert (number.value, number.variance) == (pytest.approx(0.5), pytest.approx(0.25))
    runs = np.array([program.run(n=200, seed=seed)["return"] for seed in range(400)])
    assert abs(runs.mean() - 0.5) < 4 * math.sqrt(0.25 / 400)


def test_what_takes_itself_away_outside_of_its_domain_stays_refused():
    """√y − √y is no number where y < 0: nobody reads √y any more, which is computed nonetheless."""

    @tp.program
    def subject(x: tp.Vector, y: tp.Vector):
        domain = tp.sqrt(y)
        sign = tp.sign(tp.avg(x))
        left = domain - domain
        return tp.avg((sign * (x + left)) ** 2)

    with pytest.raises(tp.NoLimitError, match=r"\|domain⟩ = sqrt\(y\) has no finite second moment"):
        tp.derive(subject)


def test_what_nobody_reads_has_no_say():
    @tp.program
    def subject(x: tp.Vector):
        sign = tp.sign(tp.avg(x))
        twice = 2 * sign  # noqa: F841 - the point
        return tp.avg(x**2)

    assert tp.derive(subject).evaluate()["return"].value == 1
