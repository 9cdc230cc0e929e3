"""One pass through a program: the powers of n of all values, given how far entries of parameters have moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program.network.differentiate import jumps
from tplimits.program.network.zeros import total_of
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, axis_symbol, entries
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    MatMul,
    Nonlin,
    OuterNonlin,
    standing,
)
from tplimits.program.parts import remembered
from tplimits.regimes.classification.derivation.factors import multiplied_by_powers
from tplimits.regimes.classification.derivation.means import Means, means_of
from tplimits.regimes.classification.derivation.parity import Parities, parities
from tplimits.regimes.classification.derivation.sizes import CONSTANT, HALF, NOTHING, Power, Size, largest, size_of

if TYPE_CHECKING:
    from tplimits.program.network.backward import Backward
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.exponents import Exponents


@dataclass(frozen=True)
class Passes:
    """The passes through a network, its gradients, and the gradients of single averages."""

    network: Program
    exponents: Mapping[str, Exponents] = field(hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponents", FrozenDict(self.exponents))

    @cached_property
    def backward(self) -> Backward:
        """The total program."""
        return total_of(self.network)

    @cached_property
    def means(self) -> Means:
        """Which averages, and whether the output, have the mean zero."""
        starts = {}
        for name, e in self.exponents.items():
            s = self.network[self.network.initial_names[name]]
            # beside what is natural: matrices have n^(−½) in the program itself
            start = as_fraction(e.a + e.b) - (HALF if isinstance(s, InitialMatrix) else 0)
            if start:
                starts[name] = start
        return means_of(self.network, tuple(sorted(starts.items())))

    @property
    def widths(self) -> frozenset[sympy.Symbol]:
        """The symbols that grow like n."""
        return self.network.known.width_symbols

    def sizes(
        self, program: Program, moves: Mapping[str, Power], aligned: Mapping[int, Power], last: int | None = None
    ) -> tuple[dict[int, Size], dict[int, Size]]:
        """The sizes of all values of the network and what follows it, and of arguments inside of functions.

        last: the position after which nothing is asked for.
        """
        sizes: dict[int, Size] = {}
        arguments: dict[int, Size] = {}
        whole = program is self.backward.program
        for position, s in enumerate(islice(program, None if last is None else last + 1)):
            if isinstance(s, (InitialMatrix, InitialVector, InitialScalar)):
                sizes[position] = CONSTANT if position in program.inputs else self._parameter(s.name, moves)
            elif isinstance(s, MatMul):
                sizes[position] = self._product(s, sizes)
            elif isinstance(s, Avg):
                known = whole or position < len(self.network)
                x = sizes[s.operand.source]
                if known and x.loose > NOTHING and position not in self.means.always:
                    x = replace(x, loose=self._loose(program, s.operand.source, sizes, x))
                sizes[position] = self.averaged(position, x, aligned.get(position)) if known else x
            else:
                assert isinstance(s, Nonlin)
                inside: list[Size] = []
                sizes[position] = self._body(s.body, sizes, inside, s.width is not None)
                if s.width is not None and (position < len(self.network) or position in self._read_out):
                    rough = max(sizes[position].rough, self._rough(s.body, sizes))
                    sizes[position] = replace(sizes[position], rough=rough)
                # a scalar with the limit 0 is of the order of its fluctuation, and the same at all neurons; √n ⟨q k⟩,
                # whose limit is 0 were n a constant, keeps the order that the fluctuation is multiplied to
                if position in self.means.zeros:
                    start = max(min(sizes[position].start, -HALF), sizes[position].fallen)
                    sizes[position] = replace(sizes[position], start=start, fallen=start)
                if inside and position < len(self.network):
                    arguments[position] = largest(inside)
        return sizes, arguments

    def _parameter(self, name: str, moves: Mapping[str, Power]) -> Size:
        """Entries of a parameter in the program's scale."""
        e, moved = self.exponents[name], moves.get(name, NOTHING)
        s = self.network[self.network.initial_names[name]]
        starts_at_zero = isinstance(s, InitialScalar) and s.value == 0
        if starts_at_zero or (isinstance(s, (InitialVector, InitialScalar)) and s.law.mean == s.law.std == 0):
            # weights that start at 0 have no size until they move
            return Size(NOTHING, moved)
        return Size(-as_fraction(e.a + e.b), moved)

    def _product(self, s: MatMul, sizes: Mapping[int, Size]) -> Size:
        """W x: random entries add up like √n, changes like n."""
        matrix, x = sizes[s.matrix], sizes[s.operand.source]
        kept = x.times(matrix.start + HALF)
        # what has moved in x passes the random matrix like anything else; what has moved in W is aligned with x
        return replace(kept, move=max(kept.move, matrix.move + 1 + x.total))

    def averaged(self, position: int, x: Size, aligned: Power | None = None) -> Size:
        """An average, or at the position of what is returned n^(−1) of the sum, of entries of a size.

        `aligned` is the change by the gradients through it where that of the others is centred.
        """
        centred, always = position in self.means.centred, position in self.means.always
        move = x.move if aligned is None else max(aligned, x.move - HALF)
        # whatever scalars are, the mean vanishes: before and after they have moved
        if always:
            return Size(x.start - HALF, move, x.loose - HALF, x.start - HALF)
        if position in self.means.falls:
            start = x.start - self.means.falls[position]
        else:
            start = max(x.start - HALF, x.fallen) if centred else x.start
        return Size(start, move, x.loose, start if centred else x.fallen)

    def _loose(self, program: Program, position: int, sizes: Mapping[int, Size], x: Size) -> Power:
        """What scalars change of an average, term by term: a term whose mean vanishes whatever they are falls by ½."""
        terms = terms_of(program, position)
        if len(terms) < 2:
            return x.loose
        found = ((self._body(t, sizes, [], True).loose, HALF * self._symmetry.vanishes(t)) for t in terms)
        return min(x.loose, max(loose - fall for loose, fall in found))

    @cached_property
    def _symmetry(self) -> Parities:
        """What vanishes for all values of scalars."""
        return parities(self.backward.program, False, {})

    def _body(self, body: Expr, sizes: Mapping[int, Size], arguments: list[Size], vector: bool) -> Size:
        read = tuple(sizes[e.source].powers for e in entries(body))
        limits = tuple((e, self.means.limits[e.source]) for e in entries(body) if e.source in self.means.limits)
        found, inside = _sized(body, read, vector, self.widths, limits)
        arguments += inside
        return found

    @cached_property
    def _read_out(self) -> frozenset[int]:
        """Gradients of vectors, among them the features that readouts multiply: what flips moves no other gradients."""
        uses = (u for name in self.exponents for u in self.backward.gradients[name])
        return frozenset(u.gradient.source for u in uses if u.operand is None)

    def _rough(self, body: Expr, sizes: Mapping[int, Size]) -> Power:
        """The root mean square of what the jumps of a body change."""
        crossings = ((self._body(x, sizes, [], True) for x in crossing) for crossing in _crossings(body))
        return max((height.flipping(place) for place, height in crossings), default=NOTHING)

    def gradient(self, backward: Backward, name: str, sizes: Mapping[int, Size]) -> Power:
        """The size of the gradient of the sum of what is returned."""
        scalar = isinstance(self.network[self.network.initial_names[name]], InitialScalar)
        found: list[Power] = [NOTHING]
        for use in backward.gradients[name]:
            power = sizes[use.gradient.source].total + (1 if scalar else 0)
            # the gradient of a matrix entry is a product of both sides, with no sum over neurons
            found.append(power + (sizes[use.operand.source].total if use.operand is not None else 0))
        return max(found)

    @cached_property
    def fluctuating(self) -> tuple[int, ...]:
        """Averages that are centred whatever scalars are and whose fluctuations count: powers of n multiply them, or a
        jump at 0, which is the same at √n times its argument, reads them beside an output that is independent."""
        bodies = [s.body for s in self.network if isinstance(s, Nonlin)]
        grown = {e.source for body in bodies for e in multiplied_by_powers(body, self.widths)}
        jumped = {e.source for body in bodies for place, _ in jumps(body) for e in entries(place)} - grown
        grown |= {p for p in jumped & self.means.always if self._moves_apart(p)}
        return tuple(p for p in sorted(grown & self.means.always) if isinstance(self.network[p], Avg))

    def _moves_apart(self, position: int) -> bool:
        """Whether gradients of the output that go not through an average change it like something independent of it.

        The mean of ∂a ∂f over weights has the signs of a f: that of ⟨x v⟩ beside the output v x does not vanish.
        """
        s, end = self.network[position], self.network.returns[0]
        output = Entry(sympy.Integer(end), OWN, *map(axis_symbol, self.network[end].axes))
        return isinstance(s, Avg) and self._symmetry.vanishes(s.operand * output)

    def aligned(self, own: Mapping[int, Mapping[str, Power]]) -> dict[int, Power]:
        """The change of each such average by the gradients through it alone: others are independent of it."""
        found: dict[int, Power] = {}
        for c, moves in own.items():
            s = self.network[c]
            assert isinstance(s, Avg)
            found[c] = self.sizes(self.network, moves, found, s.operand.source)[0][s.operand.source].move
        return found

    def whole(self, name: str, sizes: Mapping[int, Size], a_out: Fraction) -> Power:
        """The size of the gradient of the output, n^(−a_out) times the sum and what is added to it."""
        # what is added has no sum over neurons: its gradient with respect to one entry is 1/n of that
        entry = not isinstance(self.network[self.network.initial_names[name]], InitialScalar)
        shifts = [sizes[u.gradient.source].total - entry for u in self.backward.shift_gradients[name]]
        return max([self.gradient(self.backward, name, sizes) - a_out, *shifts])

    def shares(
        self, c: int, sizes: Mapping[int, Size], moves: Mapping[str, Power], a_out: Fraction
    ) -> dict[str, Power]:
        """The power of n of the gradient of each parameter through an average, next to the whole of it."""
        s = self.network[c]
        assert isinstance(s, Avg)
        # the gradients through the average are those of the network that returns what is averaged
        path = total_of(self.network.replace(returns=(s.operand.source,)))
        on_path = self.sizes(path.program, moves, {})[0]
        # what the output's gradient is at the average multiplies all that goes through it
        read = [sizes[u.gradient.source].total - a_out for u in self.backward.adjoints.get(c, ())]
        added = [sizes[u.gradient.source].total - 1 for u in self.backward.shift_adjoints.get(c, ())]
        incoming = max([*read, *added], default=NOTHING)
        found: dict[str, Power] = {}
        for name in self.exponents:
            whole, through = self.whole(name, sizes, a_out), self.gradient(path, name, on_path)
            share = incoming + through - whole if NOTHING not in (incoming, through, whole) else NOTHING
            found[name] = min(share, Fraction(0))
        return found


