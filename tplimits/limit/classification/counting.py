"""Powers of n counted on a network's total program: forward, backward, and the updates of its parameters.

A matrix with entries n^(−½ − e) that moves by n^(−m) an entry takes x of size n^s to W x of size n^(s − e), and changes
it by n^(1 − m + s), since updates are aligned with what they were made from.  Averages that are multiplied by powers of
n, such as logits over √n, are aligned with the gradients through them, and change by n^(−½) of all others.  An average is n^(−½) of what is averaged
where the mean vanishes, which the kets tell (`tplimits.limit.classification.means`): at the start, and later for what
scalars change, where the mean vanishes whatever they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import networkx
import sympy
from sympy import Expr

from tplimits.limit.classification.means import Means, means_of, total_of
from tplimits.limit.classification.scaling import Scaling, multiplied_by_powers, scaling_of
from tplimits.limit.classification.sizes import CONSTANT, HALF, NOTHING, Power, Size, largest, size_of
from tplimits.program.backward import Backward
from tplimits.program.entries import NO_NEURON, Entry
from tplimits.program.nodes import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import Roles, roles
from tplimits.program.parametrization.table import Parametrization
from tplimits.program.program import Program

#: steps of training that are counted; powers settle after a few, or grow without end
STEPS = 8


@dataclass(frozen=True)
class Step:
    """Powers of n at one time.

    `sizes` are those of all forward values by position, `gradients` of scaled gradients by name, `reads` of the
    features that each readout multiplies; `arguments` are the largest powers inside of functions, by position.
    """

    sizes: Mapping[int, Size]
    output: Size
    gradients: Mapping[str, Power]
    reads: Mapping[str, Size]
    arguments: Mapping[int, Size]


@dataclass(frozen=True)
class Counting:
    """The powers of n of a network in training, step by step; exponents have to be numbers."""

    network: Program
    parametrization: Parametrization
    optimizer: Any
    steps: tuple[Step, ...] = field(init=False, repr=False, hash=False, compare=False)
    #: the power of n by which an entry of each parameter moves, at its largest
    rates: Mapping[str, Power] = field(init=False, repr=False, hash=False, compare=False)
    #: the same by the gradients through one average alone, for those in `multiplied`
    own: Mapping[int, Mapping[str, Power]] = field(init=False, repr=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        steps, rates = self._counted()
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "rates", rates)

    @cached_property
    def exponents(self) -> dict[str, Exponents]:
        """The exponents of each parameter."""
        return self.parametrization.of(self.network)

    @cached_property
    def roles(self) -> Roles:
        """What the parameters are."""
        return roles(self.network)

    @cached_property
    def backward(self) -> Backward:
        """The total program."""
        return total_of(self.network)

    @cached_property
    def means(self) -> Means:
        """Which averages, and whether the output, have the mean zero."""
        return means_of(self.network)

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        """Forward values that data and parameters enter, without those that readouts enter: the features.

        What is returned is one where there is no readout.
        """
        graph = self.network.graph
        readouts = {self.network.initial_names[r] for r in self.roles.named("readout")}
        trained = {self.network.initial_names[p] for p in self.exponents}
        found = []
        for position, s in enumerate(self.network):
            behind = networkx.ancestors(graph, position)
            if s.operands and behind & set(self.network.inputs) and behind & trained and not behind & readouts:
                found.append(position)
        return tuple(p for p in found if p not in self.network.returns or not readouts and p == self.network.returns[0])

    @cached_property
    def scaling(self) -> Scaling:
        """The powers of n that the program holds."""
        return scaling_of(self.network, self.parametrization)

    @cached_property
    def scales(self) -> dict[str, Fraction]:
        """The size of a feature where everything nonlinear and all that is read is of order 1: n^0 but for factors."""
        powers = self.scaling.positions
        found = {self.name(p): _fraction(powers[p]) for p in self.hidden}
        return found | {self.reading(r): -_fraction(self.scaling.parameters[r]) for r in self.steps[0].reads}

    @property
    def widths(self) -> frozenset[sympy.Symbol]:
        """The symbols that grow like n."""
        return self.network.known.width_symbols

    @property
    def features_move(self) -> Power:
        """The largest power of n by which features move, next to their scale, late in training."""
        moves = self.moves(len(self.steps) - 1)
        return max((moves[name] - scale for name, scale in self.scales.items()), default=NOTHING)

    @cached_property
    def starts(self) -> list[tuple[str, Power, Power]]:
        """Name, power at the start, and power in a natural one, of features, and of vectors and scalars themselves.

        A natural start has a + b = ½ in matrices and 0 elsewhere, but for powers of n that the program multiplies by.
        """
        natural = self._natural
        pairs = [(self.name(p), self.steps[0].sizes[p], natural.steps[0].sizes[p]) for p in self.hidden]
        pairs += [(self.reading(r), size, natural.steps[0].reads[r]) for r, size in self.steps[0].reads.items()]
        pairs += [
            (
                name,
                self.steps[0].sizes[self.network.initial_names[name]],
                natural.steps[0].sizes[self.network.initial_names[name]],
            )
            for name in self.roles.named("vector", "scalar")
        ]
        return [(name, now.start, then.start) for name, now, then in pairs]

    @cached_property
    def natural(self) -> dict[str, Power]:
        """The power at a natural start of each feature."""
        return {name: power for name, _, power in self.starts}

    @cached_property
    def _natural(self) -> Counting:
        return replace(self, parametrization=_natural(self))

    def moves(self, t: int) -> dict[str, Power]:
        """The power of n of the change since the start after t steps, of each feature and of f; −∞ if there is none."""
        return self._moves(self.steps[min(t, len(self.steps) - 1)])

    def moved_by(self, name: str) -> dict[str, Power]:
        """The powers of what the updates of one parameter change, at the size that they have beside all others."""
        alone = {c: {name: kept[name]} for c, kept in self.own.items()}
        sizes = self._sizes(self.backward.program, {name: self.rates[name]}, self._aligned(alone))
        return self._moves(self._step(*sizes))

    def _moves(self, step: Step) -> dict[str, Power]:
        found = {self.name(p): step.sizes[p].change for p in self.hidden}
        found |= {self.reading(r): size.change for r, size in step.reads.items()}
        return found | {"f": step.output.move}

    @property
    def readout_at_start(self) -> Power:
        """The power of n of f_0 without the scalars that are added to it."""
        return self._summed(self.steps[0].sizes).start

    def name(self, position: int) -> str:
        """How a value is called."""
        return self.network[position].name

    @cached_property
    def vectors(self) -> tuple[str, ...]:
        """The features that are vectors, each once: what a readout multiplies may have a name of its own."""
        found = {p: self.name(p) for p in self.hidden if self.network[p].width is not None}
        for readout in self.steps[0].reads:
            found.setdefault(self.backward.gradients[readout][0].gradient.source, self.reading(readout))
        return tuple(found.values())

    def reading(self, readout: str) -> str:
        """How the features that a readout multiplies are called."""
        return f"what {readout} reads"

    # -- one pass -----------------------------------------------------------------------------

    def _counted(self) -> tuple[tuple[Step, ...], dict[str, Power]]:
        """Steps, and how entries of parameters move: by all gradients, and by those through single averages."""
        moves: dict[str, Power] = {}
        own: dict[int, dict[str, Power]] = {c: {} for c in self.multiplied}
        found = []
        for _ in range(STEPS + 1):
            sizes, arguments = self._sizes(self.backward.program, moves, self._aligned(own))
            step = self._step(sizes, arguments)
            found.append(step)
            fresh = {name: self._move(name, step) for name in self.exponents}
            moves = {name: max(moves.get(name, NOTHING), power) for name, power in fresh.items()}
            for c, kept in own.items():
                shares = self._shares(c, sizes, moves)
                own[c] = {name: max(kept.get(name, NOTHING), fresh[name] + shares[name]) for name in fresh}
        object.__setattr__(self, "own", own)
        return tuple(found), moves

    @cached_property
    def multiplied(self) -> tuple[int, ...]:
        """Averages of the network that are centred whatever scalars are, and that it multiplies by powers of n."""
        grown = {e.source for s in self.network if isinstance(s, (OuterNonlin, ScalarNonlin))
                 for e in multiplied_by_powers(s.body, self.widths)}  # fmt: skip
        return tuple(p for p in sorted(grown & self.means.always) if isinstance(self.network[p], Avg))

    def _aligned(self, own: Mapping[int, Mapping[str, Power]]) -> dict[int, Power]:
        """The change of each such average by the gradients through it alone: others are independent of it."""
        found: dict[int, Power] = {}
        for c, moves in own.items():
            s = self.network[c]
            assert isinstance(s, Avg) and s.operand is not None
            found[c] = self._sizes(self.network, moves, found)[0][s.operand.source].move
        return found

    def _shares(self, c: int, sizes: Mapping[int, Size], moves: Mapping[str, Power]) -> dict[str, Power]:
        """The power of n of the gradient of each parameter through an average, next to the whole of it."""
        s = self.network[c]
        assert isinstance(s, Avg) and s.operand is not None
        path = total_of(self.network.replace(returns=(s.operand.source,)))
        on_path = self._sizes(path.program, moves, {})[0]
        incoming = max((sizes[u.gradient.source].total for u in self.backward.adjoints.get(c, ())), default=NOTHING)
        found: dict[str, Power] = {}
        for name in self.exponents:
            whole, through = self._raw(self.backward, name, sizes), self._raw(path, name, on_path)
            share = incoming + through - whole if NOTHING not in (incoming, through, whole) else NOTHING
            found[name] = min(share, Fraction(0))
        return found

    def _raw(self, backward: Backward, name: str, sizes: Mapping[int, Size]) -> Power:
        """The size of the gradient of the sum of what is returned."""
        found: list[Power] = [NOTHING]
        for use in backward.gradients[name]:
            power = sizes[use.gradient.source].total + (1 if self.roles.kinds[name] == "scalar" else 0)
            found.append(power + (sizes[use.operand.source].total if use.operand is not None else 0))
        return max(found)

    def _move(self, name: str, step: Step) -> Power:
        """The power of n by which an entry of the program's parameter moves in a step."""
        e, scaled = self.exponents[name], step.gradients[name]
        if scaled == NOTHING:
            return NOTHING
        optimizer = self.optimizer[name] if isinstance(self.optimizer, Mapping) else self.optimizer
        extra = optimizer.extra_power(self.roles.kinds[name], e)
        return updated(optimizer, scaled) - _fraction(e.a + e.c + extra)

    def _sizes(
        self, program: Program, moves: Mapping[str, Power], aligned: Mapping[int, Power]
    ) -> tuple[dict[int, Size], dict[int, Size]]:
        """The sizes of all values of the network and what follows it, and of arguments inside of functions."""
        sizes: dict[int, Size] = {}
        arguments: dict[int, Size] = {}
        whole = program is self.backward.program
        for position, s in enumerate(program):
            if isinstance(s, (InitialMatrix, InitialVector, InitialScalar)):
                sizes[position] = CONSTANT if position in program.inputs else self._parameter(s.name, moves)
            elif isinstance(s, MatMul):
                sizes[position] = self._product(s, sizes)
            elif isinstance(s, Avg):
                assert s.operand is not None
                known = whole or position < len(self.network)
                x = sizes[s.operand.source]
                sizes[position] = self._averaged(position, x, aligned.get(position)) if known else x
            else:
                assert isinstance(s, (OuterNonlin, ScalarNonlin))
                inside: list[Size] = []
                sizes[position] = self._body(s.body, sizes, inside, s.width is not None)
                if position in self.means.zeros:
                    sizes[position] = replace(sizes[position], start=min(sizes[position].start, -HALF))
                if inside and position < len(self.network):
                    arguments[position] = largest(inside)
        return sizes, arguments

    def _step(self, sizes: Mapping[int, Size], arguments: Mapping[int, Size]) -> Step:
        gradients = {name: self._gradient(name, sizes) for name in self.exponents}
        forward = {p: sizes[p] for p in range(len(self.network))}
        reads = {
            name: sizes[self.backward.gradients[name][0].gradient.source]
            for name in self.roles.named("readout")
            if self.backward.gradients[name]
        }
        return Step(forward, self._output(sizes), gradients, reads, arguments)

    def _parameter(self, name: str, moves: Mapping[str, Power]) -> Size:
        """Entries of a parameter in the program's scale."""
        e = self.exponents[name]
        return Size(-_fraction(e.a + e.b), moves.get(name, NOTHING))

    def _product(self, s: MatMul, sizes: Mapping[int, Size]) -> Size:
        """W x: random entries add up like √n, changes like n."""
        assert s.operand is not None
        matrix, x = sizes[s.matrix], sizes[s.operand.source]
        kept = x.times(matrix.start + HALF)
        return Size(kept.start, max(kept.move, matrix.move + 1 + x.total), kept.loose)

    def _averaged(self, position: int, x: Size, aligned: Power | None = None) -> Size:
        """An average, or at the position of what is returned n^(−1) of the sum, of entries of a size.

        `aligned` is the change by the gradients through it where that of the others is centred.
        """
        centred, always = position in self.means.centred, position in self.means.always
        move = x.move if aligned is None else max(aligned, x.move - HALF)
        return Size(x.start - (HALF if centred else 0), move, x.loose - (HALF if always else 0))

    def _body(self, body: Expr, sizes: Mapping[int, Size], arguments: list[Size], vector: bool) -> Size:
        def of_entry(entry: Entry) -> Size:
            size = sizes[entry.source]
            if entry.neuron == NO_NEURON:  # a scalar: its change is not aligned with anything
                return Size(size.start, NOTHING, size.change) if vector else Size(size.start, size.change)
            return size

        return size_of(body, of_entry, self.widths, arguments)

    def _output(self, sizes: Mapping[int, Size]) -> Size:
        """f: the sum of what is returned, and the scalars added to it."""
        f = self._summed(sizes)
        if len(self.network.returns) == 1:
            return f
        shift = sizes[self.network.returns[1]]
        return Size(max(f.start, shift.start), max(f.move, shift.change))

    def _summed(self, sizes: Mapping[int, Size]) -> Size:
        """n^(−a_out) times the sum of what is returned, n^(1 − a_out) times its average."""
        returned = self.network.returns[0]
        mean = self._averaged(returned, sizes[returned]).times(1 - _fraction(self.parametrization.a_out))
        return Size(mean.start, mean.change)

    def _gradient(self, name: str, sizes: Mapping[int, Size]) -> Power:
        """The power of n of n^d g, g the gradient with respect to w."""
        e, a_out = self.exponents[name], _fraction(self.parametrization.a_out)
        scalar = self.roles.kinds[name] == "scalar"
        found = [self._raw(self.backward, name, sizes) - a_out]
        for use in self.backward.shift_gradients[name]:
            found.append(sizes[use.gradient.source].total - (0 if scalar else 1))
        return max(found) + _fraction(e.d - e.a)


def updated(optimizer: Optimizer, scaled: Power) -> Power:
    """The power of n of Q_t, where n^d g has size n^scaled."""
    if optimizer.degree is not None:
        return scaled * optimizer.degree
    return scaled if not optimizer.is_bounded else min(scaled, Fraction(0))


def _natural(counting: Counting) -> Parametrization:
    """The parametrization with starts of order 1, next to the powers of n that the program multiplies them by."""
    shifts = counting.scaling.parameters
    starts = {
        name: Exponents(-shifts[name], sympy.S.Half if kind == "matrix" else sympy.S.Zero, *(sympy.S.Zero,) * 2)
        for name, kind in counting.roles.kinds.items()
    }
    return replace(counting.parametrization, by_name=starts)


def _fraction(value: Expr) -> Fraction:
    exact = sympy.Rational(value)
    return Fraction(int(exact.p), int(exact.q))
