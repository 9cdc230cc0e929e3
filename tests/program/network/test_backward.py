"""Backpropagation programs: their instructions, what they are called, and where gradients belong."""

import numpy as np
import pytest
import sympy
from sympy import DiracDelta, Integer

import tplimits as tp
from tplimits.program.files.serial import from_json, to_json
from tplimits.program.network.backward import backpropagation
from tplimits.program.network.differentiate import partials
from tplimits.program.network.samples import with_samples
from tplimits.program.nodes.entries import NO_NEURON, OWN, ArrayEntry, AxisSum, Entry, axis_symbol, bound_axis_symbol
from tplimits.program.nodes.kinds import Avg, MatMul, OuterNonlin


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Scalar):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.relu(h)) + 0.1 * b


def named(backward, name):
    return backward.program[backward.program.position(name)]


def test_the_total_program_is_printed_in_the_users_names():
    printed = str(backpropagation(mlp).program).splitlines()
    assert [line.split(" ", 1)[1].split("=")[0].strip().split(None, 1)[-1] for line in printed[10:-1]] == [
        *("dh", "d_6", "dv", "dU[d]", "d^shift b")
    ]
    assert any(line.split()[1:6] == ["dh", "=", "v*step(h)", "OuterNonlin"] for line in printed if "dh" in line[:8])
    assert any("Wᵀ dh" in line for line in printed)


def test_uses_of_parameters():
    backward = backpropagation(mlp)
    (use,) = backward.gradients["W"]
    assert backward.program[use.gradient.source].name == "dh" and not use.transposed
    assert backward.program[use.operand.source] == mlp[use.operand.source]
    (use,) = backward.gradients["U"]
    assert use.axes == ("d",) and use.indices == (axis_symbol("d"),)
    assert backward.gradients["b"] == () and backward.shift_gradients["v"] == ()
    (use,) = backward.shift_gradients["b"]
    assert backward.program[use.gradient.source].body == sympy.Rational(0.1)


def test_the_networks_own_instructions_come_first_and_files_keep_all():
    backward = backpropagation(mlp)
    program = backward.program
    assert program.instructions[: len(mlp)] == mlp.instructions and program.returns == mlp.returns
    assert from_json(to_json(program)) == program and program.is_network
    forward, total = mlp.run(n=5, seed=3, ξ=[1, 2]), program.run(n=5, seed=3, ξ=[1, 2])
    assert all((np.asarray(total[name]) == forward[name]).all() for name in forward)


def test_adjoints_of_what_lies_on_the_way():
    backward = backpropagation(mlp)
    h = mlp.position("h")
    (use,) = backward.adjoints[h]
    assert backward.program[use.gradient.source].name == "dh"
    assert set(backward.adjoints) == {h, h - 1}  # the readout's own gradient is 1


