"""What the arguments of a traced function become: initial matrices, vectors and scalars, data, constants."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

from tplimits.program.language.annotations import Init, Kind
from tplimits.program.language.axes import IndexValue
from tplimits.program.language.matrices import MatrixValue
from tplimits.program.language.quantities import Quantity
from tplimits.program.language.tracing import Trace, fail
from tplimits.program.language.values import Origin, Value
from tplimits.program.nodes.entries import constant_symbol
from tplimits.program.nodes.laws import NORMAL, Law


def declare_widths(trace: Trace, kinds: dict[str, Kind | None]) -> None:
    """Register the widths of matrices, which any argument may use."""
    for kind in kinds.values():
        if kind is not None and kind.what == "Matrix":
            if len(kind.names) == 1:
                fail(f"the annotation {kind!r}", 'a matrix has two widths: tp.Matrix["k", "n"], rows first')
            for name in kind.names[:2]:
                trace.widths.setdefault(name)


def argument(trace: Trace, name: str, kind: Kind | None, default: Any) -> Any:
    """The value that an argument stands for; None in the place of a kind marks a constant."""
    if kind is None:
        if name == "n" or name in trace.widths:
            fail(f"the constant `{name}`", "this is the name of a width: choose another")
        if name in trace.axes:
            fail(f"the constant `{name}`", "this is the name of a finite axis: choose another")
        trace.constants[name] = None if default is None else trace.constant(default)
        return Quantity(constant_symbol(name))
    widths = [a for a in kind.names if a in trace.widths] if kind.what != "Matrix" else list(kind.names[:2])
    axes = tuple(a for a in kind.names if a not in trace.widths) if kind.what != "Matrix" else kind.names[2:]
    for axis in axes:
        trace.declare(axis)
    if kind.what == "Matrix":
        if default is not None:
            fail(
                f"a default for the matrix `{name}`",
                "its entries are iid with variance 1/columns: multiply by a factor in the program",
            )
        rows, columns = widths or ["n", "n"]
        law = NORMAL if kind.law is None else kind.law.changed(trace.constant)
        value = Value(trace, sympy.S.Zero, None, axes, origin=Origin("matrix", (name, rows, columns, law)))
        return MatrixValue(trace, value.uid, rows, columns, axes, trace.indices(axes))
    if kind.what == "State":
        if widths not in ([], ["n"]):
            fail(
                f"the state `{name}` over the width `{widths[0]}`",
                "a state lives on the width n; a layer that leaves it and one that comes back are one block",
            )
        if default is not None:
            fail(f"a default for the state `{name}`", "a state is given to .run, or drawn with entries N(0, 1)")
        return Value(trace, sympy.S.Zero, "n", axes, origin=Origin("vector", (name, Law())), role="state")
    if kind.what == "Vector":
        if len(widths) > 1:
            fail(f"the vector `{name}` over two widths {widths}", "a vector lives on one width")
        origin = Origin("vector", (name, _law(trace, name, kind, default)))
        return Value(trace, sympy.S.Zero, widths[0] if widths else "n", axes, origin=origin)
    if widths:
        what, one = ("data", "data") if kind.what == "Input" else ("scalar", "a scalar")
        fail(f"the {what} `{name}` over the width `{widths[0]}`", f"{one} has finite axes only")
    if kind.what == "Input":
        if default is not None:
            fail(f"a default for the input `{name}`", "data is given to .run and .evaluate")
        value = Value(
            trace, sympy.S.Zero, None, axes, origin=Origin("scalar", (name, None, kind.index_of, NORMAL)), role="input"
        )
        if kind.index_of is None:
            return value
        return IndexValue(trace, value.uid, axes, trace.indices(axes), trace.declare(kind.index_of))
    return Value(trace, sympy.S.Zero, None, axes, origin=Origin("scalar", (name, *_number(trace, name, kind, default))))


def _number(trace: Trace, name: str, kind: Kind, default: Any) -> tuple[Expr | None, None, Law]:
    """The value of a scalar and its law; it has one of them at most, and no axis that it is an index of."""
    if kind.law is not None and default is not None:
        fail(f"a default and a law for the scalar `{name}`", "leave one of them out")
    given = default.law if isinstance(default, Init) else kind.law
    if given is None:
        return None if default is None else trace.constant(default), None, NORMAL
    law = given.changed(trace.constant)
    return (law.mean, None, NORMAL) if law.std == 0 else (None, None, law)


def _law(trace: Trace, name: str, kind: Kind, default: Any) -> Law:
    if kind.law is not None:
        if default is not None:
            fail(f"a default and a law for the vector `{name}`", "leave one of them out")
        return kind.law.changed(trace.constant)
    if default is None:
        return Law()
    if isinstance(default, Init):
        return Law(trace.constant(default.law.mean), trace.constant(default.law.std))
    return Law(trace.constant(default), sympy.S.Zero)
