"""What has no limit, or none that is known, is refused with line, hypothesis and term."""

import pytest
import sympy

import tplimits as tp


def refused(function, **bound):
    program = tp.program(function)
    with pytest.raises(tp.NoLimitError) as error:
        tp.derive(program.bind(**bound) if bound else program)
    message = str(error.value)
    assert "hypothesis" in message
    assert "test_refusals.py, line" in message
    return message


def test_root_n_times_a_mean_that_is_not_zero():
    message = refused(lambda_mean)
    assert "⟨1|" in message and "= 1" in message and "sqrt(n)" in message


def lambda_mean(x: tp.Vector):
    return tp.avg(x * x) * tp.sqrt(tp.n)


def test_the_mean_is_named_before_the_covariance():
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.relu(W @ x)) * tp.sqrt(tp.n)

    assert "non-zero mean" in refused(program)


def test_the_mean_of_one_entry_is_named_along_finite_axes():
    """Queries and keys of one matrix: the logit of a token with itself has the mean 1."""

    def program(W: tp.Matrix, x: tp.Vector["token"]):
        q = W @ x
        k = (W @ x).rename(token="key")
        return tp.avg(tp.sum(tp.softmax(tp.sqrt(tp.n) * tp.avg(q * k), over="key") * k, over="key") ** 2)

    message = refused(program, token=2)
    assert "non-zero mean" in message and "[token=0,key=0]⟩ = 1" in message


def test_higher_powers_of_n():
    def program(u: tp.Vector, v: tp.Vector):
        return tp.avg(u * v) * tp.n

    assert "sqrt(n)" in refused(program)


def test_n_inside_a_function():
    def program(x: tp.Vector):
        return tp.avg(tp.tanh(tp.n * x) * x)

    assert "grows with n" in refused(program)


@pytest.mark.parametrize(
    "function",
    [
        lambda u: 1 / u,
        lambda u: 1 / (u**2 - 1),
        lambda u: u**-2,
        lambda u: 1 / sympy.Abs(u),
        lambda u: sympy.tan(u),
        lambda u: sympy.exp(u**4),
        lambda u: sympy.exp(u**3),
        lambda u: sympy.exp(u**2 / 4),
        lambda u: sympy.exp(sympy.exp(u)),
        lambda u: sympy.log(u),
        lambda u: sympy.sqrt(u),
        lambda u: 1 / sympy.Max(u, 0),
    ],
)
def test_no_second_moment(function):
    def program(x: tp.Vector):
        return tp.avg(tp.elementwise(function)(x))

    assert "second moment" in refused(program)


@pytest.mark.parametrize(
    "function",
    [
        lambda u: 1 / (1 + u**2),
        lambda u: sympy.exp(u**2 / 5),
        lambda u: sympy.exp(-(u**4)),
        lambda u: sympy.exp(-u) / (sympy.exp(u) + sympy.exp(-u)),
        lambda u: sympy.log(1 + sympy.exp(u)),
        lambda u: u / sympy.sqrt(1 + u**2),
        lambda u: 1 / (2 + sympy.sin(u)),
        lambda u: sympy.Abs(u) ** sympy.Rational(1, 3),
        lambda u: sympy.log(sympy.Abs(u)),
        lambda u: sympy.exp(sympy.Min(u, 1) ** 2 * sympy.Rational(1, 9)),
        lambda u: sympy.Piecewise((sympy.exp(u), u > 0), (0, True)),
    ],
)
def test_finite_second_moments_are_not_refused(function):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.elementwise(function)(x))

    tp.derive(program)


@pytest.mark.parametrize(
    "function",
    [lambda u, v: 1 / (u**2 + v**2), lambda u, v: u / sympy.tanh(u) ** 2 + v, lambda u, v: sympy.sin(u) / u**2 + v],
)
def test_undecided_moments_speak_up_when_a_number_is_asked_for(function):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.elementwise(function)(x, y))

    limit = tp.derive(program)
    with pytest.raises(tp.EvaluationError, match="moment not established"):
        limit.evaluate()


def test_functions_beyond_pseudo_lipschitz_carry_a_remark():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.exp(x))

    assert any("not pseudo-Lipschitz" in r for s in tp.derive(program).steps for r in s.remarks)


def test_jumps_at_the_limit_of_a_scalar():
    def of_scalar(x: tp.Vector):
        return tp.sign(tp.avg(x))

    def of_product(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.step(tp.avg(x) * y))

    def of_vector(W: tp.Matrix, x: tp.Vector):
        β = tp.neuron("β")
        return tp.avg(tp.sign(tp.avg(x[β] * (W @ x), over=β)))

    assert "jump" in refused(of_scalar)
    assert "jump" in refused(of_product)
    assert "jump" in refused(of_vector)


