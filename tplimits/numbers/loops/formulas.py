"""Formulas as text (`numbers.moments.writing`) as instructions on vectors, in double or single precision.

Text is parsed once; a choice `a if c else b` becomes a selection of lanes, of which both sides are computed.  Functions
of arithmetic alone (`numbers.moments.angles`) are read from their source.  What LLVM has no instruction for is computed
in double precision.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from llvmlite import ir

from tplimits.errors import EvaluationError
from tplimits.numbers.loops.functions import Arithmetic
from tplimits.numbers.moments import angles

_OPERATIONS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
_COMPARED = {ast.Lt: "<", ast.Gt: ">", ast.LtE: "<=", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
#: functions of the C library, lane by lane
_LIBRARY = ("log", "sin", "cos", "log1p", "expm1")


class Formulas:
    """Values of texts, all of them vectors of one type, in the code that a builder writes."""

    def __init__(self, builder: ir.IRBuilder, module: ir.Module, kind: ir.VectorType) -> None:
        self.builder, self.kind = builder, kind
        self.arithmetic = Arithmetic(builder, module)
        self.wide = ir.VectorType(ir.DoubleType(), kind.count)
        self.single = kind.element == ir.FloatType()

    def constant(self, value: float) -> ir.Constant:
        """A number in all lanes; what single precision would take for zero is its smallest number."""
        value = math.copysign(1e-37, value) if self.single and 0 < abs(value) < 1e-37 else value
        return ir.Constant(self.kind, [value] * self.kind.count)

    def value(self, text: str, names: Mapping[str, Any]) -> Any:
        """The value of a text."""
        return self._node(_parsed(text), names)

    def _node(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Name):
            return self.constant(names[node.id]) if isinstance(names[node.id], float) else names[node.id]
        if isinstance(node, ast.Constant):
            return self.constant(float(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant):
                return self.constant(-float(node.operand.value))  # type: ignore[arg-type]
            return self.arithmetic.negative(self._node(node.operand, names))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            found = getattr(self.arithmetic, _OPERATIONS[type(node.op)])
            return found(self._node(node.left, names), self._node(node.right, names))
        if isinstance(node, ast.Compare):
            return self._compared(node, names)
        if isinstance(node, ast.IfExp):
            parts = (self._node(n, names) for n in (node.test, node.body, node.orelse))
            return self.builder.select(*parts)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id  # type: ignore[attr-defined]
            return self._called(name, [self._node(a, names) for a in node.args])
        if isinstance(node, ast.Attribute):
            return self.constant(getattr(math, node.attr))
        raise EvaluationError(f"`{ast.unparse(node)}` has no compiled form.")

    def _compared(self, node: ast.Compare, names: Mapping[str, Any]) -> Any:
        values = [self._node(n, names) for n in (node.left, *node.comparators)]
        found = [
            self.builder.fcmp_ordered(_COMPARED[type(o)], a, b)
            for o, a, b in zip(node.ops, values[:-1], values[1:], strict=True)
        ]
        total = found[0]
        for one in found[1:]:
            total = self.builder.and_(total, one)
        return total

    def _called(self, name: str, values: list[Any]) -> Any:
        a = self.arithmetic
        if name == "sqrt":
            return a.intrinsic("sqrt", *values)
        if name in ("fabs", "abs"):
            return a.absolute(*values)
        if name == "copysign":
            return a.intrinsic("copysign", *values)
        if name in ("fmax", "fmin"):
            x, y = values
            return self.builder.select(a.greater(x, y) if name == "fmax" else a.greater(y, x), x, y)
        if name in ("atan2", "arc", "arc_single"):
            name = "arc_single" if name == "arc" and self.single else name
            return self._read(getattr(angles, name), values)
        return self._in_doubles(name, values)

    def _read(self, function: Callable[..., float], values: list[Any]) -> Any:
        """A function of assignments and one result, from its source."""
        definition = _source(function)
        names: dict[str, Any] = {k: v for k, v in vars(angles).items() if isinstance(v, float)}
        names |= {a.arg: v for a, v in zip(definition.args.args, values, strict=True)}
        for line in definition.body:
            if isinstance(line, ast.Assign):
                names[line.targets[0].id] = self._node(line.value, names)  # type: ignore[attr-defined]
            elif isinstance(line, ast.Return):
                assert line.value is not None
                return self._node(line.value, names)
        raise AssertionError(function)

    def _in_doubles(self, name: str, values: list[Any]) -> Any:
        a, b = self.arithmetic, self.builder
        values = [b.fpext(v, self.wide) if self.single else v for v in values]
        if name in ("exp", "erf", "tanh"):
            found = getattr(a, name)(*values)
        elif name in _LIBRARY:
            found = a.scalar(name, *values)
        else:
            raise EvaluationError(f"`{name}` has no compiled form.")
        return b.fptrunc(found, self.kind) if self.single else found


@lru_cache(maxsize=1 << 14)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@lru_cache(maxsize=16)
def _source(function: Callable[..., float]) -> ast.FunctionDef:
    found = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found
