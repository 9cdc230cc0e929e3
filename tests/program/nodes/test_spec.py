"""Every row of the specification holds for traced programs and is broken by some other one."""

from dataclasses import replace

import numpy as np
import pytest
import sympy
from sympy import Integer, Symbol

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.nodes import spec
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    Entry,
    GaussMean,
    Lookup,
    NeuronMean,
    axis_symbol,
    constant_symbol,
    slot_symbol,
    width_symbol,
)
from tplimits.program.nodes.laws import PLACES, Law
from tplimits.program.nodes.spec import SPEC, WHOLE, verify
from tplimits.program.nodes.stated import IndexTable


@tp.program
def legal(W: tp.Matrix["k", "n", "head"], x: tp.Vector["token"], s: tp.Scalar["token"] = 2, *, γ=1):
    β = tp.neuron("β")
    h = W @ x
    tp.avg(tp.tanh(x * x[β]) * γ, over=β).named("y")
    a = tp.avg(h)
    return tp.sum(tp.exp(a), over="head") + s


@tp.network
def network(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Scalar):
    return tp.readout(tp.sum(U * ξ, over="d")) + b


MATRIX, VECTOR, SCALAR, MATMUL, OUTER, AVG, NONLIN = range(7)
TOKEN, HEAD = axis_symbol("token"), axis_symbol("head")
X = Entry(Integer(VECTOR), OWN, TOKEN)
TABLE = IndexTable(np.array([0, -1]), ("token",))


def changed(position, **changes):
    instructions = list(legal)
    instructions[position] = replace(instructions[position], **changes)
    return legal.replace(instructions=tuple(instructions))


def of_network(position, **changes):
    instructions = list(network)
    instructions[position] = replace(instructions[position], **changes)
    return network.replace(instructions=tuple(instructions))


def body(expr, position=OUTER):
    return changed(position, body=expr)


