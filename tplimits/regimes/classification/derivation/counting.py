"""Powers of n counted on a network's total program: forward, backward, and the updates of its parameters.

A matrix with entries n^(−½ − e) that moves by n^(−m) an entry takes x of size n^s to W x of size n^(s − e), and changes
it by n^(1 − m + s), since updates are aligned with what they were made from.

An average is n^(−½) of what is averaged where the mean vanishes, which the kets tell (`means`): at the start, and later
for what scalars change, where the mean vanishes whatever they are.  Such averages that the program multiplies by powers
of n, as logits over √n, are aligned with the gradients through them alone, and change by n^(−½) of all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx
import sympy

from tplimits.program.network.parameters import at_rest
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import Roles, roles
from tplimits.regimes.classification.derivation.passes import Aligned, Passes, as_fraction
from tplimits.regimes.classification.derivation.scaling import Scaling, scaling_of
from tplimits.regimes.classification.derivation.sizes import NOTHING, Power, Size

if TYPE_CHECKING:
    from tplimits.program.network.backward import Backward
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.program.parametrization.table import Parametrization
    from tplimits.regimes.classification.derivation.means import Means

#: steps of training that are counted; powers settle after a few, or grow without end
STEPS = 8


@dataclass(frozen=True)
class CountedStep:
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
class Counted:
    """A step, and how far entries of parameters have moved after it: by all gradients, and through single averages."""

    step: CountedStep
    rates: Mapping[str, Power]
    own: Mapping[int, Mapping[str, Power]]


@dataclass(frozen=True)
class Counting:
    """The powers of n of a network in training, step by step; exponents have to be numbers.

    above: bounded updates are of order 1 where n^d g falls, too, as they are while it is above ε."""

    network: Program
    parametrization: Parametrization
    optimizer: Any
    above: bool = False

    @cached_property
    def _counted(self) -> tuple[Counted, ...]:
        return tuple(self.counted())

    @cached_property
    def steps(self) -> tuple[CountedStep, ...]:
        """The steps that are counted; those after powers have settled are the last one again."""
        found = tuple(c.step for c in self._counted)
        return found + found[-1:] * (STEPS + 1 - len(found))

    @cached_property
    def start(self) -> CountedStep:
        """The first step, before anything has moved."""
        return next(self.counted()).step  # asked for often: later steps cost a pass each

    @property
    def rates(self) -> Mapping[str, Power]:
        """The power of n by which an entry of each parameter moves, at its largest."""
        return self._counted[-1].rates

    @property
    def own(self) -> Mapping[int, Mapping[str, Power]]:
        """The same by the gradients through one average alone, for those in `fluctuating`."""
        return self._counted[-1].own

    @cached_property
    def exponents(self) -> dict[str, Exponents]:
        """The exponents of each parameter."""
        return self.parametrization.of(self.network)

    @cached_property
    def roles(self) -> Roles:
        """What the parameters are."""
        return roles(self.network)

    @cached_property
    def passes(self) -> Passes:
        """The passes that count."""
        return Passes(self.network, self.exponents)

    @cached_property
    def gradients_aligned(self) -> dict[str, Power]:
        """The powers of scaled gradients at the start, were no average small because its mean vanishes."""
        sizes, _ = Aligned(self.network, self.exponents).sizes(self.backward.program, {}, {})
        return {name: self._gradient(name, sizes) for name in self.exponents}

    @property
    def backward(self) -> Backward:
        """The total program."""
        return self.passes.backward

    @property
    def means(self) -> Means:
        """Which averages, and whether the output, have the mean zero."""
        return self.passes.means

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
        return tuple(
            p for p in found if p not in self.network.returns or (not readouts and p == self.network.returns[0])
        )

    @cached_property
    def scaling(self) -> Scaling:
        """The powers of n that the program holds."""
        return scaling_of(self.network, self.parametrization)

    @cached_property
    def scales(self) -> dict[str, Fraction]:
        """The size of a feature where everything nonlinear and all that is read is of order 1: n^0 but for factors."""
        # what the program multiplies by powers of n is not of order 1, and is not meant to be
        powers = self.scaling.positions
        found = {self.name(p): as_fraction(powers[p]) for p in self.hidden}
        return found | {self.reading(r): -as_fraction(self.scaling.parameters[r]) for r in self.start.reads}

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
        now, natural = self.start, self.at_natural_start.start
        pairs = [(self.name(p), now.sizes[p], natural.sizes[p]) for p in self.hidden]
        pairs += [(self.reading(r), size, natural.reads[r]) for r, size in now.reads.items()]
        pairs += [
            (name, now.sizes[self.network.initial_names[name]], natural.sizes[self.network.initial_names[name]])
            for name in self.roles.named("vector", "scalar")
        ]
        return [(name, one.start, then.start) for name, one, then in pairs]

    @cached_property
    def small(self) -> tuple[str, ...]:
        """Vectors and scalars that start smaller than naturally, where nothing else does: 0 beside what stays."""
        added = {self.network.initial_names[name]: name for name in self.roles.named("vector", "scalar")}
        now, natural = self.start, self.at_natural_start.start
        unlike = {p for p in range(len(self.network)) if now.sizes[p].start != natural.sizes[p].start}
        # sign(b) is of order 1 however small b is
        as_natural = all(size.start == natural.arguments[p].start for p, size in now.arguments.items())
        smaller = all(p in added and now.sizes[p].start < natural.sizes[p].start for p in unlike)
        return tuple(added[p] for p in sorted(unlike)) if smaller and as_natural else ()

    @cached_property
    def natural(self) -> dict[str, Power]:
        """The power at a natural start of each feature."""
        return {name: power for name, _, power in self.starts}

    @cached_property
    def at_natural_start(self) -> Counting:
        """The same network from a natural start."""
        return replace(self, parametrization=_natural(self))

    def moves(self, t: int) -> dict[str, Power]:
        """The power of n of the change since the start after t steps, of each feature and of f; −∞ if there is none."""
        return self.moves_in(self.steps[min(t, len(self.steps) - 1)])

    def moved_by(self, name: str) -> dict[str, Power]:
        """The powers of what the updates of one parameter change, at the size that they have beside all others."""
        alone = {c: {name: kept[name]} for c, kept in self.own.items()}
        sizes = self.passes.sizes(self.backward.program, {name: self.rates[name]}, self.passes.aligned(alone))
        return self.moves_in(self.step(*sizes))

    def moves_in(self, step: CountedStep) -> dict[str, Power]:
        """The same in a step."""
        found = {self.name(p): step.sizes[p].change for p in self.hidden}
        found |= {self.reading(r): size.change for r, size in step.reads.items()}
        return found | {"f": step.output.move}

    @property
    def readout_at_start(self) -> Power:
        """The power of n of f_0 without the scalars that are added to it."""
        return self._summed(self.start.sizes).start

    def name(self, position: int) -> str:
        """How a value is called."""
        return self.network[position].name

    @cached_property
    def vectors(self) -> tuple[str, ...]:
        """The features that are vectors, each once: what a readout multiplies may have a name of its own."""
        # scalars have no kernel
        found = {p: self.name(p) for p in self.hidden if self.network[p].width is not None}
        for readout in self.start.reads:
            found.setdefault(self.backward.gradients[readout][0].gradient.source, self.reading(readout))
        return tuple(found.values())

    def reading(self, readout: str) -> str:
        """How the features that a readout multiplies are called."""
        return f"what {readout} reads"

    def counted(self) -> Iterator[Counted]:
        """The steps one by one until powers settle: who asks whether something grows need not see all of them."""
        moves: dict[str, Power] = {}
        own: dict[int, dict[str, Power]] = {c: {} for c in self.passes.fluctuating}
        for _ in range(STEPS + 1):
            before = moves, own
            sizes, arguments = self.passes.sizes(self.backward.program, moves, self.passes.aligned(own))
            step = self.step(sizes, arguments)
            fresh = {name: self._move(name, step) for name in self.exponents}
            # updates of several steps are a sum: as large as the largest, which none of the later ones takes back
            moves = {name: max(moves.get(name, NOTHING), power) for name, power in fresh.items()}
            # the part of each update that goes through one average alone: only that is aligned with it
            shares = {c: self.passes.shares(c, sizes, moves, self._a_out) for c in own}
            own = {
                c: {name: max(kept.get(name, NOTHING), fresh[name] + shares[c][name]) for name in fresh}
                for c, kept in own.items()
            }
            yield Counted(step, moves, own)
            if (moves, own) == before:  # settled: all later steps are this one
                return

    def _move(self, name: str, step: CountedStep) -> Power:
        """The power of n by which an entry of the program's parameter moves in a step."""
        e, scaled = self.exponents[name], step.gradients[name]
        if scaled == NOTHING:
            return NOTHING
        optimizer = self.optimizer[name] if isinstance(self.optimizer, Mapping) else self.optimizer
        # behind a stopped gradient nothing moves, whatever the optimizer
        if optimizer.is_still or name in at_rest(self.network):
            return NOTHING
        extra = optimizer.extra_power(self.roles.kinds[name], e)
        return updated(optimizer, scaled, self.above) - as_fraction(e.a + e.c + extra)

    def step(self, sizes: Mapping[int, Size], arguments: Mapping[int, Size]) -> CountedStep:
        gradients = {name: self._gradient(name, sizes) for name in self.exponents}
        forward = {p: sizes[p] for p in range(len(self.network))}
        reads = {
            name: sizes[self.backward.gradients[name][0].gradient.source]
            for name in self.roles.named("readout")
            if self.backward.gradients[name]
        }
        return CountedStep(forward, self._output(sizes), gradients, reads, arguments)

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
        # a sum over n neurons is n times an average, in which what is centred falls by n^(−½)
        mean = self.passes.averaged(returned, sizes[returned]).times(1 - self._a_out)
        return Size(mean.start, mean.change)

    def _gradient(self, name: str, sizes: Mapping[int, Size]) -> Power:
        """The power of n of n^d g, g the gradient with respect to w."""
        e = self.exponents[name]
        return self.passes.whole(name, sizes, self._a_out) + as_fraction(e.d - e.a)

    @property
    def _a_out(self) -> Fraction:
        return as_fraction(self.parametrization.a_out)


def updated(optimizer: Optimizer, scaled: Power, above: bool = False) -> Power:
    """The power of n of Q_t, where n^d g has size n^scaled."""
    if optimizer.degree is not None:
        return scaled * optimizer.degree
    # of no degree: bounded ones, as Adam with an ε, are linear in small gradients and of order 1 for large ones
    return scaled if not optimizer.is_bounded else Fraction(0) if above else min(scaled, Fraction(0))


def _natural(counting: Counting) -> Parametrization:
    """The parametrization with starts of order 1, next to the powers of n that the program multiplies them by."""
    shifts = counting.scaling.parameters
    starts = {
        name: Exponents(-shifts[name], sympy.S.Half if kind == "matrix" else sympy.S.Zero, *(sympy.S.Zero,) * 2)
        for name, kind in counting.roles.kinds.items()
    }
    return replace(counting.parametrization, by_name=starts)