def test_matrices_used_both_ways_and_twice():
    @tp.network
    def both(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
        h = W @ tp.sum(U * ξ, over="d")
        return W.T @ h

    backward = backpropagation(both)
    uses = backward.gradients["W"]
    assert [use.transposed for use in uses] == [True, False]
    dh = named(backward, "dh")
    assert isinstance(dh, MatMul) and not dh.transposed and both[dh.matrix].name == "W"
    assert named(backward, "dreturn").body == 1


def test_outputs_stay_axes_under_new_names():
    @tp.network
    def several(ξ: tp.Input["token"], U: tp.Vector, W: tp.Matrix, v: tp.Vector["unit"]):
        h = W @ (U * ξ)
        return v * tp.tanh(h)

    backward = backpropagation(several)
    assert backward.outputs == {"token_out": "token", "unit_out": "unit"}
    assert named(backward, "dh").axes == ("token_out", "unit_out")  # the gradient of h[token_out] alone
    (use,) = backward.adjoints[several.position("h")]
    assert use.indices == (axis_symbol("token_out"),)
    assert backward.program.root_axis("token_out") == "token"
    (use,) = backward.gradients["v"]
    assert use.indices == (axis_symbol("unit_out"),)


def test_selected_entries_have_gradients_of_their_own_whatever_the_size():
    @tp.network
    def first(ξ: tp.Input["token"], U: tp.Vector, W: tp.Matrix, v: tp.Vector):
        h = W @ (U * ξ)
        return v * tp.tanh(h.sel(token=0)) + tp.sum(h, over="token")

    backward = backpropagation(first)
    places = {use.indices for use in backward.adjoints[first.position("h")]}
    assert places == {(Integer(0),), (axis_symbol("token"),)}
    assert named(backward, "dh(token=0)").axes == () and named(backward, "dh").axes == ("token",)


def test_look_ups_of_an_open_size_ask_for_it():
    @tp.network
    def taken(ξ: tp.Input["p"], U: tp.Vector, v: tp.Vector):
        h = tp.tanh(U * ξ)
        return v * tp.sum(h.take(p=np.array([1, -1]), axes="q"), over="q")

    with pytest.raises(tp.ProgramError, match=r"`h` is read through a table along `p`, whose size is open; .*bind\(p="):
        backpropagation(taken)
    h = backpropagation(taken.bind(p=3)).adjoints[taken.position("h")]
    assert [use.indices for use in h] == [(axis_symbol("p"),)]


def test_entries_that_no_table_reads_have_no_gradient():
    @tp.network
    def nothing(ξ: tp.Input["p"], U: tp.Vector["p"], v: tp.Vector):
        h = tp.tanh(U * ξ)
        none = h.take(p=np.array([-1, -1]), axes="q")
        return v * (1 + tp.sum(none, over="q")) + h.take(p=np.array([-1, 2]), axes="q").sel(q=0)

    backward = backpropagation(nothing.bind(p=3))
    assert backward.gradients["U"] == () and len(backward.gradients["v"]) == 1


def test_averages_carry_ratios_of_widths():
    @tp.network
    def wide(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["k", "n"], v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        return v * tp.exp(tp.avg(h * h))

    backward = backpropagation(wide)
    k = sympy.Symbol("k", positive=True)
    (average,) = (s for s in wide if isinstance(s, Avg))
    (factor,) = (s for s in backward.program if isinstance(s, OuterNonlin) and s.body.has(k))
    assert average.over == factor.over == "k" and factor.body.coeff(sympy.Symbol("n", positive=True)) != 0


def test_the_gradient_of_a_vector_is_a_vector():
    @tp.network
    def direct(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
        return W @ tp.sum(U * ξ, over="d") + tp.sum(U * ξ, over="d")

    backward = backpropagation(direct)
    for uses in (*backward.gradients.values(), *backward.adjoints.values()):
        assert all(backward.program[use.gradient.source].width == "n" for use in uses)


def test_neurons_of_slots_change_places():
    @tp.network
    def order_two(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        β = tp.neuron("β")
        u = tp.sum(U * ξ, over="d")
        y = tp.avg(tp.tanh(u * v[β]), over=β)
        return y * v

    backward = backpropagation(order_two)
    slots = [s for s in backward.program.instructions[len(order_two) :] if isinstance(s, OuterNonlin) and s.slots]
    assert sorted(s.slot_names for s in slots) == [("α",), ("β",)]


def test_what_the_output_does_not_depend_on_has_no_gradient():
    @tp.network
    def partly(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        unused = V @ x
        (W @ x).named("also unused")
        return v * x + 0 * unused

    backward = backpropagation(partly)
    assert backward.gradients["V"] == backward.gradients["W"] == ()
    assert not any(isinstance(s, (MatMul, Avg)) for s in backward.program.instructions[len(partly) :])


def test_jumps_leave_a_delta_unless_they_close():
    @tp.network
    def jumps(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d").named("h")
        return v * tp.step(h)

    @tp.network
    def closes(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d").named("h")
        return v * (h * tp.step(h) + tp.where(2 * h - 1, h, 1 - h) + tp.where(h, h, tp.exp(h) - 1))

    def deltas(program):
        return [s for s in backpropagation(program).program if isinstance(s, OuterNonlin) and s.body.has(DiracDelta)]

    assert [s.name for s in deltas(jumps)] == ["dh"] and deltas(closes) == []


def test_programs_without_data_have_no_gradients():
    @tp.program
    def plain(x: tp.Vector):
        return x

    with pytest.raises(tp.ProgramError, match="`plain` is no network; gradients need one"):
        backpropagation(plain)


def test_names_of_the_user_are_kept():
    @tp.network
    def takes_dh(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, dh: tp.Vector, d_out: tp.Scalar):
        h = W @ tp.sum(U * ξ, over="d")
        return dh * tp.relu(h) * d_out

    backward = backpropagation(takes_dh)
    assert named(backward, "dh") == takes_dh[takes_dh.position("dh")]
    assert "h′" in {s.name[1:] for s in backward.program}


# -- derivatives of bodies ----------------------------------------------------------------------


def scalar(number, *indices):
    return Entry(Integer(number), NO_NEURON, *indices)


def fresh_indices():
    counter = iter(range(100, 200))
    return lambda axis: bound_axis_symbol(axis, next(counter))


def test_sums_inside_sums():
    a, b = bound_axis_symbol("a", 1), bound_axis_symbol("b", 2)
    inner = AxisSum(scalar(0, a) * scalar(1, b), a, sympy.Symbol("a"))
    body = sympy.exp(AxisSum(inner**2, b, sympy.Symbol("b")))
    found = {p.entry.source: p for p in partials(body, fresh_indices())}
    (outer_index,) = (s for s, _ in found[1].bound)
    summed = inner.xreplace({b: outer_index})
    expected = 2 * body * summed * AxisSum(scalar(0, a), a, sympy.Symbol("a"))
    at_fresh = found[1].value.replace(
        lambda e: isinstance(e, AxisSum) and e.bound not in (a, b),
        lambda e: AxisSum(e.summand.xreplace({e.bound: a}), a, e.args[2]),
    )
    assert at_fresh == expected
    assert [axis for _, axis in found[0].bound] == ["a"]  # it stands in every summand of the outer sum


def test_constants_are_constants():
    x, array = Entry(Integer(0), OWN), ArrayEntry(Integer(0), axis_symbol("a"))
    (found,) = partials(array * x**2, fresh_indices())
    assert found.value == 2 * array * x and found.bound == ()
    assert partials(array + 1, fresh_indices()) == []
    (found,) = partials(sympy.Abs(sympy.sqrt(x)), fresh_indices())
    assert not found.value.has(sympy.Derivative)


# -- several inputs -----------------------------------------------------------------------------


def test_samples_share_the_parameters(seed=0):
    X = np.random.default_rng(seed).standard_normal((4, 2))
    program, axis = with_samples(mlp)
    assert axis == "sample" and program.is_network
    rng = np.random.default_rng(seed)
    given = {"U": rng.standard_normal((2, 6)), "W": rng.standard_normal((6, 6)), "v": rng.standard_normal(6), "b": 1.5}
    together = program.run(n=6, ξ=X, **given)
    for i in range(4):
        alone = mlp.run(n=6, ξ=X[i], **given)
        assert np.allclose(together["return"][i], alone["return"]) and together["W"].shape == (6, 6)


def test_the_axis_of_samples_has_a_free_name():
    @tp.network
    def taken(ξ: tp.Input["sample"], U: tp.Vector["sample"]):
        return tp.sum(U * ξ, over="sample")

    assert with_samples(taken)[1] == "sample_"
