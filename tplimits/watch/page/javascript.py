"""Loops over arrays as JavaScript: one function for each array that is computed.

A function takes the machine of assets/machine.js: `m.need(name)` is the flat array of a name, `m.samples` the number of
inputs, `m.width[k]` the size of width number k and `m.keep[k]` the weights of its neurons: 1, or 0 for a neuron that a
reader has removed.  What does not depend on an inner loop is computed outside of it.  No name of a user stands in it.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError
from tplimits.program.loops.form import Loop, Loops, Read, Statement
from tplimits.program.nodes import functions

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
            **{sympy.sinh: "sinh", sympy.cosh: "cosh", sympy.tanh: "tanh", sympy.asinh: "asinh", sympy.acosh: "acosh"},
            sympy.atanh: "atanh",
        }.items()
    },
}


def source(loops: Loops) -> str:
    """The functions of all arrays that are computed, as a JavaScript object.

    >>> import tplimits as tp
    >>> from tplimits.program.loops.lowering import forward
    >>> @tp.network
    ... def linear(ξ: tp.Input, v: tp.Vector):
    ...     return v * ξ
    >>> print(source(forward(linear)))
    {
    f: (m) => {
    const a0 = m.need("a0"), a1 = m.need("a1"), s0 = m.samples, s1 = m.width[0];
    const out = new Float64Array(s0);
    for (let i0 = 0; i0 < s0; i0++) {
    const c1 = a0[i0];
    let t = 0;
    for (let i1 = 0; i1 < s1; i1++) {
    const c2 = a1[i1];
    t += m.keep[0][i1] * (c1 * c2);
    }
    out[i0] = t;
    }
    return out;
    }
    }
    """
    by_target: dict[str, list[Statement]] = {}
    for statement in loops.statements:
        by_target.setdefault(statement.target, []).append(statement)
    return "{\n" + ",\n".join(f"{name}: {_Function(loops, name).text(s)}" for name, s in by_target.items()) + "\n}"


class _Function:
    """The function of one array: its statements one after the other."""

    def __init__(self, loops: Loops, target: str) -> None:
        self.loops, self.target = loops, target
        self.arrays: dict[str, None] = {}
        self.sizes: dict[str, str] = {}

    def size(self, extent: str) -> str:
        """An extent as code."""
        known = self.loops.extents[extent]
        return str(known) if known is not None else self.sizes.setdefault(extent, f"s{len(self.sizes)}")

    def _open(self, extent: str) -> str:
        """An extent that the program leaves open."""
        return "m.samples" if extent == self.loops.samples else f"m.width[{self.loops.widths.index(extent)}]"

    def place(self, array: str, indices: list[str]) -> str:
        """The place of an entry of an array; sizes of dimensions behind the first one matter."""
        self.arrays[array] = None
        return _flat(indices, [self.size(e) for e in self.loops.by_name[array].extents])

    def text(self, statements: list[Statement]) -> str:
        """The function."""
        total = " * ".join(self.size(e) for e in self.loops.by_name[self.target].extents) or "1"
        nests = [_Nest(self, s).lines() for s in statements]
        if len(nests) > 1:
            nests = [["{", *lines, "}"] for lines in nests]
        reads = [f'{a} = m.need("{a}")' for a in self.arrays if a != self.target]
        sizes = [f"{name} = {self._open(extent)}" for extent, name in self.sizes.items()]
        heading = [f"const {', '.join([*reads, *sizes])};"] if reads or sizes else []
        body = [line for lines in nests for line in lines]
        lines = [*heading, f"const out = new Float64Array({total});", *body, "return out;"]
        return "(m) => {\n" + "\n".join(lines) + "\n}"


class _Nest:
    """The loops of one statement, and expressions as code in the outermost loop that knows what they read."""

    def __init__(self, function: _Function, statement: Statement) -> None:
        self.function, self.statement = function, statement
        loops = [*statement.loops, *statement.summed]
        self.index = {loop.index: (f"i{d}", d + 1) for d, loop in enumerate(loops)}
        opening = [[f"for (let i{d} = 0; i{d} < {function.size(x.extent)}; i{d}++) {{"] for d, x in enumerate(loops)]
        self.levels: list[list[str]] = [[], *opening]
        self.memo: dict[Expr, tuple[str, int]] = {}
        self.count = 0

    def lines(self) -> list[str]:
        """target[loops] = scale · Σ_summed weights · body, or the maximum."""
        s = self.statement
        depth, code = len(s.loops), self.code(s.body)[0]
        if s.summed:
            weights = [w for d, loop in enumerate(s.summed) if (w := self._weight(loop, depth + d))]
            term = " * ".join([*weights, code])
            more = f"t = Math.max(t, {code});" if s.largest else f"t += {term};"
            self.levels[-1].append(more)
            self.levels[depth].append(f"let t = {'-Infinity' if s.largest else '0'};")
            for _ in s.summed:
                self.close()
            code = "t"
        if s.scale != 1:
            code = f"{self.code(s.scale)[0]} * {code}"
        indices = [self._place(i)[0] for i in s.indices]
        place = _flat(indices, [self.function.size(e) for e in self.function.loops.by_name[s.target].extents])
        there = " && ".join(f"{p} >= 0" for p, i in zip(indices, s.indices, strict=True) if self._has_gaps(i))
        self.levels[-1].append((f"if ({there}) " if there else "") + f"out[{place}] {'+=' if s.add else '='} {code};")
        for _ in s.loops:
            self.close()
        return self.levels[0]

    def _weight(self, loop: Loop, number: int) -> str:
        """The weights of a sum over neurons."""
        widths = self.function.loops.widths
        if self.statement.largest or loop.extent not in widths:
            return ""
        return f"m.keep[{widths.index(loop.extent)}][i{number}]"

    def close(self) -> None:
        """Close the innermost loop: its text becomes lines of the loop around it."""
        inside = self.levels.pop()
        self.levels[-1] += [*inside, "}"]

    def code(self, expr: Expr) -> tuple[str, int]:
        """An expression as code, and the depth of the innermost loop whose index it reads."""
        if expr not in self.memo:
            self.memo[expr] = self._written(expr)
        return self.memo[expr]

    def _written(self, expr: Expr) -> tuple[str, int]:
        if isinstance(expr, Read):
            return self._named(*self._read(expr))
        if isinstance(expr, Symbol):
            return self._symbol(expr)
        if expr.is_number:
            return _number(expr), 0
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            return self._joined(expr, " + " if isinstance(expr, sympy.Add) else " * ")
        parts = [self.code(a) for a in expr.args]
        codes = [c for c, _ in parts]
        if isinstance(expr, sympy.Pow):
            code = _power(expr, *codes)
        elif type(expr) in JAVASCRIPT:
            code = JAVASCRIPT[type(expr)](*codes)
        else:
            raise EvaluationError(f"`{expr}` ({type(expr).__name__}) has no form in JavaScript.")
        return self._named(code, max(d for _, d in parts))

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

    def _symbol(self, symbol: Expr) -> tuple[str, int]:
        """A running index, or an extent as a number."""
        name = str(symbol)
        if symbol in self.index:
            return self.index[symbol]
        if name not in self.function.loops.extents:
            raise EvaluationError(f"the constant `{name}` has no value: bind it before the network is trained.")
        return self.function.size(name), 0

    def _read(self, read: Read) -> tuple[str, int]:
        """An entry of an array; one at an index −1 that stands for "no entry" is zero."""
        places = [self._place(i) for i in read.indices]
        code = f"{read.array}[{self.function.place(read.array, [p for p, _ in places])}]"
        absent = [f"{p} < 0" for (p, _), i in zip(places, read.indices, strict=True) if self._has_gaps(i)]
        depth = max((d for _, d in places), default=0)
        return (f"({' || '.join(absent)} ? 0 : {code})" if absent else code), depth

    def _has_gaps(self, index: Expr) -> bool:
        return isinstance(index, Read) and self.function.loops.by_name[index.array].gaps

    def _place(self, index: Expr) -> tuple[str, int]:
        return (str(int(index)), 0) if isinstance(index, sympy.Integer) else self.code(index)


def _flat(places: list[str], sizes: list[str]) -> str:
    """The place of a multi-index in a flat array.

    >>> _flat(["i0", "i1", "2"], ["s0", "3", "4"])
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
