"""A Python function, traced once; what cannot be traced is refused where it stands."""

import functools
import math
import statistics
from fractions import Fraction
from math import tanh as tanh_of_math

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.nodes.laws import Law

LAW = tp.init(mean=0, std=2)


def kinds(program):
    return [type(s) for s in program]


def test_the_examples_of_the_public_face():
    @tp.program
    def tied(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        z = W.T @ tp.tanh(h)
        return tp.avg(x * z)

    assert kinds(tied) == [InitialMatrix, InitialVector, MatMul, OuterNonlin, MatMul, OuterNonlin, Avg]
    assert tied[4].transposed and not tied[2].transposed

    @tp.program
    def outer(u: tp.Vector, v: tp.Vector):
        β = tp.neuron("β")
        y = tp.avg(tp.tanh(u * v[β]) * v[β], over=β)
        return tp.avg(u * y)

    assert [s.order for s in outer if isinstance(s, OuterNonlin)] == [2, 1]

    @tp.program
    def attention(WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, x: tp.Vector["token"]):
        q, k, v = WQ @ x, (WK @ x).rename(token="key"), (WV @ x).rename(token="key")
        A = tp.softmax(tp.avg(q * k), over="key")
        return tp.sum(A * v, over="key")

    assert attention[attention.position("A")].axes == ("token", "key")
    assert isinstance(attention[attention.position("A")], ScalarNonlin)
    assert attention[attention.position("return")].axes == ("token",)
    assert attention[attention.position("return")].width == "n"


# -- initial data ---------------------------------------------------------------------------------


def test_matrices():
    @tp.program
    def family(
        W: tp.Matrix, U: tp.Matrix["k", "n"], H: tp.Matrix["n", "k", "head"], x: tp.Vector, y: tp.Vector["k", "token"]
    ):
        return U @ (W @ x) + tp.avg(x), H @ y

    assert (family[0].rows, family[0].columns, family[0].axes) == ("n", "n", ())
    assert (family[1].rows, family[1].columns) == ("k", "n")
    assert (family[2].rows, family[2].columns, family[2].axes) == ("n", "k", ("head",))
    assert family.widths == ("n", "k")
    assert (family[4].over, family[4].axes) == ("k", ("token",))
    assert family[family.position("return[1]")].axes == ("head", "token")


def test_a_width_is_a_width_throughout_the_signature_whatever_the_order():
    @tp.program
    def late(y: tp.Vector["k"], U: tp.Matrix["n", "k"]):
        return U @ y

    assert late[0].over == "k" and late[0].axes == ()


def test_laws_of_initial_data():
    @tp.program
    def laws(
        x: tp.Vector,
        g: tp.Vector = 1,
        h: tp.Vector = LAW,
        c: tp.Vector["k", "token"] = 0.5,
        b: tp.Scalar = 3,
        a: tp.Scalar["d"] = 0.1,
        U: tp.Matrix["k", "n"] = None,
    ):
        return tp.avg(x + g + h), tp.avg(c) + b + a

    laws_ = [s.law for s in laws if isinstance(s, InitialVector)]
    assert laws_ == [Law(0, 1), Law(1, 0), Law(0, 2), Law(sympy.Rational(1, 2), 0)]
    scalars = [s for s in laws if isinstance(s, InitialScalar)]
    assert [s.value for s in scalars] == [3, sympy.Rational(0.1)]
    assert scalars[1].axes == ("d",)


def test_keyword_only_arguments_without_annotation_are_constants():
    @tp.program
    def scaled(x: tp.Vector, *, γ, τ0=0.5, b: tp.Scalar):
        return γ * x / τ0 + b

    assert dict(scaled.constants) == {"γ": None, "τ0": sympy.Rational(1, 2)}
    assert [scaled[p].name for p in scaled.arguments] == ["x", "b"]


def test_floats_are_their_exact_binary_rationals():
    @tp.program
    def tenth(x: tp.Vector):
        return 0.1 * x

    assert sympy.Rational(3602879701896397, 36028797018963968) in tenth[1].body.args


def test_partials_and_objects_can_be_traced():
    def scaled(x: tp.Vector, factor=2):
        h = tp.tanh(x)
        return factor * h

    class Callable:
        def __call__(self, x: tp.Vector):
            h = tp.tanh(x)
            return 2 * h

    partial = tp.program(functools.partial(scaled, factor=3))
    assert "h" in partial.names and dict(partial.constants) == {"factor": 3}
    assert "h" in tp.program(Callable()).names


def test_annotations_may_be_strings():
    space = {"tp": tp}
    exec("from __future__ import annotations\ndef f(W: tp.Matrix['k', 'n'], x: tp.Vector): return W @ x", space)
    assert tp.program(space["f"]).widths == ("n", "k")


# -- equal subexpressions, inlining -----------------------------------------------------------


def test_equal_subexpressions_are_one_instruction():
    @tp.program
    def twice(W: tp.Matrix, x: tp.Vector):
        a = tp.tanh(W @ x)
        b = tp.tanh(W @ x)
        return tp.avg(a * b) + tp.avg(b * a)

    assert [s.name for s in twice] == ["W", "x", "_3", "a", "_5", "_6", "return"]
    assert twice.position("b") == twice.position("a")


def test_equal_sums_over_an_axis_are_one_instruction():
    @tp.program
    def sums(W: tp.Matrix, x: tp.Vector["token"]):
        return W @ tp.sum(tp.tanh(x), over="token") - W @ tp.sum(tp.tanh(x), over="token")

    assert kinds(sums) == [InitialMatrix, InitialVector, OuterNonlin, MatMul, OuterNonlin]
    assert sums[4].body == 0


def test_the_order_of_averaging_does_not_matter():
    @tp.program
    def symmetric(u: tp.Vector, v: tp.Vector, w: tp.Vector):
        β, γ = tp.neuron("β"), tp.neuron("γ")
        a = tp.avg(tp.tanh(u * v[β] + w[γ]), over=(β, γ))
        b = tp.avg(tp.tanh(u * v[γ] + w[β]), over=(β, γ))
        c = tp.avg(tp.tanh(u * v[β] + w[γ]), over=(γ, β))
        return a + b + c

    assert symmetric.position("a") == symmetric.position("b") == symmetric.position("c")


def test_a_shaped_relu_is_one_map():
    @tp.program
    def shaped(x: tp.Vector, *, c_plus, c_minus):
        s, t = 1 + c_plus / tp.sqrt(tp.n), 1 + c_minus / tp.sqrt(tp.n)
        return s * tp.relu(x) - t * tp.relu(-x)

    assert kinds(shaped) == [InitialVector, OuterNonlin]
    assert shaped[1].operands == (0,)


def test_long_maps_without_names_are_cut():
    def act(x, y):
        return tp.tanh(x) + tp.relu(x * y)

    @tp.program
    def long(x: tp.Vector, y: tp.Vector):
        return functools.reduce(lambda h, _: act(h, y), range(40), x)

    assert 3 < len(long) < 20


# -- tracing limits -------------------------------------------------------------------------------


def use_if(x: tp.Vector):
    return x if x else -x


def use_less(x: tp.Vector):
    return tp.where(x < 0, x, 0)


def use_max(x: tp.Vector):
    return max(x, -x)


def use_sorted(x: tp.Vector):
    return sorted([x, -x])[0]


def use_equal(x: tp.Vector):
    return x if x == 0 else -x


def use_in(x: tp.Vector):
    return x if 1 in x else -x


def use_math(x: tp.Vector):
    return math.tanh(x)


def use_math_pow(x: tp.Vector):
    return math.pow(x, 2)


def use_float(x: tp.Vector):
    return float(x) * x


def use_int(x: tp.Vector):
    return int(x) * x


def use_numpy(x: tp.Vector):
    return np.tanh(x)


def use_square(x: tp.Vector):
    return np.square(x)


def use_numpy_max(x: tp.Vector):
    return np.maximum(x, 0)


def use_log1p(x: tp.Vector):
    return np.log1p(x)


def use_numpy_sum(x: tp.Vector):
    return np.sum(x)


def use_numpy_mean(x: tp.Vector):
    return np.mean(x)


def use_dot(x: tp.Vector):
    return np.dot(x, x)


def use_asarray(x: tp.Vector):
    return np.asarray(x) * x


def use_len(x: tp.Vector):
    return x / len(x)


def use_array(x: tp.Vector):
    return x * np.array([1.0, 2.0])


def use_array_left(x: tp.Vector):
    return np.array([1.0, 2.0]) * x


def use_list(x: tp.Vector):
    return tp.maximum(x, [1, 2])


def use_iteration(x: tp.Vector):
    return sum(y for y in x)


def use_number_index(x: tp.Vector):
    return x[0]


def use_slice(x: tp.Vector):
    return x[1:]


def use_matmul(x: tp.Vector):
    return x @ x


def use_array_matmul(x: tp.Vector):
    return np.eye(2) @ x


def use_transpose(x: tp.Vector):
    return x.T @ x


def use_modulo(x: tp.Vector):
    return x % 2


def use_floor(x: tp.Vector):
    return math.floor(x)


def use_round(x: tp.Vector):
    return round(x)


def use_assignment(x: tp.Vector):
    x[0] = 1
    return x


def use_format(x: tp.Vector):
    return tp.tanh(x).named(f"{x:.2f}")


def use_attribute(x: tp.Vector):
    return x * x.shape[0]


def use_method(x: tp.Vector):
    return x.mean()


def use_complex(x: tp.Vector):
    return 1j * x


def use_nan(x: tp.Vector):
    return math.nan * x


def use_infinity(x: tp.Vector):
    return x + np.inf


def use_zero_division(x: tp.Vector):
    return x / 0


def use_log_of_zero(x: tp.Vector):
    return x * tp.log(0)


def use_root_of_negative(x: tp.Vector):
    return x * tp.sqrt(-2)


def use_none(x: tp.Vector):
    return x * None


def use_string(x: tp.Vector):
    return tp.tanh("x") * x


def use_sympy(x: tp.Vector):
    return sympy.tanh(x)


def use_foreign_symbol(x: tp.Vector):
    return sympy.Symbol("q", real=True) * x


def use_irrational_power(x: tp.Vector):
    return x * tp.n ** tp.sqrt(2)


def use_entry_as_exponent(x: tp.Vector):
    return tp.n**x


def use_width_as_exponent(x: tp.Vector):
    return x**tp.n


def use_bits(x: tp.Vector):
    return 1 | ~x


def use_shift(x: tp.Vector):
    return x << 1


def use_neuron_as_a_number(x: tp.Vector):
    return x * (tp.neuron("β") + 1)


def use_statistics(x: tp.Vector):
    return statistics.mean([x, x])


def use_call(x: tp.Vector):
    return x(1)


def use_stack(x: tp.Vector):
    return np.stack([x, x])


def use_numpy_less(x: tp.Vector):
    return np.float64(2) < x


def use_norm(x: tp.Vector):
    return np.linalg.norm(x)


def use_arcsin(x: tp.Vector):
    return np.arcsin(x)


def use_imported_tanh(x: tp.Vector):
    return tanh_of_math(x)


def use_endless_recursion(x: tp.Vector):
    return use_endless_recursion(x) + 1


def use_index_beyond_a_size(x: tp.Vector["t"]):
    return tp.constant([1, 2], axes="t") * x + x.sel(t=2)


def use_named_matrix(W: tp.Matrix, x: tp.Vector):
    return W.named("V") @ x


TRAPS = [
    (use_if, "used as a condition", "tp.where"),
    (use_less, "a comparison of traced values", "tp.step(x - y)"),
    (use_max, "a comparison of traced values", "tp.maximum"),
    (use_sorted, "a comparison of traced values", "tp.minimum"),
    (use_equal, "`==` or `!=`", "tp.where"),
    (use_in, "`in` on a traced value", "tp.where"),
    (use_math, "math.tanh of a traced value", "use tp.tanh"),
    (use_math_pow, "math.pow of a traced value", "use x ** 2"),
    (use_float, "used as a number", "tp.tanh"),
    (use_int, "used as a number", "tp.tanh"),
    (use_numpy, "np.tanh on a traced value", "use tp.tanh"),
    (use_square, "np.square on a traced value", "use x ** 2"),
    (use_numpy_max, "np.maximum on a traced value", "use tp.maximum"),
    (use_log1p, "np.log1p on a traced value", "tp.elementwise"),
    (use_numpy_sum, "np.sum on a traced value", "use tp.sum(x, over="),
    (use_numpy_mean, "np.mean on a traced value", "use tp.avg(x)"),
    (use_dot, "np.dot on a traced value", "use tp.avg(x * y)"),
    (use_asarray, "used as an array", "use tp functions"),
    (use_len, "len() of a traced value", 'tp.size("token")'),
    (use_array, "a bare array", "tp.constant(array, axes="),
    (use_array_left, "a bare array", "tp.constant(array, axes="),
    (use_list, "tp.maximum of a bare array", "tp.constant(array, axes="),
    (use_iteration, "iteration over a traced value", "x.sel(token=i)"),
    (use_number_index, "`[0]` on a vector over `n`", ".sel(token=0)"),
    (use_slice, "on a vector over `n`", 'tp.neuron("β")'),
    (use_matmul, "`@` on a vector over `n`", "tp.avg(x * y)"),
    (use_array_matmul, "`@` between an array and a value", "tp.constant"),
    (use_transpose, ".T of a vector over `n`", "only a Matrix has a transpose"),
    (use_modulo, "//, % or rounding", "use / or a function of tp"),
    (use_floor, "//, % or rounding", "use / or a function of tp"),
    (use_round, "//, % or rounding", "use / or a function of tp"),
    (use_assignment, "an assignment to entries", "tp.where"),
    (use_format, "formatted as a number", "leave the format out"),
    (use_attribute, "has no attribute 'shape'", "all else is a tp function"),
    (use_method, "has no attribute 'mean'", "all else is a tp function"),
    (use_complex, "the complex number 1j", "programs are real"),
    (use_nan, "the constant nan", "finite numbers"),
    (use_infinity, "the constant inf", "finite numbers"),
    (use_zero_division, "not finite", "a division by zero"),
    (use_log_of_zero, "the constant zoo", "use finite real numbers"),
    (use_root_of_negative, "complex number", "use finite real numbers"),
    (use_none, "a value of type NoneType", "use numbers, tp.constant"),
    (use_string, "tp.tanh: str is not a number", "it takes values of the program"),
    (use_sympy, "sympy.tanh of a traced value", "use tp.tanh"),
    (use_foreign_symbol, "the symbol `q`", "declare it keyword-only in the signature: `*, q`"),
    (use_irrational_power, "`sqrt(2)` as an exponent", "widths stand to rational powers"),
    (use_entry_as_exponent, "a value of the program as an exponent", "widths stand to rational powers"),
    (use_width_as_exponent, "`n` as an exponent", "widths stand to rational powers"),
    (use_bits, "`~`", "tp.where(c, x, y)"),
    (use_shift, "`<<`", "tp.where(c, x, y)"),
    (use_neuron_as_a_number, "a neuron index used as a value", "it indexes vectors, x[β]"),
    (use_statistics, "do not do (can't convert type 'Value'", "all else is a tp function"),
    (use_call, "'Value' object is not callable", "all else is a tp function"),
    (use_stack, "np.stack on a traced value", 'a finite axis instead: x: tp.Vector["token"]'),
    (use_numpy_less, "np.less on a traced value", "tp.where"),
    (use_norm, "np.linalg.norm on a traced value", "use tp.sqrt(tp.avg(x ** 2))"),
    (use_arcsin, "np.arcsin on a traced value", "use tp.elementwise(sympy.asin)"),
    (use_imported_tanh, "math.tanh of a traced value", "use tp.tanh"),
    (use_endless_recursion, "maximum recursion depth", "a function that calls itself needs an end"),
    (use_index_beyond_a_size, "sel(t=2)", "the indices of `t` go from 0 to 1"),
    (use_named_matrix, "'MatrixValue' object has no attribute 'named'", "only its products have .named"),
]


@pytest.mark.parametrize(("body", "found", "repair"), TRAPS, ids=[t[0].__name__ for t in TRAPS])
def test_what_cannot_be_traced_names_the_line_and_the_repair(body, found, repair):
    with pytest.raises(ProgramError) as caught:
        tp.program(body)
    message = str(caught.value)
    assert found in message and repair in message
    assert "test_trace.py, line " in message
    assert "`return " in message or "`x[0] = 1`" in message


def test_the_builtin_sum_works():
    @tp.program
    def total(x: tp.Vector, y: tp.Vector):
        return sum([x, y, 1])

    assert total.run(n=2, x=[1, 2], y=[3, 4])["return"].tolist() == [5, 7]


def test_abs_pow_and_signs_are_python_operators():
    @tp.program
    def operators(x: tp.Vector):
        return abs(-x) ** 2 + 2**x - (+x) + pow(x, 2)

    assert operators.run(n=1, x=[3.0])["return"] == [9 + 8 - 3 + 9]


def test_numpy_numbers_on_either_side():
    @tp.program
    def numbers(x: tp.Vector):
        y = np.float64(2) * x + np.int64(1)
        return (np.float32(0.5) - y) / np.float64(4) + np.float64(1) / x + np.float64(2) ** x

    assert numbers.run(n=1, x=[2.0])["return"] == pytest.approx((0.5 - 5) / 4 + 0.5 + 4)


def test_comparison_of_constants_is_refused():
    with pytest.raises(ProgramError, match=r"line \d+: `if γ > 0:`.*a comparison with a symbolic constant.*tp\.where"):

        @tp.program
        def compared(x: tp.Vector, *, γ):
            if γ > 0:
                return x
            return -x


@pytest.mark.parametrize(("function", "words"), [(math.sqrt, "tp.sqrt"), (np.sqrt, "np.sqrt of `γ`; use tp.sqrt")])
def test_numerical_functions_of_constants_are_refused(function, words):
    with pytest.raises(ProgramError, match=words):

        @tp.program
        def rooted(x: tp.Vector, *, γ):
            return function(γ) * x


def test_a_symbol_made_by_hand_for_a_constant_is_refused():
    with pytest.raises(ProgramError, match="a symbol `γ` made by hand; use the argument itself"):

        @tp.program
        def by_hand(x: tp.Vector, *, γ):
            return sympy.Symbol("γ") * x


def test_values_from_another_trace():
    leaked = []

    @tp.program
    def first(W: tp.Matrix, x: tp.Vector):
        leaked.extend([W, x])
        return W @ x

    W, x = leaked
    uses = {
        "sum": lambda W2, y: x + y,
        "product": lambda W2, y: W @ y,
        "their matrix and vector": lambda W2, y: W @ x,
        "our matrix": lambda W2, y: W2 @ x,
        "map": lambda W2, y: tp.tanh(x),
        "average": lambda W2, y: tp.avg(x),
        "sum over an axis": lambda W2, y: tp.sum(x, over="t"),
        "selection": lambda W2, y: x.sel(t=0),
        "renaming": lambda W2, y: x.rename(t="s"),
        "neuron": lambda W2, y: x[tp.neuron("β")],
        "name": lambda W2, y: x.named("z"),
        "returned": lambda W2, y: x,
    }
    for use in uses.values():

        def second(W2: tp.Matrix, y: tp.Vector):
            return use(W2, y)  # noqa: B023

        with pytest.raises(ProgramError, match="a value from another trace"):
            tp.program(second)

    with pytest.raises(ProgramError, match="a value from another trace"):
        tp.tanh(x)


# -- ill-formed signatures and results --------------------------------------------------------


def test_only_functions_are_traced():
    with pytest.raises(ProgramError, match="got a value of type int; it decorates a function"):
        tp.program(3)


def test_unknown_annotations_are_refused():
    with pytest.raises(ProgramError, match="the argument `x` of `plain` with no annotation; annotate it"):

        @tp.program
        def plain(x):
            return x

    with pytest.raises(ProgramError, match="the argument `x` of `typed` with the annotation <class 'float'>"):

        @tp.program
        def typed(x: float):
            return x

    with pytest.raises(ProgramError, match=r"the argument \*x of `starred`; name every argument"):

        @tp.program
        def starred(*x: tp.Vector):
            return x[0]

    with pytest.raises(ProgramError, match="an annotation cannot be read"):
        space = {}
        exec("from __future__ import annotations\ndef f(x: tpp.Vector): return x", space)
        tp.program(space["f"])


def test_ill_formed_signatures_are_refused():
    def scalar_on_width(U: tp.Matrix["k", "n"], s: tp.Scalar["k"]):
        return s

    def two_widths(U: tp.Matrix["k", "n"], v: tp.Vector["k", "n"]):
        return v

    def default_matrix(W: tp.Matrix = 1):
        return W

    def one_width(W: tp.Matrix["k"]):
        return W

    def constant_width(U: tp.Matrix["k", "n"], *, k):
        return k

    def constant_axis(x: tp.Vector["token"], *, token):
        return token * x

    def constant_n(x: tp.Vector, *, n):
        return n * x

    cases = {
        scalar_on_width: "the scalar `s` over the width `k`; a scalar has finite axes only",
        two_widths: "the vector `v` over two widths",
        default_matrix: "a default for the matrix `W`; its entries are iid",
        one_width: "a matrix has two widths",
        constant_width: "the constant `k`; this is the name of a width",
        constant_axis: "the constant `token`; this is the name of a finite axis",
        constant_n: "the constant `n`; this is the name of a width",
    }
    for function, words in cases.items():
        with pytest.raises(ProgramError, match=words):
            tp.program(function)


def test_a_finite_axis_with_the_name_of_a_width_or_constant_is_refused():
    with pytest.raises(ProgramError, match="`k` used as a finite axis; `k` is a width of this program"):

        @tp.program
        def axis_width(U: tp.Matrix["k", "n"], x: tp.Vector["token"]):
            return x.rename(token="k")

    with pytest.raises(ProgramError, match="`γ` used as a finite axis; `γ` is a constant"):

        @tp.program
        def axis_constant(x: tp.Vector["token"], *, γ):
            return x.rename(token="γ")


def test_what_may_be_returned():
    def nothing(x: tp.Vector):
        tp.avg(x)

    def empty(x: tp.Vector):
        return ()

    def text(x: tp.Vector):
        return "x"

    def matrix(W: tp.Matrix):
        return W

    def free(x: tp.Vector):
        return x[tp.neuron("β")]

    cases = {
        nothing: "`nothing` returns nothing; return a vector or a scalar",
        empty: "`empty` returns nothing",
        text: "`text` returns a value of type str",
        matrix: "`matrix` returns a matrix n×n",
        free: r"`free` returns a value with the free neuron index β; average it by tp\.avg\(…, over=…\)",
    }
    for function, words in cases.items():
        with pytest.raises(ProgramError, match=rf"test_trace\.py, line \d+: {words}"):
            tp.program(function)


def test_a_number_may_be_returned():
    @tp.program
    def constant(x: tp.Vector, *, γ):
        return 2, γ / tp.sqrt(tp.n), np.int64(3), Fraction(1, 3), np.float32(0.5)

    found = constant.run(n=4, γ=3)
    assert [found[f"return[{i}]"] for i in range(5)] == [2, 1.5, 3, 1 / 3, 0.5]
    for odd in (True, np.bool_(True), 1j):
        with pytest.raises(ProgramError, match="returns a value of type"):
            tp.program(lambda *, γ: odd)  # noqa: B023


def test_functions_of_math_are_known_without_source():
    space = {"tp": tp}
    exec("import math as m\ndef f(x: tp.Vector):\n    y = 2 * x\n    return m.tanh(y)", space)
    with pytest.raises(ProgramError, match=r"<string>, line 4: math\.tanh of a traced value; use tp.tanh"):
        tp.program(space["f"])


def test_an_index_beyond_a_size_that_is_known_later_is_told():
    with pytest.raises(ProgramError, match=r"x\.sel\(t=5\).*index 5 of the axis `t`, which has 2 entries; make the"):

        @tp.program
        def selected(x: tp.Vector["t"]):
            y = x.sel(t=5)
            return y * tp.constant([1, 2], axes="t")

    with pytest.raises(ProgramError, match=r"index 5 of the axis `t`, which has 2 entries; make the axis longer"):

        @tp.program
        def taken(x: tp.Vector["t"]):
            y = x.take(t=[0, 5], axes="s")
            return y * tp.constant([1, 2], axes="t")


def test_errors_of_the_traced_function_itself_pass():
    with pytest.raises(KeyError):

        @tp.program
        def broken(x: tp.Vector):
            return {}["missing"] * x


def test_a_failed_trace_leaves_nothing_behind():
    with pytest.raises(ProgramError):
        tp.program(lambda x: x)

    @tp.program
    def fine(x: tp.Vector):
        return x

    assert len(fine) == 1
    with pytest.raises(ProgramError, match="outside a program"):
        fine()