class Aligned(Passes):
    """Passes that take no average for small, as none is late in training."""

    @cached_property
    def means(self) -> Means:
        return Means(frozenset(), frozenset())


@lru_cache(maxsize=4096)
def terms_of(program: Program, position: int) -> tuple[Expr, ...]:
    """The terms of a vector, products with sums of vectors multiplied out once."""
    s = program[position]
    if not isinstance(s, OuterNonlin) or s.slots:
        return ()
    return tuple(t for term in sympy.Add.make_args(s.body) for t in _multiplied_out(program, term))


def _multiplied_out(program: Program, term: Expr) -> Iterator[Expr]:
    for factor in sympy.Mul.make_args(term):
        if isinstance(factor, Entry) and factor.neuron == OWN:
            inner = program[factor.source]
            if isinstance(inner, OuterNonlin) and not inner.slots and isinstance(inner.body, sympy.Add):
                yield from (term / factor * t for t in standing(inner, factor).args)
                return
    yield term


@remembered(2**16)
def _sized(
    body: Expr,
    read: tuple[tuple[Power, ...], ...],
    vector: bool,
    widths: frozenset[sympy.Symbol],
    limits: tuple[tuple[Entry, Expr], ...],
) -> tuple[Size, tuple[Size, ...]]:
    """The size of a body whose entries have these sizes, and of what functions in it are applied to.

    A step changes few sizes, and layers are alike: most of what a pass asks has been asked before.
    """
    known = {e: Size(*powers) for e, powers in zip(entries(body), read, strict=True)}

    def of_entry(entry: Entry) -> Size:
        size = known[entry]
        if entry.neuron == NO_NEURON:  # a scalar: its change is not aligned with anything
            return (
                replace(size, move=NOTHING, loose=size.change)
                if vector
                else replace(size, move=size.change, loose=NOTHING)
            )
        return size if entry.neuron == OWN else replace(size, rough=NOTHING)

    inside: list[Size] = []
    return size_of(body, of_entry, widths, inside, dict(limits)), tuple(inside)


@remembered(4096)
def _crossings(body: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """Where each neuron jumps by itself, and how high: means over others are smooth, and a scalar is one number."""
    return tuple(
        crossing for crossing in jumps(body) if {e.neuron for e in entries(crossing[0])} - {NO_NEURON} == {OWN}
    )


def as_fraction(value: Expr) -> Fraction:
    """An exponent as a fraction."""
    exact = sympy.Rational(value)
    return Fraction(int(exact.p), int(exact.q))