BROKEN = {
    "no axis shares its size with itself": [legal.replace(size_of={"token": "head", "head": "token"})],
    "n is a width, and widths, axes and constants are different identifiers": [
        legal.replace(widths=("k",)),
        legal.replace(widths=("n", "k", "token")),
        legal.replace(constants={"head": None}),
        legal.replace(constants={"γ": None, "not one": None}),
        changed(VECTOR, axes=("a-b",)),
    ],
    "sizes are positive whole numbers of axes that do not take another's size": [
        legal.replace(sizes={"token": Integer(0)}),
        legal.replace(sizes={"token": sympy.Rational(1, 2)}),
        legal.replace(sizes={"token": 3}),
        legal.replace(size_of={"token": "head"}, sizes={"token": Integer(2)}),
    ],
    "defaults of constants are finite real numbers": [
        legal.replace(constants={"γ": sympy.oo}),
        legal.replace(constants={"γ": 1}),
        legal.replace(constants={"γ": sympy.Symbol("q")}),
        legal.replace(constants={"γ": X}),
    ],
    "constant arrays hold finite numbers and are as long as their axes": [
        legal.replace(arrays=(IndexTable(np.array([np.nan]), ("token",)),), sizes={"token": Integer(1)}),
        legal.replace(arrays=(IndexTable(np.array([1.0]), ("token",)),)),
        legal.replace(arrays=(IndexTable(np.array([1]), ("token",)),), sizes={"token": Integer(1)}),
        legal.replace(arrays=(IndexTable(np.ones((1, 1)), ("token", "token")),), sizes={"token": Integer(1)}),
    ],
    "look-up tables hold indices or -1 and are as long as their axes": [
        legal.replace(tables=(IndexTable(np.array([-2]), ("token",)),), sizes={"token": Integer(1)}),
        legal.replace(tables=(TABLE,)),
    ],
    "instructions have different printable names, without ⟨ | ⟩ or an index [axis=0]": [
        changed(OUTER, name="h"),
        changed(OUTER, name=""),
        changed(OUTER, name="a\nb"),
        changed(OUTER, name="⟨h|h⟩"),
        changed(OUTER, name="h[token=0]"),
        legal.replace(names={**legal.names, "\x1b": 0}),
    ],
    "names point at its instructions": [legal.replace(names={"h": 7}), legal.replace(names={"h": -1})],
    "it returns some of its instructions": [legal.replace(returns=()), legal.replace(returns=(9,))],
    "it returns vectors and scalars": [legal.replace(returns=(MATRIX,))],
    "it returns one value, or a tuple": [legal.replace(returns=(OUTER, AVG))],
    "its arguments are initial data, each once": [
        legal.replace(arguments=(MATMUL,)),
        legal.replace(arguments=(VECTOR, VECTOR)),
        legal.replace(arguments=(12,)),
    ],
    "a network takes data, scalars without a value, and returns a vector, and maybe a scalar to add": [
        legal.replace(inputs=(VECTOR,)),
        legal.replace(inputs=(SCALAR,)),  # it has a value
        network.replace(returns=(network.returns[1],)),
        network.replace(returns=network.returns[::-1]),
        network.replace(returns=(*network.returns, network.returns[1])),
        network.replace(returns=(network.returns[0], network.returns[0])),
        network.replace(returns_tuple=True),
        network.replace(arguments=network.arguments[1:]),
    ],
    "a block takes a state over n and returns the next one, a vector with the same axes": [
        legal.replace(state=MATRIX),
        legal.replace(state=SCALAR),
        legal.replace(state=12),
        legal.replace(state=VECTOR, returns=(AVG,)),
        legal.replace(parts=(legal,)),
    ],
    "its axes differ from one another": [changed(VECTOR, axes=("token", "token"))],
    "its rows and columns are widths of the program": [changed(MATRIX, rows="m"), changed(MATRIX, columns="token")],
    "it lives on a width of the program": [changed(VECTOR, over="m"), changed(OUTER, over="m")],
    "what moves with the step is one number that starts at a value, and no data": [
        changed(SCALAR, scheduled=True),  # a family
    ],
    "its law has finite numbers": [
        changed(MATRIX, law=Law(sympy.oo, Integer(1))),
        changed(MATRIX, law=Law(Integer(0), Integer(1), "triangular")),
        changed(MATRIX, law=Law(Integer(0), Integer(1), "truncated")),
    ],
    "its entries have mean 0 and variance 1/columns, and it is square if it is orthogonal": [
        changed(MATRIX, law=Law(Integer(0), Integer(1), "orthogonal")),
        changed(MATRIX, law=Law(Integer(0), Integer(2), "uniform")),
        changed(MATRIX, law=Law(Integer(1), Integer(1), "signs")),
        changed(MATRIX, law=Law(Integer(0), Integer(1), "given")),
    ],
    "places of neurons have no finite axes, and a width has one vector of them": [
        changed(VECTOR, law=PLACES),
    ],
    "its law has a finite mean and a finite, non-negative standard deviation": [
        changed(VECTOR, law=Law(sympy.oo, Integer(1))),
        changed(VECTOR, law=Law(Integer(0), Integer(-1))),
        changed(VECTOR, law=Law(Integer(0), sympy.I)),
        changed(VECTOR, law=Law(Symbol("q"), Integer(1))),
        changed(VECTOR, law=Law(X, Integer(1))),
        changed(VECTOR, law=Law(0, 1)),
        changed(VECTOR, law=Law(Integer(0), Integer(1), "cauchy")),
        changed(VECTOR, law=Law(Integer(0), Integer(1), "truncated")),
        changed(VECTOR, law=Law(Integer(0), Integer(1), "normal", Integer(1))),
        changed(VECTOR, law=Law(Integer(0), Integer(1), "truncated", Integer(0))),
        changed(VECTOR, law=Law(Integer(0), Integer(1), "truncated", 2)),
        changed(SCALAR, value=None, law=Law(Integer(0), sympy.oo)),
    ],
    "data, and what has a value, have no law": [
        changed(SCALAR, law=Law(Integer(0), Integer(2))),
        of_network(0, law=Law(Integer(0), Integer(2))),
    ],
    "indices are data of a network": [changed(SCALAR, value=None, of="token"), of_network(2, of="d")],
    "its value is a finite real number": [changed(SCALAR, value=sympy.zoo), changed(SCALAR, value=2)],
    "the matrix takes vectors on the operand's width, and all indices exist": [
        changed(MATMUL, matrix=VECTOR),
        changed(MATMUL, matrix=MATMUL),
        changed(MATMUL, matrix=-1),
        changed(MATMUL, transposed=True),
        changed(MATMUL, over="n"),
        changed(MATMUL, operand=None),
        changed(MATMUL, operand=Entry(Integer(SCALAR), NO_NEURON, TOKEN)),
        changed(MATMUL, operand=Entry(Integer(VECTOR), slot_symbol(1), TOKEN)),
        changed(MATMUL, operand=Entry(Integer(VECTOR), OWN)),
        changed(MATMUL, matrix_indices=()),
        changed(MATMUL, matrix_indices=(TOKEN,)),
        changed(MATMUL, matrix_indices=(Integer(-1),)),
        changed(MATMUL, matrix_indices=(axis_symbol("other"),)),
        changed(MATMUL, axes=("head",)),
    ],
    "it averages an earlier vector on the stated width": [
        changed(AVG, over="n"),
        changed(AVG, operand=None),
        changed(AVG, operand=Entry(Integer(AVG), OWN, HEAD, TOKEN)),
        changed(AVG, operand=Entry(Integer(SCALAR), OWN, TOKEN)),
        changed(AVG, axes=("token",), operand=Entry(Integer(SCALAR), NO_NEURON, TOKEN)),
    ],
    "its averaged indices are β1, β2, ... on widths of the program": [
        changed(OUTER, slots=(slot_symbol(2),)),
        changed(OUTER, slot_widths=()),
        changed(OUTER, slot_widths=("m",)),
        changed(OUTER, slot_names=("β", "γ")),
    ],
    "its constants are finite real numbers": [
        body(X * sympy.oo),
        body(X + sympy.I),
        body(X * sympy.Integer(-1) ** sympy.Rational(1, 3)),
        body(sympy.acos(Integer(2)) + X),
        body(sympy.zoo, NONLIN),
    ],
    "its functions are those of tplimits.program.nodes.functions.HEADS": [
        body(sympy.gamma(X)),
        body(X + sympy.Float(0.5)),
        body(sympy.Max(X, 0)),
        body(sympy.Catalan * X),
        body(NeuronMean(X, slot_symbol(1))),
        body(Lookup(Integer(0), TOKEN) * X),
    ],
    "its body reads entries of earlier instructions at existing indices": [
        body(Entry(Integer(OUTER), OWN, TOKEN)),
        body(Entry(Integer(MATRIX), OWN, HEAD)),
        body(Entry(Integer(MATMUL), OWN, HEAD, TOKEN)),
        body(Entry(Integer(VECTOR), OWN)),
        body(Entry(Integer(VECTOR), slot_symbol(2), TOKEN)),
        body(Entry(Integer(VECTOR), OWN, Integer(-1))),
        body(Entry(Integer(VECTOR), OWN, HEAD)),
        body(Entry(Integer(VECTOR), OWN, Lookup(Integer(0), TOKEN))),
        body(ArrayEntry(Integer(0), TOKEN) * X),
        body(AxisSum(X, TOKEN, Symbol("token"))),
        body(AxisSum(X, axis_symbol("token′1"), Symbol("other"))),
        body(AxisSum(AxisSum(X, axis_symbol("token′1"), Symbol("token")), axis_symbol("token′1"), Symbol("token"))),
        body(GaussMean(X * constant_symbol("g′1"), constant_symbol("g′1"))),
        changed(OUTER, axes=("head",)),
        body(X, NONLIN),
        legal.replace(sizes={"token": Integer(2), "head": Integer(2)}).replace(
            instructions=(
                *legal.instructions[:OUTER],
                replace(legal[OUTER], body=Entry(Integer(VECTOR), OWN, Integer(2))),
                *legal.instructions[5:],
            )
        ),
    ],
    "its symbols are constants, widths or sizes of the program": [
        body(Symbol("q") * X),
        body(constant_symbol("δ") * X),
        body(width_symbol("m") * X),
        body(TOKEN * X),
        body(AxisSum(X * constant_symbol("δ"), axis_symbol("head′1"), Symbol("head"))),
        body(GaussMean(constant_symbol("δ") * constant_symbol("g′1"), constant_symbol("g′1")) * X),
        body(GaussMean(constant_symbol("γ"), constant_symbol("γ")) * X),
        legal.replace(constants={}),
    ],
    "widths stand to rational powers": [
        body(X * tp.n ** sympy.sqrt(2)),
        body(X * width_symbol("k") ** constant_symbol("γ")),
        body(X * sympy.exp(tp.n)),
        body(X ** (1 / tp.n)),
    ],
}
CASES = [(sentence, program) for sentence, programs in BROKEN.items() for program in programs]


