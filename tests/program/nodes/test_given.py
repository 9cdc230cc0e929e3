"""What is given beside a program is refused where it comes in, by the error of its stage."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import CheckError, EvaluationError, ProgramError, TplimitsError
from tplimits.program.network.loss import error_signal
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import real_array, whole_from, working_executor


@tp.program
def scaled(W: tp.Matrix["k", "n"], x: tp.Vector, s: tp.Scalar, *, c=1):
    h = tp.relu(W @ x)
    return s * c * tp.avg(h * h)


LIMIT = tp.derive(scaled)
EVERYWHERE = [
    ({"seed": -1}, "seed=-1: a seed is a whole number, 0 or more"),
    ({"seed": "a"}, "seed='a': a seed"),
    ({"seed": 1.5}, "seed=1.5: a seed"),
    ({"ratios": 3}, "ratios=3: give names and numbers as in ratios="),
    ({"ratios": {3: 1}}, "3 is not a name"),
    ({"constants": 3}, "constants=3: give names and numbers"),
    ({"constants": {"s": 1}, "s": 2}, "`s` is given twice"),
]


@pytest.mark.parametrize(("options", "words"), EVERYWHERE)
def test_options_of_run_evaluate_and_check(options, words):
    options = {"s": 1, **options} if "constants" not in options else options
    with pytest.raises(EvaluationError, match=words):
        scaled.run(4, **options)
    with pytest.raises(EvaluationError, match=words):
        LIMIT.evaluate(**options)
    with pytest.raises(CheckError, match=words):
        tp.check(LIMIT, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"particles": "a"}, "particles='a': give a whole number, at least 16"),
        ({"particles": math.nan}, "particles=nan: give a whole number"),
        ({"particles": 15}, "particles=15: give a whole number"),
        ({"replicates": "a"}, "replicates='a': give a whole number, at least 2"),
        ({"replicates": 2.5}, r"replicates=2\.5: give a whole number, at least 2"),
        ({"executor": 3}, "executor=3: give an executor"),
        ({"conditioning": 3}, "conditioning=3: give one of the words 'white', 'lazy'"),
        ({"method": 3}, "method=3: give one of the words 'auto', 'exact'"),
        ({"ratios": {"k": "x"}}, "ratios={'k': 'x'}: a ratio of widths is a positive number"),
        ({"c": 1j}, "c=1j: give a finite number"),
    ],
)
@pytest.mark.parametrize("method", ["auto", "particles"])
def test_settings_of_evaluate(method, options, words):
    with pytest.raises(EvaluationError, match=words):
        LIMIT.evaluate(**{"method": method, "s": 1, **options})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "`s` is given a value of type str; it takes an array of numbers"),
        ("3", "`s` is given a value of type str"),
        (None, "`s` is given a value of type NoneType"),
        (1j, "`s` is given complex numbers; programs are real: give the real part"),
        (math.nan, "`s` has NaN or infinite entries"),
        ([[1], [2, 3]], "`s` is given a value of type list"),
    ],
)
def test_given_scalars(value, words):
    for use in (LIMIT.evaluate, lambda s: scaled.run(4, s=s), lambda s: tp.check(LIMIT, s=s, claims={"return": 1})):
        with pytest.raises(EvaluationError, match=words):
            use(s=value)


def test_imaginary_parts_are_not_dropped():
    for array in ([1, 1j], np.array([1, 1j]), np.array([1, 1j], dtype=object)):
        with pytest.raises(EvaluationError, match=r"`x` is given (complex numbers|an array of dtype object)"):
            scaled.run(2, s=1, x=array)


def test_masks_are_not_dropped():
    hidden = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    for value in (hidden, [hidden, [3.0, 4.0]]):
        with pytest.raises(EvaluationError, match="`x` is given a masked array, whose mask would be lost: fill it"):
            real_array("x", value)
    assert real_array("x", hidden.filled(3.0)).tolist() == [1, 3]
    assert real_array("x", np.ma.masked_array([1.0, 2.0], mask=[False, False])).tolist() == [1, 2]


def test_text_and_dates_are_no_numbers():
    """NumPy makes numbers of them: of "1", b"1", of years, of seconds."""
    for value in (
        ["1", "2"],
        [b"1"],
        np.array([1, "2"], dtype=object),
        np.array(["2000"], "M8[Y]"),
        np.ones(2, "m8[s]"),
    ):
        with pytest.raises(EvaluationError, match="it takes an array of numbers"):
            real_array("x", value)


def test_nan_is_a_number_where_it_need_not_be_finite():
    assert np.isnan(real_array("x", [1.0, math.nan], finite=False)).tolist() == [False, True]


def test_numbers_of_every_kind_are_arrays():
    for value in (0.5, Fraction(1, 2), sympy.Rational(1, 2), np.float32(0.5), [[0.5]]):
        assert (real_array("x", value) == 0.5).all()
    assert real_array("x", [True, 2]).tolist() == [1, 2]
    working_executor(None, CheckError)


@pytest.mark.parametrize("value", [range(10**9), [range(10**9)], [[0.0], range(10**12)], [[[range(1 << 24), 1]]]])
def test_numbers_given_one_by_one_have_an_end(value):
    """Counted, not written out: 10⁹ of them would take 32 GB."""
    with pytest.raises(EvaluationError, match="more than 16777216 numbers one by one: give an array"):
        real_array("x", value)


def test_a_list_that_holds_itself_is_no_array():
    circle = []
    circle.append(circle)
    with pytest.raises(EvaluationError, match="`x` is given a value of type list"):
        real_array("x", circle)


def test_ranges_and_lists_of_them_are_arrays():
    assert real_array("x", range(3)).tolist() == [0, 1, 2]
    assert real_array("x", [range(2), (3, 4)]).tolist() == [[0, 1], [3, 4]]


def test_counts_have_an_end():
    for use in (
        lambda: LIMIT.evaluate("particles", s=1, particles=1 << 62),
        lambda: scaled.run(1 << 62, s=1),
        lambda: tp.check(LIMIT, s=1, claims={"return": 1}, draws=10**30),
    ):
        with pytest.raises(TplimitsError, match="whole number"):
            use()


def test_functions_of_users_that_fail_are_led_to():
    signal = error_signal(lambda f: f[10])
    with pytest.raises(EvaluationError, match="error= failed at step 2: IndexError") as found:
        signal(np.ones(3), 2)
    assert isinstance(found.value.__cause__, IndexError)


class Silent(dict):
    """A mapping that does not say what it holds."""

    def __getitem__(self, key):
        raise RuntimeError

    items = __getitem__


class Wordless(int):
    def __repr__(self):
        raise RuntimeError


def test_the_code_of_users_is_refused_in_words():
    with pytest.raises(EvaluationError, match=r"constants=.*give names and numbers"):
        LIMIT.evaluate(constants=Silent(s=1))
    with pytest.raises(ProgramError, match=r"ABCD.*give exponents by name"):
        tp.ABCD(Silent(hidden=1))
    assert str(tp.Adam(eps=Wordless(1))).endswith("eps=a value of type Wordless)")


@pytest.mark.parametrize("claims", [3, {3: 1}, ["return"], "return"])
def test_claims_are_a_mapping(claims):
    with pytest.raises(CheckError, match=r"claims=.*give names and numbers"):
        tp.check(LIMIT, s=1, claims=claims)


def test_widths_that_do_not_fit_are_refused():
    with pytest.raises(CheckError, match="one draw at width 20000000 does not fit into 1 GB; give widths up to 11583,"):
        tp.check(LIMIT, widths=(10**7, 2 * 10**7), draws=8, s=1, claims={"return": 1})


@pytest.mark.parametrize("name", [3, None])
def test_names_are_text(name):
    for ask in (LIMIT.ket, LIMIT.hat, LIMIT.dot, LIMIT.scalar, lambda n: LIMIT.braket(n, "x")):
        with pytest.raises(ProgramError, match=rf"{name} is not a name; names are text"):
            ask(name)
    with pytest.raises(ProgramError, match=f"asked for {name}; names are text"):
        scaled.position(name)


def test_indices_of_axes_are_whole_numbers():
    family = tp.derive(tp.program(rows).bind(token=2))
    assert family.ket("y", token=np.int64(1)) == family.ket("y[token=1]")
    for index in ("a", None, 0.5):
        with pytest.raises(ProgramError, match=f"token={index!r}: the index of an axis is a whole number"):
            family.ket("y", token=index)


def rows(x: tp.Vector["token"]):
    y = 2 * x
    return y


def test_what_does_not_fit_into_memory_is_told(monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(Execution, "run", full)
    with pytest.raises(EvaluationError, match=r"run\(n=4\): the arrays do not fit into memory; give a smaller width"):
        scaled.run(4, s=1)
    with pytest.raises(EvaluationError, match="particles=64: they do not fit into memory; give fewer"):
        LIMIT.evaluate("particles", particles=64, s=1)


@pytest.mark.parametrize(
    ("value", "text"), [(2, "at least 3."), (1 << 41, "at least 3 and below 2^40."), ("x", "at least 3.")]
)
def test_whole_numbers_that_are_too_small_or_beyond_counting(value, text):
    with pytest.raises(EvaluationError) as raised:
        whole_from("steps", value, 3, EvaluationError)
    assert str(raised.value).endswith(f"give a whole number, {text}")
    assert whole_from("steps", 3, 3, EvaluationError) == 3


def test_arrays_without_axes_are_the_numbers_that_they_hold():
    """As files of arrays give them; what they hold is judged as a number is."""
    number, net = np.array(0.25), tp.network(_swept)
    assert tp.SGD(momentum=number) == tp.SGD(momentum=0.25) and hash(tp.Adam(eps=number)) == hash(tp.Adam(eps=0.25))
    assert tp.Clipped(tp.SGD(), number) == tp.Clipped(tp.SGD(), 0.25)
    how = {"error": tp.squared_error([1.0, -1.0]), "steps": 2, "particles": 64, "replicates": 2}
    limit = tp.derive(net, tp.MaximalUpdate(tp.SGD(), weight_decay=number))
    found = limit.evaluate([[1.0], [0.5]], lr=number, c=lambda t: np.array(1.0 + t), **how).f
    assert np.array_equal(found, limit.evaluate([[1.0], [0.5]], lr=0.25, c=lambda t: 1.0 + t, **how).f)
    assert not np.array_equal(found, limit.evaluate([[1.0], [0.5]], lr=0.3, c=lambda t: 1.0 + t, **how).f)
    for wrong in (np.array([0.25]), np.array(True), np.array(np.nan), np.array("1"), np.array(None)):
        with pytest.raises(EvaluationError, match=r"lr=.*: give a finite number"):
            limit.evaluate([[1.0], [0.5]], lr=wrong, **how)


def _swept(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, c=1):
    return np.array(2.0) * v * tp.tanh(c * tp.sum(U * ξ, over="d"))
