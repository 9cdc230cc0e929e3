"""A program on jets: one pass over its instructions at the nodes of one frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.rules.reading import key_of
from tplimits.law.unroll import Unroller, indices, label
from tplimits.numbers.expansion.averages import Averages, Jet, number
from tplimits.numbers.expansion.bodies import Bodies
from tplimits.numbers.expansion.explicit import Explicit
from tplimits.numbers.expansion.matrices import Matrix
from tplimits.numbers.expansion.nodes import Field, Frame, mapped
from tplimits.numbers.expansion.singular import refuse_singular
from tplimits.numbers.expansion.turning import Turning
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, entries, width_symbol
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.kinds import Avg, InitialMatrix, InitialScalar, InitialVector, MatMul, OuterNonlin
from tplimits.program.walk import Walker

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.numbers.expansion.settled import Series
    from tplimits.program.nodes.kinds import ScalarNonlin
    from tplimits.program.nodes.program import Program

#: a direction of this squared length, beside that of its vector, is none: at finite width, and in the limit
_REPEATED, _VANISHING = 1e-10, (1e-8, 1e-3)
#: products of sums are written out where they are no longer than this
_SHORT = 60
#: one use of a matrix: the instruction, the place of the matrix among its family, which way, and on what
Use = tuple[int, tuple[int, ...], bool, Expr]


@dataclass
class Numbers:
    """What is given to a program: values of constants and scalars, and widths relative to n."""

    leaves: Mapping[Expr, float]
    scalars: Mapping[Key, float]
    ratios: Mapping[str, float]


@dataclass
class Pass(Walker[None]):
    """One pass; `exist` says which directions exist at finite width, and is filled where it is None at first."""

    program: Program
    numbers: Numbers
    averages: Averages
    exist: dict[Use, bool]
    size: int | None = None
    #: who expands functions at kinks where scalars settle, and functions of the width; None refuses them
    series: Series | None = None
    jets: dict[Key, Jet] = field(default_factory=dict)
    #: scalars √n · θ with θ → 0: the jets of θ
    fluctuations: dict[Key, Jet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._unroller = Unroller(self.program)
        self._matrices: dict[tuple[int, tuple[int, ...]], Matrix] = {}
        self._images: dict[Use, Jet] = {}
        self._where = ""
        widths = {width_symbol(w): self.numbers.ratios[w] for w in self.program.widths}
        explicit = None if self.series is None else Explicit(self.series, self.averages, Turning(self.program))
        self._bodies = Bodies(self.averages, self.numbers.leaves, widths, self._shown, self.size, explicit)

    @property
    def frame(self) -> Frame:
        """The nodes."""
        return self.averages.frame

    @property
    def _vanishing(self) -> float:
        return _VANISHING[0 if self.frame.divides else 1]

    def run(self) -> Pass:
        """All instructions."""
        for position, s in enumerate(self.program.instructions):
            self._where = self._bodies.where = self.program.where(position)
            for index in indices(self.program, s.axes):
                self.read(s, (position, index))
        return self

    # -- one method a kind --------------------------------------------------------------------

    def initial_matrix(self, s: InitialMatrix, key: Key) -> None:
        self._matrices[key] = Matrix(label(s.name, s.axes, key[1]), s.rows, s.columns)

    def initial_vector(self, s: InitialVector, key: Key) -> None:
        mean, std = (float(evaluate(v, self.numbers.leaves)) for v in (s.law.mean, s.law.std))
        if std == 0:
            self.jets[key] = number(mean)
        elif s.law.shape == "signs":
            self.jets[key] = Jet(mapped(lambda v: mean + std * v, self.frame.signs(s.over)))
        else:
            g = Symbol("g", real=True)
            image = s.law.shaped(g)
            normal = self.frame.normal(s.over)
            if image != g:
                self.frame.enters(normal)
            shaped = mapped(lambda v: evaluate(image, {**self.numbers.leaves, g: v}), normal)
            self.jets[key] = Jet(mapped(lambda v: mean + std * v, shaped))

    def initial_scalar(self, s: InitialScalar, key: Key) -> None:
        self.jets[key] = number(self.numbers.scalars[key])

    def average(self, s: Avg, key: Key) -> None:
        assert s.operand is not None
        x = self._read(self._unroller.at(s.operand, s.axes, key[1]))
        self.jets[key] = self.averages.average(x, s.over, label(s.name, s.axes, key[1]))

    def scalar(self, s: ScalarNonlin, key: Key) -> None:
        body = self._unroller.at(s.body, s.axes, key[1])
        root, rest = self._scaled_up(body)
        if root is None:
            self.jets[key] = self._read(body)
            return
        x = self._read(rest)
        if self.size is None and abs(float(x.value.values)) > self.frame.tolerance:
            raise NoLimitError(f"{self._where}: `{s.name}` grows with the width: {root} times what does not tend to 0.")
        self.fluctuations[key] = self.averages.scaled(x, root)

    def _scaled_up(self, body: Expr) -> tuple[float | None, Expr]:
        """A multiple of √n as (√(k/n), the rest); (None, body) for others."""
        (power, ratios), rest = self._bodies.powers_of_widths(body)
        return (ratios, sympy.Mul(*rest)) if power == S.Half else (None, body)

    def outer(self, s: OuterNonlin, key: Key) -> None:
        body = self._unroller.at(s.body, s.axes, key[1])
        if not s.slots:
            self.jets[key] = self._read(body)
            return
        if len(s.slots) > 1:
            raise NoLimitError(
                f"{self._where}: `{s.name}` averages over {len(s.slots)} further neurons: the expansion to order 1/n "
                "is implemented for functions of two neurons. Write it with averages over one, where it separates."
            )
        known = {}
        for e in entries(body):
            x = self._jet(e)
            known[e] = self._other(x) if e.neuron in s.slots else x
        if self.size is None and not self.averages.values_only:
            refuse_singular(body, self._inside, self._shown, self._where)
        both = self._bodies.evaluate(body, known)
        name = label(s.name, s.axes, key[1])
        self.jets[key] = self.averages.over_other(both, s.slot_widths[0], f"{name}, over {s.slot_names[0] or 'β'}")

    def _other(self, x: Jet) -> Jet:
        """The same vector at a second neuron."""
        move = self.frame.other
        shift = None if x.shift is None else move(x.shift)
        return Jet(move(x.value), {i: move(d) for i, d in x.slopes.items()}, shift)

    def _read(self, expr: Expr) -> Jet:
        known = {e: self._jet(e) for e in entries(expr)}
        if self.size is None and not self.averages.values_only:
            refuse_singular(expr, self._inside, self._shown, self._where)
        return self._bodies.evaluate(expr, known)

    def _jet(self, entry: Entry) -> Jet:
        key = key_of(entry)
        if key in self.fluctuations and self.size is None:
            raise NoLimitError(
                f"{self._where} reads `{self._shown(entry)}`, which stays random in the limit: an expansion to order "
                "1/n is of averages whose limits are numbers. Ask for the fluctuation itself."
            )
        return self.fluctuations[key] if key in self.fluctuations else self.jets[key]

    def _inside(self, entry: Entry) -> Expr | None:
        """The body of a function of vectors, the number of a scalar."""
        s, key = self.program[entry.source], key_of(entry)
        if entry.neuron == NO_NEURON:
            return sympy.Float(float(self.jets[key].value.values)) if key in self.jets else S.Zero
        if isinstance(s, OuterNonlin) and not s.slots:
            return self._unroller.at(s.body, s.axes, key[1])
        return None

    # -- products with matrices ---------------------------------------------------------------

    def matmul(self, s: MatMul, key: Key) -> None:
        assert s.operand is not None
        chosen = tuple(self._unroller.index_at(i, s.axes, key[1]) for i in s.matrix_indices)
        operand = self._unroller.at(s.operand, s.axes, key[1])
        total = number(0.0)
        for vector, coefficient in self._terms(operand).items():
            image = self._image((s.matrix, chosen, s.transposed, vector))
            total = self.averages.sum(total, self.averages.product(self._read(coefficient), image))
        self.jets[key] = total

    def _image(self, use: Use) -> Jet:
        """W applied to one vector, once for all that hold it."""
        position, chosen, transposed, vector = use
        if use not in self._images:
            name = self._shown(vector)

            def is_new(rest: Field, square: Field) -> bool:
                return self._is_new(use, rest, square, name)

            matrix = self._matrices[position, chosen]
            self._images[use] = matrix.apply(self.averages, self._read(vector), transposed, name, is_new)
        return self._images[use]

    def _is_new(self, use: Use, rest: Field, square: Field, name: str) -> bool:
        """Whether what a matrix is applied to has a part beyond the vectors before: as one drawn network had it."""
        if use not in self.exist:
            self.exist[use] = bool(rest.values > _REPEATED * square.values)
        elif (
            self.size is None
            and self.exist[use]
            and (rest.values <= self._vanishing * max(square.size, _REPEATED)).all()
        ):
            matrix = self.program[use[0]].name + ("ᵀ" if use[2] else "")
            raise NoLimitError(
                f"{self._where}: `{name}`, which {matrix} is applied to, has at finite width a part beyond the vectors "
                f"{matrix} was applied to before, and none in the limit: its length is a root at 0, so that there is "
                "no expansion in 1/n. Apply the matrix to the parts of a sum one by one, or leave the part out."
            )
        return self.exist[use]

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
                (vectors if any(e.neuron != NO_NEURON for e in entries(f)) else scalars).append(f)
            if self._grows(term):
                found[term] = found.get(term, S.Zero) + factor
                return
            factor = sympy.Mul(factor, *scalars)
            if len(vectors) == 1 and isinstance(vectors[0], sympy.Add):
                add(vectors[0], factor)
                return
            vector = sympy.Mul(*vectors)
            inside = self._opened(vector) if isinstance(vector, Entry) else None
            if inside is not None:
                add(inside, factor)
            else:
                found[vector] = found.get(vector, S.Zero) + factor

        add(sympy.expand_mul(expr) if expr.count_ops() < _SHORT else expr, S.One)
        return found

    def _grows(self, expr: Expr) -> bool:
        """Whether n to a positive power stands before it, which a series takes away."""
        return self.series is not None and bool(self._bodies.powers_of_widths(expr)[0][0] > 0)

    def _opened(self, entry: Entry) -> Expr | None:
        """The body of a vector that is a linear combination of others; None for other vectors."""
        s = self.program[entry.source]
        if not isinstance(s, OuterNonlin) or s.slots:
            return None
        body = self._unroller.at(s.body, s.axes, key_of(entry)[1])
        if self._grows(body):
            return None
        if body.count_ops() < _SHORT:
            body = sympy.expand_mul(body)
        linear = isinstance(body, (sympy.Add, Entry)) or not any(e.neuron != NO_NEURON for e in entries(body))
        scaled = isinstance(body, sympy.Mul) and any(
            not any(e.neuron != NO_NEURON for e in entries(f)) for f in body.args
        )
        return body if linear or scaled else None

    # -- words --------------------------------------------------------------------------------

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
            elif s.name.startswith("_") and isinstance(s, MatMul) and s.operand is not None:
                turned = "ᵀ" if s.transposed else ""
                inside = sympy.sstr(self._named(self._unroller.at(s.operand, s.axes, index)))
                swap[e] = Symbol(f"{self.program[s.matrix].name}{turned} {inside}")
            elif s.name.startswith("_") and isinstance(s, Avg) and s.operand is not None:
                swap[e] = Symbol(f"Avg({sympy.sstr(self._named(self._unroller.at(s.operand, s.axes, index)))})")
            elif s.name.startswith("_") and isinstance(s, OuterNonlin) and not s.slots:
                body = self._unroller.at(s.body, s.axes, index)
                swap[e] = self._named(body) if body.count_ops() < _SHORT else swap[e]
        return expr.xreplace(swap)
