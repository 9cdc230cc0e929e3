"""Loops over arrays: what a program on a batch of inputs becomes before code is written in any language.

A list of statements in order, each one array filled by a loop,

    target[indices] = scale · Σ_summed body        (or the maximum; or added to what is there),

run over every index of `loops` (those of the target) and of `summed`.  A body is an expression of `Read`s of arrays, of
sizes as symbols, and of the heads of `tplimits.program.nodes.functions`; no sum stands inside another expression.

Dimensions of an array are named by extents: finite axes first, then the inputs, then neurons, so that the last one is
the longest.  An index is the symbol of a loop, a number, or a `Read` of an array of whole numbers: data, or a table,
where −1 stands for "no entry", which reads 0 and is never written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes import functions
from tplimits.program.nodes.frozen import FrozenDict

if TYPE_CHECKING:
    from tplimits.program.nodes.stated import IndexTable

#: what an array is: given from outside (data, a parameter, an error signal), a constant of the program, or computed
DATA, PARAMETER, CONSTANT, VALUE, OUTPUT, GRADIENT = "data", "parameter", "constant", "value", "output", "gradient"


#: heads that cost no more than a comparison; all others are computed once
_CHEAP = (
    functions.step,
    functions.relu,
    functions.leaky_relu,
    functions.maximum,
    functions.minimum,
    functions.where,
    functions.stop_gradient,
    sympy.Abs,
    sympy.sign,
)


def is_costly(expr: Expr) -> bool:
    """Whether an expression is one function, root or quotient of arrays that is computed once."""
    if isinstance(expr, _CHEAP):
        return False
    return isinstance(expr, sympy.Function) or bool(expr.is_Pow and not (expr.exp.is_Integer and expr.exp.is_positive))


class Read(Expr):
    """One entry of an array: (name as a symbol, *indices)."""

    is_commutative = True
    is_real = True
    is_number = False

    @property
    def array(self) -> str:
        return str(self.args[0].name)

    @property
    def indices(self) -> tuple[Expr, ...]:
        return tuple(self.args[1:])

    @property
    def free_symbols(self) -> set[Symbol]:
        return set().union(*(i.free_symbols for i in self.indices))

    def _sympystr(self, printer: object) -> str:
        return f"{self.array}[{', '.join(map(str, self.indices))}]" if self.indices else self.array


@dataclass(frozen=True)
class Array:
    """An array: its name in code, the extents of its dimensions, what it is, and what the program calls it.

    `values` are those of a constant; `whole` marks arrays of indices, `gaps` those where −1 is no entry.
    """

    name: str
    extents: tuple[str, ...]
    role: str
    title: str = ""
    values: IndexTable | None = None
    whole: bool = False
    gaps: bool = False

    def __str__(self) -> str:
        shape = f"[{', '.join(self.extents)}]" if self.extents else ""
        return f"{self.name}{shape} {self.role}{f' {self.title}' if self.title else ''}"


@dataclass(frozen=True)
class Loop:
    """A running index and the extent that it runs over."""

    index: Symbol
    extent: str

    def __str__(self) -> str:
        return f"{self.index}<{self.extent}"


@dataclass(frozen=True)
class Statement:
    """target[indices] = scale · Σ body for every index of `loops`, Σ over `summed`; the maximum if `largest`.

    With `add` the value is added to what is there.  Indices of the target that are no loop make it a scatter.
    """

    target: str
    indices: tuple[Expr, ...]
    loops: tuple[Loop, ...]
    body: Expr
    summed: tuple[Loop, ...] = ()
    scale: Expr = sympy.S.One
    largest: bool = False
    add: bool = False

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """What is read: by the body, by its indices and by those of the target."""
        found: set[Read] = self.body.atoms(Read) | self.scale.atoms(Read)
        for index in self.indices:
            found |= index.atoms(Read)
        return tuple(sorted(found, key=sympy.default_sort_key))

    @property
    def scatters(self) -> bool:
        """Whether the place that is written is looked up, or a part of the target."""
        return self.indices != tuple(loop.index for loop in self.loops)

    @cached_property
    def product(self) -> tuple[Read, Read] | None:
        """The factors of a sum of products of two reads over one index: a product of matrices."""
        if len(self.summed) != 1 or self.largest or self.scatters:
            return None
        parts = sympy.Mul.make_args(self.body)
        if len(parts) != 2 or not all(isinstance(p, Read) for p in parts):
            return None
        index = self.summed[0].index
        plain = all(isinstance(i, (Symbol, sympy.Integer)) for p in parts for i in p.indices)
        return (parts[0], parts[1]) if plain and all(index in p.indices for p in parts) else None

    def __str__(self) -> str:
        place = f"{self.target}[{', '.join(map(str, self.indices))}]" if self.indices else self.target
        loops = " ".join(map(str, self.loops))
        word = "max" if self.largest else "sum"
        over = f"{word}({' '.join(map(str, self.summed))}) " if self.summed else ""
        scale = "" if self.scale == 1 else f"{self.scale} * "
        return f"{f'for {loops}: ' if loops else ''}{place} {'+=' if self.add else '='} {scale}{over}{self.body}"


@dataclass(frozen=True)
class Loops:
    """Arrays and statements; `extents` gives the sizes that are known, None for those known when it is run.

    `names` maps the names of the program to arrays, `samples` is the extent of inputs, `widths` those of neurons.

    >>> import tplimits as tp
    >>> from tplimits.program.loops.lowering import forward
    >>> @tp.network
    ... def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.relu(tp.sum(U * ξ, over="d"))
    >>> print(forward(shallow.bind(d=2)))
    a0[d, sample] data ξ
    a1[d, n] parameter U
    a2[n] parameter v
    a3[sample, n] value return part
    f[sample] output
    for i0<sample i1<n: a3[i0, i1] = sum(i2<d) a0[i2, i0]*a1[i2, i1]
    for i0<sample: f[i0] = sum(i1<n) relu(a3[i0, i1])*a2[i1]
    """

    extents: Mapping[str, int | None] = field(hash=False)
    arrays: tuple[Array, ...]
    statements: tuple[Statement, ...]
    names: Mapping[str, str] = field(hash=False)
    samples: str
    widths: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "extents", FrozenDict(self.extents))
        object.__setattr__(self, "names", FrozenDict(self.names))

    @cached_property
    def by_name(self) -> dict[str, Array]:
        """The arrays by their names in code."""
        return {a.name: a for a in self.arrays}

    def of_role(self, *roles: str) -> Iterator[Array]:
        """The arrays of some roles, in order."""
        return (a for a in self.arrays if a.role in roles)

    def split(self, signal: str) -> tuple[Loops, Loops]:
        """The statements that do not rest on an array, and those that do."""
        after, first, second = {signal}, [], []
        for s in self.statements:
            if s.target in after or any(r.array in after for r in s.reads):
                after.add(s.target)
                second.append(s)
            else:
                first.append(s)
        return replace(self, statements=tuple(first)), replace(self, statements=tuple(second))

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.arrays, *self.statements)))