def test_the_program_itself_is_legal():
    verify(legal)
    assert [type(s).__name__ for s in legal] == [
        *("InitialMatrix", "InitialVector", "InitialScalar", "MatMul", "OuterNonlin", "Avg", "ScalarNonlin")
    ]


@pytest.mark.parametrize(("sentence", "program"), CASES, ids=range(len(CASES)))
def test_a_broken_row_is_named(sentence, program):
    with pytest.raises(ProgramError) as caught:
        verify(program)
    message = str(caught.value)
    assert f": expected that {sentence}" in message and message.endswith(".")
    rows = [s for _, _, s in SPEC if s == sentence]
    assert message.startswith("instruction " if rows else f"program `{program.name}` is not legal")
    if rows:
        assert "test_spec.py, line " in message


def test_every_row_is_broken_by_some_program():
    assert {s for _, _, s in SPEC} | {s for _, s in WHOLE} == set(BROKEN)


def test_a_look_up_beyond_a_known_size_is_illegal():
    @tp.program
    def looked_up(x: tp.Vector["token"]):
        return x.take(token=np.array([0, 3]), axes="p")

    verify(looked_up)
    with pytest.raises(ProgramError, match="existing indices"):
        verify(looked_up.replace(sizes={**looked_up.sizes, "token": Integer(3)}))


def test_axes_of_different_known_sizes_do_not_stand_for_one_another():
    @tp.program
    def renamed(x: tp.Vector["token"]):
        return x.rename(token="key")

    verify(renamed.replace(size_of={}, sizes={"token": Integer(2), "key": Integer(2)}))
    with pytest.raises(ProgramError, match="existing indices"):
        verify(renamed.replace(size_of={}, sizes={"token": Integer(2), "key": Integer(3)}))
    with pytest.raises(ProgramError, match="existing indices"):
        verify(renamed.replace(size_of={}))


def test_the_sentences_continue_the_message():
    for *_, sentence in (*SPEC, *WHOLE):
        assert not sentence.endswith(".") and not sentence[0].isupper()
    assert spec.__doc__.startswith("The executable specification")
