"""Instructions, laws, lines and tables."""

import numpy as np
import pytest
from sympy import Integer

from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, slot_symbol
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
from tplimits.program.nodes.stated import IndexTable, Line

x, y = Entry(Integer(4), OWN), Entry(Integer(2), slot_symbol(1))


def test_widths_operands_and_orders():
    assert InitialMatrix("W", ()).width is None and InitialMatrix("W", ()).operands == ()
    assert InitialVector("x", (), over="k").width == "k" and InitialScalar("s", ()).width is None
    assert MatMul("h", (), matrix=6, operand=x, over="k").operands == (4, 6)
    assert MatMul("h", (), matrix=6, operand=x, over="k").width == "k"
    nonlin = OuterNonlin("y", (), body=x * y + x**2, slots=(slot_symbol(1),), slot_widths=("n",))
    assert nonlin.operands == (2, 4) and nonlin.order == 2 and nonlin.width == "n"
    assert Avg("θ", (), operand=x).operands == (4,) and Avg("θ", (), operand=x).width is None
    assert ScalarNonlin("s", (), body=Entry(Integer(1), NO_NEURON) ** 2).operands == (1,)


def test_lines_and_names_of_slots_do_not_make_a_difference():
    one = OuterNonlin(
        "y", (), Line("a.py", 3), body=x * y, slots=(slot_symbol(1),), slot_names=("β",), slot_widths=("n",)
    )
    two = OuterNonlin(
        "y", (), Line("b.py", 4), body=x * y, slots=(slot_symbol(1),), slot_names=("γ",), slot_widths=("n",)
    )
    assert one == two and hash(one) == hash(two)


def test_a_line_as_messages_show_it():
    assert str(Line("a.py", 3, "h = W @ x")) == "a.py, line 3: `h = W @ x`"
    assert str(Line("a.py", 3)) == "a.py, line 3" and str(Line("", 3)) == "line 3"
    assert str(Line()) == "no source line"


def test_the_default_law_is_standard_normal():
    assert Law() == Law(Integer(0), Integer(1))


def test_tables_are_compared_by_value_and_cannot_change():
    table = IndexTable(np.array([0.0, 1.0]), ("a",))
    assert table == IndexTable(np.array([-0.0, 1.0]), ("a",)) and hash(table) == hash(
        IndexTable(np.array([-0.0, 1.0]), ("a",))
    )
    assert table != IndexTable(np.array([0.0, 1.0]), ("b",)) and table != IndexTable(np.array([0, 1]), ("a",))
    assert table != IndexTable(np.array([[0.0, 1.0]]), ("a",)) and table != 3
    with pytest.raises(ValueError, match="read-only"):
        table.values[0] = 1
