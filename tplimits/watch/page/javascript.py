"""A network program as JavaScript: one function for each instruction, on flat arrays with the inputs as first axis.

A function loops over the axes of its instruction and over neurons.  What does not depend on an inner loop is computed
outside of it, sums over finite axes are arrays of their own, and every sum over neurons is weighted by `keep`: 1, or 0
for a neuron that a reader has removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.bind import resolved
from tplimits.program.nodes.entries import (
    OWN,
    ArrayEntry,
    AxisSum,
    Entry,
    GaussMean,
    Lookup,
    axis_symbol,
    constant_symbol,
    size_symbol,
    slot_symbol,
    width_symbol,
)
from tplimits.program.nodes.evaluate import standard_normal_mean, with_differences
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.walk import Walker

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: how JavaScript evaluates each head; functions without `Math.` are those of assets/numbers.js
JAVASCRIPT: dict[type, Callable[..., str]] = {
    functions.step: "({0} > 0 ? 1 : 0)".format,
    functions.relu: "Math.max({0}, 0)".format,
    functions.leaky_relu: "leaky({0}, {1})".format,
    functions.maximum: "Math.max({0}, {1})".format,
    functions.minimum: "Math.min({0}, {1})".format,
    functions.where: "({0} > 0 ? {1} : {2})".format,
    functions.sigmoid: "(1 / (1 + Math.exp(-{0})))".format,
    functions.softplus: "softplus({0})".format,
    functions.gelu: "gelu({0})".format,
    sympy.erf: "erf({0})".format,
    sympy.erfc: "erfc({0})".format,
    sympy.sech: "(1 / Math.cosh({0}))".format,
    **{
        head: f"Math.{name}({{0}})".format
        for head, name in {
            **{sympy.Abs: "abs", sympy.sign: "sign", sympy.exp: "exp", sympy.log: "log", sympy.sin: "sin"},
            **{sympy.cos: "cos", sympy.tan: "tan", sympy.asin: "asin", sympy.acos: "acos", sympy.atan: "atan"},
            **{sympy.sinh: "sinh", sympy.cosh: "cosh", sympy.tanh: "tanh", sympy.asinh: "asinh", sympy.atanh: "atanh"},
        }.items()
    },
}


@dataclass(frozen=True)
class _Loop:
    """An index, how often it turns, and the weights of a sum over it."""

    index: Expr
    turns: str
    weights: str = ""


def source(program: Program, sample: str) -> str:
    """The functions of all instructions of a program on many inputs, as a JavaScript array; null for what is given.

    Each takes the machine of assets/machine.js: `m.need(k)` is the array of instruction k, `m.samples` the number of
    inputs, `m.width[w]` the size of width number w and `m.keep[w]` its weights.
    """
    emitter = _Emitter(program, sample)
    return "[\n" + ",\n".join(emitter.read(s) for s in program) + "\n]"


class _Emitter(Walker[str]):
    """The functions of a program, one instruction after the other."""

    def __init__(self, program: Program, sample: str) -> None:
        self.program, self.sample = program, sample
        self.widths = list(program.widths)
        constants = {constant_symbol(c): v for c, v in program.constants.items() if v is not None}
        self.constants: dict[Expr, Expr] = dict(resolved(constants))

    def size(self, axis: str) -> str:
        """The size of a finite axis as code; EvaluationError where it has none."""
        if axis == self.sample:
            return "m.samples"
        size = self.program.size(axis)
        if size is None:
            raise EvaluationError(
                f"the axis `{axis}` of `{self.program.name}` has no size: fix it with .bind({axis}=…)."
            )
        return str(int(size))

    def width(self, width: str) -> str:
        """The size of a width as code."""
        return f"m.width[{self.widths.index(width)}]"

    def over(self, index: Expr, width: str) -> _Loop:
        """A weighted sum over the neurons of a width."""
        number = self.widths.index(width)
        return _Loop(index, self.width(width), f"m.keep[{number}]")

    # -- one method a kind ------------------------------------------------------------------

    def initial_matrix(self, s: InitialMatrix, *at: Any) -> str:
        return "null"

    def initial_vector(self, s: InitialVector, *at: Any) -> str:
        return "null"

    def initial_scalar(self, s: InitialScalar, *at: Any) -> str:
        return "null"

    def matmul(self, s: MatMul, *at: Any) -> str:
        matrix = self.program[s.matrix]
        assert isinstance(matrix, InitialMatrix) and s.operand is not None
        column = slot_symbol(1)
        place = (column, OWN) if s.transposed else (OWN, column)
        factor = _MatrixEntry(sympy.Integer(s.matrix), *s.matrix_indices, *place)
        operand = s.operand.xreplace({OWN: column})
        summed = [self.over(column, matrix.rows if s.transposed else matrix.columns)]
        return self._function(factor * operand, [*self._axes(s), _Loop(OWN, self.width(s.over))], summed)

    def average(self, s: Avg, *at: Any) -> str:
        assert s.operand is not None
        return self._function(s.operand, self._axes(s), [self.over(OWN, s.over)], [self.width(s.over)])

    def scalar(self, s: ScalarNonlin, *at: Any) -> str:
        return self._stable(s.body, self._axes(s), [], [])

    def outer(self, s: OuterNonlin, *at: Any) -> str:
        slots = list(zip(s.slots, s.slot_widths, strict=True))
        loops = [*self._axes(s), _Loop(OWN, self.width(s.over))]
        return self._stable(s.body, loops, [self.over(*b) for b in slots], [self.width(w) for _, w in slots])

    def _axes(self, s: Instruction) -> list[_Loop]:
        return [_Loop(axis_symbol(a), self.size(a)) for a in s.axes]

    def _stable(self, body: Expr, loops: list[_Loop], summed: list[_Loop], divisors: list[str]) -> str:
        """A body as it is written, and where that overflows as `with_differences` writes it."""
        written, safe = self._function(body, loops, summed, divisors), with_differences(body)
        return written if safe == body else f"stable({written}, {self._function(safe, loops, summed, divisors)})"

    def _function(self, body: Expr, loops: list[_Loop], summed: list[_Loop], divisors: Iterable[str] = ()) -> str:
        """The function of a body: sums over finite axes first, inner ones before outer ones."""
        f = _Function(self)
        body = body.xreplace(self.constants)
        turns = {s.bound: self.size(s.axis) for s in body.atoms(AxisSum)} | {x.index: x.turns for x in (*loops, *summed)}
        for total in sorted(body.atoms(AxisSum), key=lambda s: len(s.atoms(AxisSum))):
            neurons = [x.index for x in (*loops, *summed) if x.index in {e.neuron for e in total.atoms(Entry)}]
            outer = [_Loop(x, turns[x]) for x in (*total.free_axes, *neurons)]
            f.totals[total] = (name := f"s{len(f.totals)}", outer)
            f.nest(name, total.summand, outer, [_Loop(total.bound, self.size(total.axis))], [])
        f.nest("out", body, loops, summed, divisors)
        return f.text()


class _MatrixEntry(Expr):
    """An entry of a matrix: (position, *indices, row, column)."""

    is_commutative = True


class _Function:
    """The text of one function: nests of loops, each of which fills an array."""

    def __init__(self, emitter: _Emitter) -> None:
        self.emitter, self.lines = emitter, list[str]()
        self.reads: dict[int, str] = {}
        self.totals: dict[Expr, tuple[str, list[_Loop]]] = {}

    def text(self) -> str:
        """The function."""
        reads = [f"const {name} = m.need({k});" for k, name in self.reads.items()]
        return "(m) => {\n" + "\n".join([*reads, *self.lines, "return out;"]) + "\n}"

    def nest(self, name: str, value: Expr, loops: list[_Loop], summed: list[_Loop], divisors: Iterable[str]) -> None:
        """name[loops] = Σ_summed weights · value / divisors."""
        nest = _Nest(self, [*loops, *summed])
        code = nest.code(value)[0]
        if summed:
            weights = [f"{x.weights}[i{len(loops) + d}]" for d, x in enumerate(summed) if x.weights]
            nest.levels[len(loops)].insert(min(1, len(loops)), "let t = 0;")  # behind the line that opens the loop
            nest.levels[-1].append(f"t += {' * '.join([*weights, code])};")
            for _ in summed:
                nest.close()
            code = " / ".join(["t", *divisors])
        place = _flat([f"i{d}" for d in range(len(loops))], [x.turns for x in loops])
        nest.levels[-1].append(f"{name}[{place}] = {code};")
        for _ in loops:
            nest.close()
        size = " * ".join(x.turns for x in loops) or "1"
        self.lines += [f"const {name} = new Float64Array({size});", "{", *nest.levels[0], "}"]


class _Nest:
    """Loops inside one another, and expressions as code in the outermost loop that knows what they read."""

    def __init__(self, function: _Function, loops: list[_Loop]) -> None:
        self.function, self.emitter = function, function.emitter
        self.index = {x.index: (f"i{d}", d + 1) for d, x in enumerate(loops)}
        opening = [[f"for (let i{d} = 0; i{d} < {x.turns}; i{d}++) {{"] for d, x in enumerate(loops)]
        self.levels: list[list[str]] = [[], *opening]
        self.memo: dict[Expr, tuple[str, int]] = {}
        self.count = 0

    def close(self) -> None:
        """Close the innermost loop: its text becomes lines of the loop around it."""
        inside = self.levels.pop()
        self.levels[-1] += [*inside, "}"]

    def code(self, expr: Expr) -> tuple[str, int]:
        """An expression as code, and the depth of the innermost loop whose index it reads."""
        if expr in self.memo:
            return self.memo[expr]
        if isinstance(expr, (Entry, ArrayEntry, AxisSum, _MatrixEntry)):
            found = self._named(*self._read(expr))
        elif isinstance(expr, sympy.Symbol):
            found = self._size(expr), 0
        elif expr.is_number and not expr.has(GaussMean):
            found = _number(expr), 0
        elif isinstance(expr, (sympy.Add, sympy.Mul)):
            found = self._joined(expr, " + " if isinstance(expr, sympy.Add) else " * ")
        else:
            found = self._named(*self._called(expr))
        self.memo[expr] = found
        return found

    def _named(self, code: str, depth: int) -> tuple[str, int]:
        """A constant in the loop of its depth that holds what some code computes."""
        self.count += 1
        self.levels[depth].append(f"const c{self.count} = {code};")
        return f"c{self.count}", depth

    def _joined(self, expr: Expr, sign: str) -> tuple[str, int]:
        """A sum or product: what is known in an outer loop is joined there."""
        by_depth: dict[int, list[str]] = {}
        for a in expr.args:
            code, depth = self.code(a)
            by_depth.setdefault(depth, []).append(code)
        deepest, joined = max(by_depth), list[str]()
        for depth, codes in sorted(by_depth.items()):
            code = sign.join(codes)
            joined.append(self._named(code, depth)[0] if len(codes) > 1 and depth < deepest else code)
        return f"({sign.join(joined)})", deepest

    def _called(self, expr: Expr) -> tuple[str, int]:
        """A power, or a function of the language."""
        if isinstance(expr, GaussMean):
            if expr.free_symbols:
                raise EvaluationError(f"`{expr}` is a mean over a normal variable; a page cannot compute it.")
            return _number(sympy.Float(standard_normal_mean(*expr.args))), 0
        parts = [self.code(a) for a in expr.args]
        depth = max(d for _, d in parts)
        if isinstance(expr, sympy.Pow):
            return _power(expr, *(c for c, _ in parts)), depth
        if type(expr) not in JAVASCRIPT:
            raise EvaluationError(f"`{expr}` ({type(expr).__name__}) has no form in JavaScript.")
        return JAVASCRIPT[type(expr)](*(c for c, _ in parts)), depth

    # -- reading ------------------------------------------------------------------------------

    def _read(self, leaf: Expr) -> tuple[str, int]:
        """What a leaf reads, as code; an index from a table that is −1 reads zero."""
        program = self.emitter.program
        if isinstance(leaf, AxisSum):
            name, loops = self.function.totals[leaf]
            indices, sizes = [x.index for x in loops], [x.turns for x in loops]
        elif isinstance(leaf, ArrayEntry):
            name, indices = f"m.arrays[{leaf.array}]", list(leaf.indices)
            sizes = [self.emitter.size(a) for a in program.arrays[leaf.array].axes]
        else:
            position = int(leaf.args[0])
            name, s = self.function.reads.setdefault(position, f"v{position}"), program[position]
            indices, sizes = list(leaf.args[1:]), [self.emitter.size(a) for a in s.axes]
            if isinstance(leaf, Entry):
                indices = [*leaf.indices, *([leaf.neuron] if s.width is not None else [])]
            for width in (s.rows, s.columns) if isinstance(s, InitialMatrix) else [s.width] if s.width else []:
                sizes.append(self.emitter.width(width))
        places = [self._place(i) for i in indices]
        code, depth = f"{name}[{_flat([p for p, _ in places], sizes)}]", max((d for _, d in places), default=0)
        absent = [p for i, (p, _) in zip(indices, places, strict=True) if isinstance(i, Lookup)]
        return (f"({' || '.join(f'{p} < 0' for p in absent)} ? 0 : {code})" if absent else code), depth

    def _place(self, index: Expr) -> tuple[str, int]:
        """An index expression as code, and its depth."""
        if isinstance(index, sympy.Integer):
            return str(int(index)), 0
        if not isinstance(index, Lookup):
            return self.index[index]
        places = [self._place(i) for i in index.indices]
        sizes = [self.emitter.size(a) for a in self.emitter.program.tables[index.table].axes]
        code = f"m.tables[{index.table}][{_flat([p for p, _ in places], sizes)}]"
        return self._named(code, max((d for _, d in places), default=0))

    def _size(self, symbol: Expr) -> str:
        """A size or a width as code; EvaluationError for a constant without a value."""
        for width in self.emitter.widths:
            if symbol == width_symbol(width):
                return self.emitter.width(width)
        for axis in self.emitter.program.all_axes:
            if symbol == size_symbol(axis):
                return self.emitter.size(axis)
        raise EvaluationError(f"the constant `{symbol}` of `{self.emitter.program.name}` has no value: bind it first.")


def _flat(places: list[str], sizes: list[str]) -> str:
    """The place of a multi-index in a flat array.

    >>> _flat(["i0", "i1", "2"], ["m.samples", "3", "4"])
    '(i0 * 3 + i1) * 4 + 2'
    """
    text = places[0] if places else "0"
    for place, size in zip(places[1:], sizes[1:], strict=True):
        text = f"{f'({text})' if ' ' in text else text} * {size} + {place}"
    return text


def _power(power: Expr, base: str, exponent: str) -> str:
    known = {2: f"({base} * {base})", sympy.S.Half: f"Math.sqrt({base})", -1: f"(1 / {base})"}
    known[-sympy.S.Half] = f"(1 / Math.sqrt({base}))"
    return known.get(power.exp, f"Math.pow({base}, {exponent})")


def _number(expr: Expr) -> str:
    value = float(expr)
    return repr(value) if value >= 0 else f"({value!r})"
