"""A program read instruction by instruction, whatever its averages are carried as: products with matrices, and words.

A matrix is what it was applied to (`matrices`); W is applied to the parts of a sum one by one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.kets import key_of
from tplimits.law.observables import BracketObservable, Observable, ScalarObservable
from tplimits.law.unroll import Unroller, label
from tplimits.numbers.expansion.matrices import Algebra, Matrix
from tplimits.program.nodes.branches import without_jumps
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, entries, reads_vectors, width_symbol
from tplimits.program.nodes.kinds import Avg, InitialMatrix, MatMul, Nonlin, OuterNonlin, ScalarNonlin
from tplimits.program.walk import Walker

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.program.nodes.program import Program

J = TypeVar("J")
#: products of sums are written out where they are no longer than this
_SHORT = 60
#: one use of a matrix: the instruction, the place of the matrix among its family, which way, and on what
Use = tuple[int, tuple[int, ...], bool, Expr]


class Reading(Walker[None], Generic[J]):
    """One pass; `exist` says which directions exist at finite width."""

    averages: Algebra[J]
    exist: dict[Use, bool]

    def __init__(self, program: Program) -> None:
        # before sums are written out: (x − y) sign(x − y) jumps term by term
        self.program = program.changed(without_jumps)
        self.jets: dict[Key, J] = {}
        #: scalars √n · θ with θ → 0: the jets of θ
        self.fluctuations: dict[Key, J] = {}
        self._unroller = Unroller(program)
        self._matrices: dict[tuple[int, tuple[int, ...]], Matrix[J]] = {}
        self._images: dict[Use, J] = {}
        self._where = ""

    @abstractmethod
    def _read(self, expr: Expr) -> J:
        """An expression in entries that are known."""

    @abstractmethod
    def _is_new(self, use: Use, rest: J, square: J, name: str) -> bool:
        """Whether what a matrix is applied to has a part beyond the vectors before, of this squared length."""

    def observed(self, observable: Observable) -> J:
        """A scalar of the program, or a bracket of two vectors."""
        if isinstance(observable, ScalarObservable):
            return self.jets[observable.key] if observable.key in self.jets else self.fluctuations[observable.key]
        assert isinstance(observable, BracketObservable)
        width = self.program[observable.left[0]].width
        assert width is not None
        product = self.averages.product(self.jets[observable.left], self.jets[observable.right])
        return self.averages.average(product, width, observable.label)

    def _body(self, s: Nonlin, key: Key) -> Expr:
        """The body of a function at a place, with what fluctuations √n θ stand for: √n θ/√n is a number again."""
        body = self._unroller.at(s.body, s.axes, key[1])
        swap: dict[Expr, Expr] = {}
        for e in entries(body):
            if key_of(e) in self.fluctuations:
                named = self.program[e.source]
                assert isinstance(named, ScalarNonlin)
                swap[e] = self._body(named, key_of(e))
        whole = body.xreplace(swap) if swap else body
        # a vector that stays random is refused by the name of what does
        is_left = (
            swap and isinstance(s, OuterNonlin) and whole.has(*map(sympy.sqrt, map(width_symbol, self.program.widths)))
        )
        return body if is_left else whole

    def initial_matrix(self, s: InitialMatrix, key: Key) -> None:
        self._matrices[key] = Matrix(label(s.name, s.axes, key[1]), s.rows, s.columns)

    def average(self, s: Avg, key: Key) -> None:
        x = self._read(self._unroller.at(s.operand, s.axes, key[1]))
        self.jets[key] = self.averages.average(x, s.over, label(s.name, s.axes, key[1]))

    def matmul(self, s: MatMul, key: Key) -> None:
        chosen = tuple(self._unroller.index_at(i, s.axes, key[1]) for i in s.matrix_indices)
        operand = self._unroller.at(s.operand, s.axes, key[1])
        parts = [
            self.averages.product(self._read(coefficient), self._image((s.matrix, chosen, s.transposed, vector)))
            for vector, coefficient in self._terms(operand).items()
        ]
        self.jets[key] = self.averages.sum(*parts) if parts else self._read(S.Zero)

    def _image(self, use: Use) -> J:
        """W applied to one vector, once for all that hold it."""
        position, chosen, transposed, vector = use
        if use not in self._images:
            name = self._shown(vector)

            def is_new(rest: J, square: J) -> bool:
                return self._is_new(use, rest, square, name)

            matrix = self._matrices[position, chosen]
            self._images[use] = matrix.apply(self.averages, self._read(vector), transposed, name, is_new)
        return self._images[use]

    def _terms(self, expr: Expr) -> dict[Expr, Expr]:
        """A vector as Σ scalar · vector: W is applied to each, so that parts of them that vanish have their image."""
        found: dict[Expr, Expr] = {}

        def add(term: Expr, factor: Expr) -> None:
            if isinstance(term, sympy.Add):
                for a in term.args:
                    add(a, factor)
                return
            scalars: list[Expr] = []
            vectors: list[Expr] = []
            for f in sympy.Mul.make_args(term):
                (vectors if reads_vectors(f) else scalars).append(f)
            # kept whole for the series that takes the power away: √n·tanh(h/√n) has no limit factor by factor
            if self._grows(term):
                found[term] = found.get(term, S.Zero) + factor
                return
            factor = sympy.Mul(factor, *scalars)
            if len(vectors) == 1 and isinstance(vectors[0], sympy.Add):
                add(vectors[0], factor)
                return
            vector = sympy.Mul(*vectors)
            # through named sums: x + y and 2x + y share the directions x and y
            inside = self._opened(vector) if isinstance(vector, Entry) else None
            if inside is not None:
                add(inside, factor)
            else:
                # like vectors collect: W(x − x) meets no direction
                found[vector] = found.get(vector, S.Zero) + factor

        add(sympy.expand_mul(expr) if expr.count_ops() < _SHORT else expr, S.One)
        return found

    def _grows(self, expr: Expr) -> bool:
        """Whether n to a positive power stands before a vector, which a series takes away."""
        return False

    def _opened(self, entry: Entry) -> Expr | None:
        """The body of a vector that is a linear combination of others; None for other vectors."""
        s = self.program[entry.source]
        if not isinstance(s, OuterNonlin) or s.slots:
            return None
        body = self._body(s, key_of(entry))
        if self._grows(body):
            return None
        if body.count_ops() < _SHORT:
            body = sympy.expand_mul(body)
        linear = isinstance(body, (sympy.Add, Entry)) or not reads_vectors(body)
        scaled = isinstance(body, sympy.Mul) and any(not reads_vectors(f) for f in body.args)
        return body if linear or scaled else None

    def _refuse_vanishing(self, use: Use, name: str) -> None:
        matrix = self.program[use[0]].name + ("ᵀ" if use[2] else "")
        raise NoLimitError(
            f"{self._where}: `{name}`, which {matrix} is applied to, has at finite width a part beyond the vectors "
            f"{matrix} was applied to before, and none in the limit: its length is a root at 0, so that there is "
            "no expansion in 1/n. Apply the matrix to the parts of a sum one by one, or leave the part out."
        )

    def _shown(self, expr: Expr) -> str:
        """An expression in the names of the program."""
        return sympy.sstr(self._named(expr))

    def _named(self, expr: Expr) -> Expr:
        """With names for entries, and what they are where they have none."""
        swap: dict[Expr, Expr] = {}
        for e in entries(expr):
            s, index = self.program[e.source], key_of(e)[1]
            swap[e] = Symbol(label(s.name, s.axes, index))
            if e.neuron not in (OWN, NO_NEURON):
                swap[e] = Symbol(f"{label(s.name, s.axes, index)}[β]")
            elif s.name.startswith("_") and isinstance(s, MatMul):
                turned = "ᵀ" if s.transposed else ""
                inside = sympy.sstr(self._named(self._unroller.at(s.operand, s.axes, index)))
                swap[e] = Symbol(f"{self.program[s.matrix].name}{turned} {inside}")
            elif s.name.startswith("_") and isinstance(s, Avg):
                swap[e] = Symbol(f"Avg({sympy.sstr(self._named(self._unroller.at(s.operand, s.axes, index)))})")
            elif s.name.startswith("_") and isinstance(s, OuterNonlin) and not s.slots:
                body = self._unroller.at(s.body, s.axes, index)
                swap[e] = self._named(body) if body.count_ops() < _SHORT else swap[e]
        return expr.xreplace(swap)
