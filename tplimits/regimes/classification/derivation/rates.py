"""The table in which everything moves and nothing grows, found by counting: starts, rates, and what no rate can supply.

With a = d = 0, weights are those of a script.  A parameter moves as it should where its own image does: entries of a
matrix by n^(−½) of the size that they start with, since updates are aligned with what they were made from and random
entries are not, those of vectors and scalars by their size.  With parameters moved like this, counting gives the powers
of all gradients late in training, and the rule of the optimizer the rates that do it.  Training is then counted step by
step with these rates: nothing may grow.

All vectors start with order 1, and the output, a sum over neurons, is multiplied by what makes it of order 1: n^(−1),
as a rule.  Where every term of the output holds one readout, centred and used nowhere else, the readouts take the
factor; where none does, as in models whose embedding is their readout, it stays a factor.

Averages of products of values that are multiplied by √n, as scores of heads that grow with n, move by √n when training
aligns them, whatever the rates are: inside of functions that saturate they are multiplied by n^(−½).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.errors import NoLimitError
from tplimits.program.network.parameters import at_rest
from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import InitialVector, Nonlin
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import Roles, roles
from tplimits.program.parametrization.table import SP
from tplimits.regimes.classification.derivation.counting import CountedStep, Counting, updated
from tplimits.regimes.classification.derivation.normed import below_norms
from tplimits.regimes.classification.derivation.passes import as_fraction
from tplimits.regimes.classification.derivation.powers_within import damped_scores, levelled, scores_of, weights_of_sums
from tplimits.regimes.classification.derivation.scaling import equations, scaling_of
from tplimits.regimes.classification.derivation.sizes import HALF, NOTHING, Power, Size

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: rates n^(−SMALL), at which everything moves in proportion to its rate
SMALL = 10**4
#: factors that are tried until the output is of order 1; the second one is, as a rule
ROUNDS = 4


@dataclass(frozen=True)
class ParameterPowers:
    """Powers of n of a parameter: of its start, of the factor on its rate (None where it never moves), of its gradient
    late in training, and of the first one, which is smaller where it sums what is centred then."""

    name: str
    kind: str
    std: Fraction
    rate: Fraction | None
    gradient: Power
    first_gradient: Power


@dataclass(frozen=True)
class MaximalRates:
    """The table of a network.

    output: the power of the factor on the output that no parameter takes.  scores: values that have to be multiplied by
    a power of n, by name.  left: what still grows (powers above 0) or stays at rest (below), by name.
    """

    parameters: Mapping[str, ParameterPowers]
    output: Fraction
    scores: Mapping[str, Fraction]
    left: Mapping[str, Power]
    norm: Power


def maximal_rates(network: Program, optimizer: Any) -> MaximalRates:
    """Starts and rates of every parameter in which its own image moves by order 1.

    optimizer: one, or one by name; ε = 0.

    >>> import tplimits as tp
    >>> @tp.network
    ... def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    ...     return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))
    >>> table = maximal_rates(mlp, tp.SignSGD())
    >>> {name: (str(p.std), str(p.rate)) for name, p in table.parameters.items()}
    {'U': ('0', '0'), 'W': ('-1/2', '-1'), 'v': ('-1', '-1')}

    Raises NoLimitError where the output does not settle.
    """
    kinds = roles(network)
    network, own = levelled(network)
    every = scores_of(network)
    start = _Late(network, optimizer, kinds, natural_shifts(damped_scores(network, every)), own=own)
    saturating = start.saturating
    scores = {p: min(power, saturating[p]) for p, power in every.items() if p in saturating}
    program = damped_scores(network, scores)
    found = replace(start, program=program, shifts=natural_shifts(program)) if scores else start
    for _ in range(ROUNDS):
        output = max(found.step.output.start, found.step.output.move)
        if output in (0, NOTHING):
            break
        # a factor on the output also changes all gradients, and with them what moves: one correction may not do
        found = replace(found, a_out=found.a_out + sympy.Rational(output))
    else:
        raise NoLimitError(
            f"no factor on the output of `{network.name}` makes it of order 1: its powers do not settle."
        )
    # rates of readouts that take the factor follow from their gradients, as all others
    if readouts := _folding(network, found.kinds):
        found = replace(found, readouts=readouts)
    elif found.a_out != found.own:
        # a readout that is an embedding too cannot take the factor, unless a norm hides it from all else
        found = below_norms(found) or found
    return _table(found, {network[p].name: -power for p, power in scores.items()})


def natural_shifts(program: Program) -> Mapping[str, Any]:
    """The powers of n of a program that its parameters take: those of sums over neurons their weights, n ⟨v x⟩.

    Late in training such sums are aligned, and of order 1 with weights of order 1/n.
    """
    aligned = equations(program, "aligned")
    every = dict.fromkeys(aligned.unknowns, sympy.S.Zero)
    if aligned.holds(every):
        return FrozenDict(every)
    summed = weights_of_sums(program)
    # of a product of two sums one weight could take both powers: each sum is to be of order 1
    each = every | {name: -sympy.Rational(power) for name, power in summed.items()}
    if aligned.holds(each):
        return FrozenDict(each)
    values = aligned.solved({name: s for name, s in every.items() if name not in summed})
    return FrozenDict(values if values is not None else scaling_of(program).parameters)


@dataclass(frozen=True)
class _Late:
    """A network late in training, when the own image of every parameter has moved by order 1.

    a_out: the power of the output's factor, of which the program has `own` itself; the rest `readouts` take, if there
    are any.
    """

    program: Program
    optimizer: Any
    kinds: Roles
    shifts: Mapping[str, Any]
    a_out: Any = sympy.S.One
    readouts: tuple[str, ...] = ()
    own: Any = sympy.S.Zero

    @cached_property
    def b(self) -> dict[str, Any]:
        """Natural starts n^(−b)."""
        kinds = self.kinds.kinds
        # a natural start is n^(−½) for a matrix and n^0 else, but for powers that the program multiplies
        found = {
            name: (sympy.S.Half if kinds[name] == "matrix" else sympy.S.Zero) - self.shifts[name] for name in kinds
        }
        return found | dict.fromkeys(self.readouts, self.a_out - self.own)

    @property
    def factor(self) -> Any:
        """The a_out that is left to the output, with what it has itself."""
        return self.own if self.readouts else self.a_out

    def counted(self, c: Mapping[str, Any]) -> Counting:
        table = {name: Exponents.of((0, self.b[name], c[name], 0)) for name in self.b}
        return Counting(self.program, replace(SP, by_name=table, a_out=self.factor), self.optimizer)

    @cached_property
    def small(self) -> Counting:
        """At rates so small that everything is linear, which tells what moves at all."""
        return self.counted(dict.fromkeys(self.b, sympy.Integer(SMALL)))

    @cached_property
    def wanted(self) -> dict[str, Fraction]:
        """The powers of n by which entries of parameters that move should do so."""
        return {
            name: -as_fraction(b) - (HALF if self.kinds.kinds[name] == "matrix" else 0)
            for name, b in self.b.items()
            # a parameter that nothing reaches has no rate to choose
            if self.small.rates[name] != NOTHING
        }

    @cached_property
    def _sizes(self) -> tuple[dict[int, Size], dict[int, Size]]:
        """The sizes of all values, where scores move by the gradients through them as far as these reach."""
        passes = self.small.passes
        # once without alignment of single averages, which needs sizes itself
        first, arguments = passes.sizes(passes.backward.program, self.wanted, {})
        own = {}
        for c in passes.fluctuating:
            shares = passes.shares(c, first, self.wanted, as_fraction(self.factor))
            own[c] = {name: power + shares[name] for name, power in self.wanted.items()}
        return passes.sizes(passes.backward.program, self.wanted, passes.aligned(own)) if own else (first, arguments)

    @cached_property
    def step(self) -> CountedStep:
        """The powers of n of everything, late in training."""
        return self.small.step(*self._sizes)

    @property
    def saturating(self) -> dict[int, Fraction]:
        """What the arguments that grow inside of functions are made of, with their powers: softmax and its like hide
        it."""
        found: dict[int, Fraction] = {}
        for p, size in self._sizes[1].items():
            if size.total > 0 and isinstance(s := self.program[p], Nonlin):
                for e in s.body.atoms(Entry):
                    found[int(e.source)] = max(found.get(int(e.source), Fraction(0)), Fraction(size.total))
        return found

    @property
    def values(self) -> dict[int, Size]:
        """The sizes of all values, late in training."""
        return self._sizes[0]

    @cached_property
    def c(self) -> dict[str, Any]:
        """The rates n^(−c) at which entries move as they should."""
        found = dict.fromkeys(self.b, sympy.Integer(SMALL))
        for name, wanted in self.wanted.items():
            optimizer = self.optimizer[name] if isinstance(self.optimizer, Mapping) else self.optimizer
            extra = optimizer.extra_power(self.kinds.kinds[name], Exponents.of((0, self.b[name], 0, 0)))
            # n^(−c) times the update, of size n^updated, has to be n^wanted
            found[name] = sympy.Rational(updated(optimizer, self.step.gradients[name]) - wanted) - extra
        return found


def _folding(network: Program, kinds: Roles) -> tuple[str, ...]:
    """The readouts that take the factor of the output: () where a term has none, or one that is no random weight."""
    found = kinds.named("readout")
    laws = [s.law for s in (network[network.initial_names[name]] for name in found) if isinstance(s, InitialVector)]
    return found if kinds.read_out_everywhere and all(law.mean == 0 for law in laws) else ()


def _table(late: _Late, scores: Mapping[str, Fraction]) -> MaximalRates:
    """The table; counting training with it, step by step, shows what it leaves."""
    counting = late.counted(late.c)
    still = at_rest(late.program)
    rows: dict[str, ParameterPowers] = {}
    norm: Power = NOTHING
    for name, kind in late.kinds.kinds.items():
        gradient = late.step.gradients[name]
        moves = name in late.wanted and name not in still
        rate = -as_fraction(late.c[name]) if moves else None
        # behind weights that start at 0, as a second factor of a low-rank update, the first one is that of a later step
        first = next((g for t in counting.steps if (g := t.gradients[name]) != NOTHING), NOTHING)
        rows[name] = ParameterPowers(name, kind, -as_fraction(late.b[name]), rate, gradient, first)
        # a matrix has n² entries, a vector n
        many = {"matrix": Fraction(1), "scalar": Fraction(0)}.get(kind, HALF)
        norm = max(norm, gradient + many) if moves else norm
    moved = counting.moves(len(counting.steps) - 1)
    # averages that are small by chance at the start are not so when they are aligned
    small = {counting.name(p): as_fraction(order) for p, order in counting.scaling.fluctuations.items()}
    scales = {name: s + small.get(name, 0) for name, s in counting.scales.items()}
    left = {name: p - scales.get(name, 0) for name, p in moved.items() if p > scales.get(name, 0)}
    if moved["f"] < 0:
        left["f"] = moved["f"]
    return MaximalRates(rows, -as_fraction(late.factor - late.own), scores, left, norm)