def test_division_by_a_scalar_that_vanishes():
    def program(x: tp.Vector):
        return tp.avg(x * x / tp.avg(x))

    assert "not finite at the limit" in refused(program)


def test_unbound_sizes_are_a_program_error():
    @tp.program
    def program(x: tp.Vector["token"]):
        return tp.avg(tp.sum(x, over="token"))

    with pytest.raises(tp.ProgramError, match=r"bind\(token=3\)"):
        tp.derive(program)


def test_what_is_no_program_or_no_regime():
    with pytest.raises(tp.ProgramError, match="takes a program"):
        tp.derive(lambda x: x)

    @tp.program
    def program(x: tp.Vector):
        return x

    with pytest.raises(tp.ProgramError, match="regime"):
        tp.derive(program, "width")
    with pytest.raises(tp.ProgramError, match="finite axes stay finite"):
        tp.derive(program, tp.Width(infinite=("head",)))


@pytest.mark.parametrize("function", [lambda g: 1 / g, sympy.tan, lambda g: g * sympy.exp(g**4)])
def test_an_odd_function_without_a_mean_is_not_zero_on_average(function):
    def program(x: tp.Vector):
        return tp.avg(x * x) * tp.expect(function)

    assert "tp.expect of" in refused(program)


def test_a_doubtful_constant_mean_has_no_number():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(x * x) * tp.expect(lambda g: sympy.sin(g) / g**2)

    with pytest.raises(tp.EvaluationError, match=r"moment not established: tp\.expect of"):
        tp.derive(program).evaluate()


def test_the_root_of_a_mean_that_vanishes():
    def program(x: tp.Vector):
        return tp.sqrt(tp.avg(x))

    assert "under the root" in refused(program)

    @tp.program
    def real(x: tp.Vector):
        return tp.sqrt(tp.avg(x) ** 2), tp.sqrt(tp.avg(tp.abs(x)))

    limit = tp.derive(real)
    assert limit.scalar("return[0]") == 0
    assert sympy.simplify(limit.scalar("return[1]") - (2 / sympy.pi) ** sympy.Rational(1, 4)) == 0


def test_a_mean_that_may_vanish_is_not_called_different_from_zero():
    def program(x: tp.Vector):  # zero by Stein's lemma, which is not looked for here
        return tp.avg(x * tp.tanh(x) - tp.expect(lambda g: 1 - tp.tanh(g) ** 2)) * tp.sqrt(tp.n)

    assert "not seen to vanish" in refused(program)


def test_a_jump_beside_an_open_mean_is_asked_where_no_variable_of_its_own_is_added():
    """step(h + m) jumps where h has a density; that of step(x m + m) depends on m, not known here."""

    @tp.program
    def jumps(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        m = tp.avg(tp.tanh(h + 1) * tp.exp(tp.sin(h)))
        return tp.avg(tp.step(h + m)), tp.avg(tp.step(m - h)), tp.avg(tp.step(x * m + m))

    state = tp.derive(jumps).state
    assert [state.label(key) for _, _, _, key in state.pending] == ["_10"]


def test_products_that_no_variable_can_cancel_are_asked_nothing():
    @tp.program
    def jumps(W: tp.Matrix, V: tp.Matrix, x: tp.Vector):
        h, g = W @ x, V @ x
        m = tp.avg(tp.tanh(h + 1) * tp.exp(tp.sin(h)))
        return tp.avg(tp.step(3 * h * (g - m))), tp.avg(tp.step((h + m) * m * x))

    state = tp.derive(jumps).state
    assert [state.label(key) for _, _, _, key in state.pending] == ["_10"]


def test_a_sum_over_an_axis_is_told_by_the_name_of_the_axis():
    @tp.network
    def network(ξ: tp.Input["pos", "d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        return v * tp.sum(1 / h, over="pos")

    with pytest.raises(tp.NoLimitError, match=r"pole where h\[pos\] changes sign"):
        tp.derive(network, tp.Kernels()).evaluate([[[1.0], [0.5]]])


def test_a_mean_that_may_vanish_is_not_said_to_diverge():
    """E x tanh x + E tanh² x − 1 = 0 by Stein's lemma, so √n times it has a limit that algebra does not see."""

    @tp.program
    def program(x: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(x * tp.tanh(x) - 1 + tp.tanh(x) ** 2)

    with pytest.raises(
        tp.NoLimitError, match=r"not seen to vanish may diverge: .* unless the means of the term"
    ) as why:
        tp.derive(program)
    assert "so the term" not in str(why.value)
