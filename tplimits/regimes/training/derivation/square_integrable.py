"""Second moments of the kets of a network in training: at its start, forward and backward, and after a step.

The hypotheses are those of `tplimits.law.hypotheses`, read through the kets that both passes have before the first
step, as kernels read them: jumps, poles, roots and moments of the network, moments of its gradients.  Training asks
for one more.  Updates that are not bounded move arguments by gradients, so that after a step

    exp(x) is exp(x − η χ exp(x) dy),

whose mean is infinite for every η ≠ 0: exponentials, which have all moments at the start, keep none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy
from sympy import Dummy, Expr, Mul, Pow, S, exp

from tplimits.errors import NoLimitError
from tplimits.program.network.tangent import Tangent
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.branches import BRANCHES
from tplimits.program.nodes.entries import NO_NEURON, AxisSum, Entry, GaussMean, entries
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.functions import maximum, minimum
from tplimits.program.nodes.kinds import Avg, Instruction, Nonlin, OuterNonlin, made_of, through_names
from tplimits.program.nodes.properties import EXPONENTIAL
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.derivation import KernelTables
from tplimits.regimes.kernels.derivation.recursion import Recursion
from tplimits.regimes.kernels.derivation.special import is_special

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Doubt
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer

#: what may grow exponentially in what it reads
_EXPONENTIALS = (*EXPONENTIAL, Pow)
#: places at which a function is looked at, in spreads of what it reads, the width of each, and what an exponential
#: gains between the last two
_FAR, _SPAN, _GAIN = (10.0, 20.0, 40.0), numpy.linspace(0.0, 0.5, 65), 2.0
#: operations of a gradient that is looked at
_LONG = 2000
#: what is lost of gradients
_GRADIENT = "a gradient that is an exponential of an exponential has no second moment"


def judged(network: Program, trained: tuple[str, ...], assumed: Sequence[str] = ()) -> KernelTables | None:
    """The kets of both passes with what is known of their moments; None where every function is tame.

    Gradients are those of the parameters that are trained.

    What the kernel engine has no mean for is not looked at, nor what reads it (`asked_of_widths`).

    Raises NoLimitError where a hypothesis fails.
    """
    functions = (s for s in network if isinstance(s, Nonlin))
    if not (any(is_special(s.body, Entry, GaussMean) for s in functions) or _has_kinks_of_means(network)):
        return None
    total = TotalProgram(network, trained)
    program, state = total.backward.program, kets_of(total, assumed, strict=True)
    return KernelTables(program, (), tuple(state.tables), S.Zero, S.Zero, (), (), state)


def kets_of(total: TotalProgram, assumed: Sequence[str] = (), strict: bool = False) -> Recursion:
    """The kets of both passes at the start; what has none that are known is left unread, and what reads it.

    Raises NoLimitError where a hypothesis fails, if `strict`.
    """
    program = total.backward.program
    state = Recursion(program, Tangent(program, {}, len(program)), outputs=(), assumed=assumed)
    state.judged.asked = len(total.network)
    unread = state.judged.unread
    for position in sorted(total.needed):
        if not unread.isdisjoint(program[position].operands):
            unread.add(position)
            continue
        try:
            state.walk(position)
        except NoLimitError as error:
            unread.add(position)
            if strict and state.judged.failed:
                open_ = [doubt for doubt in state.judged.open() if doubt.name not in assumed]
                if position < len(total.network) or not open_:
                    raise
                # a gradient may have no moments for what is in doubt of the network: data tells first
                state.judged.infinite.setdefault(position, str(error))
    return state


def _has_kinks_of_means(network: Program) -> bool:
    """Whether a function of vectors with a kink rests on an average, at whose zero its derivative has a jump."""
    averages = {p for p, s in enumerate(network) if isinstance(s, Avg) or (isinstance(s, OuterNonlin) and s.slots)}
    return any(
        isinstance(s, OuterNonlin)
        and bool(found(s.body, *BRANCHES))
        and not averages.isdisjoint(network.behind((position,)))
        for position, s in enumerate(network)
        if averages
    )


def asked_of_widths(kets: KernelTables) -> dict[int, Doubt]:
    """What rests on the mean of a function of two neurons, which kernels do not have and a width limit has."""
    program, judged = kets.network, kets.recursion.judged
    means = {p for p in judged.unread if isinstance(s := program[p], OuterNonlin) and s.slots}
    doubts = {}
    for position in sorted(judged.unread):
        s, above = program[position], program.behind((position,))
        if isinstance(s, Nonlin) and is_special(s.body, Entry, GaussMean) and means & above:
            named = program[min(means & above)].name
            reason = f"it rests on `{named}`, the mean of a function of two neurons, which is judged with the data"
            doubts[position] = replace(judged.moment_doubt(position, reason), later=True)
    return doubts


def after_a_step(
    kets: KernelTables, optimizers: Mapping[str, Optimizer], spread: Callable[[Expr], float] = lambda read: 1.0
) -> list[Doubt]:
    """The doubts about exponentials of what an update that is not bounded moves.

    Where no vector is one, a gradient may be, as that of sin(exp(x)): its arguments are exponentials after a step, and
    it has no second moment for the next.  How far out that is seen goes by the `spread` of vectors, which data tell.
    """
    judged = kets.recursion.judged
    moved = {p: o for p in sorted(judged.exponential) if (o := _moving(kets, optimizers, p, spread)) is not None}
    for is_gradient, words, step in ((False, "an exponential of an exponential has no mean", 0), (True, _GRADIENT, 2)):
        found = [p for p in moved if judged.is_gradient(p) == is_gradient]
        doubts = []
        for position in found:
            reason = (
                f"it grows exponentially, {moved[position]} moves what it reads by gradients that grow as fast, "
                f"and {words}: the moments of the start are lost after a step "
                "(updates that are bounded, such as those of tp.Adam, keep them)"
            )
            doubts.append(replace(judged.moment_doubt(position, reason), from_step=step))
        if doubts:
            return doubts
    return []


def _moving(
    kets: KernelTables, optimizers: Mapping[str, Optimizer], position: int, spread: Callable[[Expr], float]
) -> Optimizer | None:
    """The optimizer that moves an exponential by what is not bounded; None where nobody does."""
    program, judged = kets.network, kets.recursion.judged
    s = program[position]
    if not isinstance(s, OuterNonlin):
        return None
    if judged.is_gradient(position):  # its growth is a bound from above, which sums and quotients may not reach
        harmless = not _explodes(program, position, spread)
    else:
        harmless = _is_tamed(kets, position) or _is_cut_off(program, position, judged.is_gradient)
    if harmless:
        return None
    unbounded = {program.initial_names[name]: o for name, o in optimizers.items() if not is_bounded(o)}
    read = (e.source for node in found(s.body, *_EXPONENTIALS) for e in entries(node))
    moved = unbounded.keys() & program.behind(read)
    return unbounded[min(moved)] if moved else None


def _explodes(program: Program, position: int, spread: Callable[[Expr], float]) -> bool:
    """Whether a function of vectors is seen to grow exponentially with one of them, by values of its written body."""

    def opens(body: Expr) -> list[Entry]:
        inner = [(e, program[e.source]) for e in entries(body)]
        return [e for e, s in inner if isinstance(s, OuterNonlin) and not s.slots and not s.body.has(AxisSum)]

    body = through_names(program.__getitem__, made_of(program[position]), opens, _LONG)
    # Σ U ξ is a variable as a vector is by whose name it is read, Σ exp(x) is none
    sums = {total: Dummy(real=True) for total in found(body, AxisSum) if _is_form(total.summand)}
    flat = body.xreplace(sums)
    read = sums | {e: Dummy(real=True) for e in entries(flat)}
    flat = flat.xreplace(read)
    if flat.has(AxisSum) or flat.free_symbols - {*read.values()}:
        return False
    # exp(x/30) at inputs of length 30 is exp(x) at those of length 1
    units = {d: max(1.0, spread(e)) for e, d in read.items()}
    still = {d: unit * math.cos(k) for k, (d, unit) in enumerate(units.items(), 1)}
    with numpy.errstate(all="ignore"):
        for d, unit in units.items():
            for side in (1, -1):
                sizes = [abs(evaluate(flat, {**still, d: side * unit * (far + _SPAN)})) for far in _FAR]
                first, second, third = (math.log(max(float(numpy.max(numpy.nan_to_num(x))), 1e-300)) for x in sizes)
                # a power gains as much with every doubling
                if third - second > max(1.5 * (second - first), _GAIN):
                    return True
    return False


def _is_form(summand: Expr) -> bool:
    """Whether one entry of a vector is multiplied by data and numbers."""
    read = [f for f in Mul.make_args(summand) if entries(f)]
    return all(isinstance(f, Entry) for f in read) and sum(f.neuron != NO_NEURON for f in read) == 1


def _is_tamed(kets: KernelTables, position: int) -> bool:
    """Whether an exponential is read by functions alone that are none themselves, as e in sin(e) and e/(1 + e)."""
    program, judged = kets.network, kets.recursion.judged
    open_ = judged.exponential | judged.unread | {p for p, *_ in judged.doubts}
    readers = [p for p in program.graph.successors(position) if not judged.is_gradient(p)]
    if position in program.returns or not readers:
        return False
    return all(isinstance(program[p], OuterNonlin) and p not in open_ for p in readers)


def _is_cut_off(program: Program, position: int, is_gradient: Callable[[int], bool]) -> bool:
    """Whether c·exp(u) is read between two numbers alone: no gradient passes beyond them, and within it is bounded."""
    _, factor = made_of(program[position]).as_coeff_Mul()
    readers = [program[p] for p in program.graph.successors(position) if not is_gradient(p)]
    is_output = position in program.returns or not readers
    return isinstance(factor, exp) and not is_output and all(_cuts_off(s, position) for s in readers)


def _cuts_off(s: Instruction, position: int) -> bool:
    """Whether a function reads a vector in clip(…, a, b) alone."""
    if not isinstance(s, OuterNonlin):
        return False
    clips = [node for node in found(s.body, minimum, maximum) if _is_clip(node)]
    left = s.body.xreplace({node: Dummy(real=True) for node in clips})
    return all(e.source != position for e in entries(left))


def _is_clip(node: Expr) -> bool:
    """min(max(x, a), b), or the other way round, of an entry alone."""
    inner = [a for a in node.args if isinstance(a, (minimum, maximum)) and not isinstance(a, node.func)]
    whole = {*node.args, *(a for i in inner for a in i.args)} - {*inner}
    ends = [x for x in whole if not x.is_number]
    return len(inner) == 1 and len(ends) == 1 and isinstance(ends[0], Entry)


def is_bounded(optimizer: Optimizer) -> bool:
    """Whether entries move by bounded amounts, however large their gradients are."""
    inner = optimizer.entry_by_entry("vector")
    return optimizer.is_bounded if inner is None else inner.is_bounded
