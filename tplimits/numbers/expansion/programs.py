"""A program on jets: one pass over its instructions at the nodes of one frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.closed_forms.integrand import longer
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.kets import key_of
from tplimits.law.unroll import indices, label
from tplimits.numbers.expansion.bodies import Bodies
from tplimits.numbers.expansion.explicit import Explicit
from tplimits.numbers.expansion.fields import mapped
from tplimits.numbers.expansion.jets import Jet, number
from tplimits.numbers.expansion.kinks import Kinks
from tplimits.numbers.expansion.reading import Reading, Use
from tplimits.numbers.expansion.singular import continued, opened, reached, refuse_growth, refuse_singular
from tplimits.numbers.expansion.still import is_still
from tplimits.program.nodes.branches import BRANCHES, CONDITIONS
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, entries, width_symbol
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.functions import where
from tplimits.program.nodes.kinds import InitialScalar, InitialVector, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.log_sums import without_overflow
from tplimits.program.parts import found as parts
from tplimits.program.parts import put_in

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.numbers.expansion.averages import Averages
    from tplimits.numbers.expansion.nodes import Frame
    from tplimits.numbers.expansion.settled import Series
    from tplimits.program.nodes.program import Program

#: nodes of functions that are written out to see whether a pole is one
_LONG = 400
#: a direction of this squared length, beside that of its vector, is none: at finite width, and in the limit
_REPEATED, _VANISHING = 1e-10, (1e-8, 1e-3)


@dataclass
class Numbers:
    """What is given to a program: values of constants and scalars, and widths relative to n."""

    leaves: Mapping[Expr, float]
    scalars: Mapping[Key, float]
    ratios: Mapping[str, float]


class Pass(Reading[Jet]):
    """One pass; `exist` is filled where it is None at first.

    `series` expands functions at kinks where scalars settle, and functions of the width; None refuses them.
    """

    averages: Averages

    def __init__(
        self,
        program: Program,
        numbers: Numbers,
        averages: Averages,
        exist: dict[Use, bool],
        size: int | None = None,
        series: Series | None = None,
    ) -> None:
        super().__init__(program)
        self.numbers, self.averages, self.exist, self.size = numbers, averages, exist, size
        widths = {width_symbol(w): numbers.ratios[w] for w in program.widths}
        self._explicit = None if series is None else Explicit(series, averages, program)
        self._bodies = Bodies(averages, numbers.leaves, widths, self._shown, size, self._explicit)

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
            self._where = self._bodies.where = self.frame.where = self.program.where(position)
            for index in indices(self.program, s.axes):
                self.read(s, (position, index))
        return self

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

    def scalar(self, s: ScalarNonlin, key: Key) -> None:
        body = self._body(s, key)
        root, rest = self._scaled_up(body)
        if root is None:
            self.jets[key] = self._read(body)
            return
        x = self._read(rest)
        # √n times what tends to 0 is a fluctuation, and its C is asked for; else it diverges
        if self.size is None and abs(float(x.value.values)) > self.frame.tolerance:
            raise NoLimitError(f"{self._where}: `{s.name}` grows with the width: {root} times what does not tend to 0.")
        self.fluctuations[key] = self.averages.scaled(x, root)

    def _scaled_up(self, body: Expr) -> tuple[float | None, Expr]:
        """A multiple of √n as (√(k/n), the rest); (None, body) for others."""
        (power, ratios), rest = self._bodies.powers_of_widths(body)
        return (ratios, sympy.Mul(*rest)) if power == S.Half else (None, body)

    def outer(self, s: OuterNonlin, key: Key) -> None:
        body = self._body(s, key)
        if not s.slots:
            self.jets[key] = self._read(body)
            return
        if len(s.slots) > 1:
            raise NoLimitError(
                f"{self._where}: `{s.name}` averages over {len(s.slots)} further neurons: the expansion to order 1/n "
                "is implemented for functions of two neurons. Write it with averages over one, where it separates."
            )
        body, known = self._regular(body), {}
        for e in entries(body):
            x = self._jet(e)
            # the same functions on variables of a second neuron, independent of the first
            known[e] = x.through(self.frame.other) if e.neuron in s.slots else x
        both = self._bodies.read(body, known)
        name = label(s.name, s.axes, key[1])
        self.jets[key] = self.averages.over_other(both, s.slot_widths[0], f"{name}, over {s.slot_names[0] or 'β'}")

    def _read(self, expr: Expr) -> Jet:
        body = self._regular(expr)
        return self._bodies.read(body, {e: self._jet(e) for e in entries(body)})

    def _regular(self, body: Expr) -> Expr:
        """A body without removable poles at vectors; NoLimitError where others, or roots, are reached."""
        if self.size is None and not self.averages.values_only:
            refuse_growth(body, self._inside, self._shown, self._where)
        # exponentials that others keep bounded are none of a vector: 1/(1 + eˣ) is a sigmoid
        body = self._on_one_side(without_overflow(body))
        found = whole = continued(body)
        # t/h has no pole where t is tanh(h)
        while reached(whole, self._function) and (longer_one := self._written_out(body)) != body:
            body, whole = longer_one, continued(longer_one)
        found = found if reached(whole, self._function) else whole
        if self.size is None and not self.averages.values_only:
            refuse_singular(found, self._inside, self._shown, self._where, partial(self._is_still, found))
        return found

    def _on_one_side(self, body: Expr) -> Expr:
        """A body without the kinks whose arguments stay on one side of them at every width: relu(|h|) is |h|."""
        swap: dict[Expr, Expr] = {}
        for node in parts(body, *BRANCHES):
            # scalars may be on either side of their limits
            low, high = bounds(opened(CONDITIONS[type(node)](*node.args), self._function))
            if low > 0 or high <= 0 or (low == 0 and not isinstance(node, where)):
                swap[node] = BRANCHES[type(node)](*node.args)[1 if high <= 0 else 0]
        return self._on_one_side(put_in(body, swap, {})) if swap else body

    def _is_still(self, body: Expr, place: tuple[Expr, Expr]) -> bool:
        """Whether a pole or root is one at which nothing moves, of a body of one neuron's vectors."""
        if any(e.neuron not in (OWN, NO_NEURON) for e in entries(body)):
            return False
        told = f"{self._where}: `{self._shown(place[1])}`, at whose zeros `{self._shown(place[0])}` is singular,"
        return is_still(
            body,
            place,
            lambda form: self._bodies.evaluate(form, {e: self._jet(e) for e in entries(form)}),
            Kinks(self.frame, told),
        )

    def _written_out(self, body: Expr) -> Expr:
        """A body with what the functions of vectors that it reads are functions of."""
        swap: dict[Expr, Expr] = {}
        for e in entries(body):
            if isinstance(self.program[e.source], OuterNonlin) and (inside := self._function(e)) is not None:
                swap[e] = inside.xreplace({OWN: e.neuron})
        whole = body.xreplace(swap)
        return body if longer(whole, _LONG) else whole

    def _jet(self, entry: Entry) -> Jet:
        key = key_of(entry)
        if key in self.fluctuations and self.size is None:
            raise NoLimitError(
                f"{self._where} reads `{self._shown(entry)}`, which stays random in the limit: an expansion to order "
                "1/n is of averages whose limits are numbers. Ask for the fluctuation itself."
            )
        return self.fluctuations[key] if key in self.fluctuations else self.jets[key]

    def _inside(self, entry: Entry) -> Expr | None:
        """The body of a function of vectors, an initial vector by its law, the number of a scalar."""
        if entry.neuron != NO_NEURON:
            return self._function(entry)
        key = key_of(entry)
        number = float(self.jets[key].value.values) if key in self.jets else 0.0
        # rounding of a limit 0 keeps nothing off its pole
        return S.Zero if abs(number) < self.frame.tolerance else sympy.Float(number)

    def _function(self, entry: Entry) -> Expr | None:
        """The body of a function of vectors, an initial vector by its law; None for others."""
        s, key = self.program[entry.source], key_of(entry)
        if isinstance(s, OuterNonlin) and not s.slots:
            return self._body(s, key)
        return s.law.image(Symbol(f"x {entry}", real=True)) if isinstance(s, InitialVector) else None

    def _grows(self, expr: Expr) -> bool:
        return self._explicit is not None and bool(self._bodies.powers_of_widths(expr)[0][0] > 0)

    def _is_new(self, use: Use, rest: Jet, square: Jet, name: str) -> bool:
        """As one drawn network had it, or as is clear in the limit: where few neurons decide, a network may have none.

        relu(x − 3) was 0 at all of its neurons, and clip(x, −3, 3) was x.
        """
        left, whole = rest.value, square.value
        # a first, drawn network at finite width decides, and passes in the limit follow it
        if use not in self.exist:
            self.exist[use] = bool(left.values > _REPEATED * whole.values)
        elif self.size is None:
            is_gone = (left.values <= self._vanishing * max(whole.size, _REPEATED)).all()
            if self.exist[use] and is_gone:
                self._refuse_vanishing(use, name)
            self.exist[use] |= bool((left.values > _VANISHING[0] * whole.values).all())
        return self.exist[use]
