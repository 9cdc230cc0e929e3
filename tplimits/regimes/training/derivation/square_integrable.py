"""Second moments of the kets of a network in training: at its start, forward and backward, and after a step.

The hypotheses are those of `tplimits.law.hypotheses`, read through the kets that both passes have before the first
step, as kernels read them: jumps, poles, roots and moments of the network, moments of its gradients.  Training asks
for one more.  Updates that are not bounded move arguments by gradients, so that after a step

    exp(x) is exp(x − η χ exp(x) dy),

whose mean is infinite for every η ≠ 0: exponentials, which have all moments at the start, keep none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import networkx
from sympy import Dummy, Expr, Pow, S, exp

from tplimits.errors import NoLimitError
from tplimits.program.network.tangent import Tangent
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.branches import BRANCHES
from tplimits.program.nodes.entries import Entry, GaussMean, entries
from tplimits.program.nodes.functions import maximum, minimum
from tplimits.program.nodes.kinds import Avg, Instruction, OuterNonlin, ScalarNonlin, made_of
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


def judged(network: Program, trained: tuple[str, ...], assumed: Sequence[str] = ()) -> KernelTables | None:
    """The kets of both passes with what is known of their moments; None where every function is tame.

    Gradients are those of the parameters that are trained.

    What the kernel engine has no mean for is not looked at, nor what reads it (`asked_of_widths`).

    Raises NoLimitError where a hypothesis fails.
    """
    functions = (s for s in network if isinstance(s, (OuterNonlin, ScalarNonlin)))
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
        and not averages.isdisjoint(networkx.ancestors(network.graph, position) | {position})
        for position, s in enumerate(network)
        if averages
    )


def asked_of_widths(kets: KernelTables) -> dict[int, Doubt]:
    """What rests on the mean of a function of two neurons, which kernels do not have and a width limit has."""
    program, judged = kets.network, kets.recursion.judged
    means = {p for p in judged.unread if isinstance(s := program[p], OuterNonlin) and s.slots}
    doubts = {}
    for position in sorted(judged.unread):
        s, above = program[position], {position} | networkx.ancestors(program.graph, position)
        if isinstance(s, (OuterNonlin, ScalarNonlin)) and is_special(s.body, Entry, GaussMean) and means & above:
            named = program[min(means & above)].name
            reason = f"it rests on `{named}`, the mean of a function of two neurons, which is judged with the data"
            doubts[position] = replace(judged.moment_doubt(position, reason), later=True)
    return doubts


def after_a_step(kets: KernelTables, optimizers: Mapping[str, Optimizer]) -> list[Doubt]:
    """The doubts about exponentials of what an update that is not bounded moves."""
    program, doubts = kets.network, []
    unbounded = {program.initial_names[name]: o for name, o in optimizers.items() if not is_bounded(o)}
    for position in sorted(kets.recursion.judged.exponential):
        s = program[position]
        if not isinstance(s, OuterNonlin) or kets.recursion.judged.is_gradient(position):
            continue
        if _is_cut_off(program, position, kets.recursion.judged.is_gradient):
            continue
        read = {int(e.source) for node in found(s.body, *_EXPONENTIALS) for e in entries(node)}
        moved = unbounded.keys() & read.union(*(networkx.ancestors(program.graph, p) for p in read))
        if moved:
            reason = (
                f"it grows exponentially, {unbounded[min(moved)]} moves what it reads by gradients that grow as fast, "
                "and an exponential of an exponential has no mean: the moments of the start are lost after a step "
                "(updates that are bounded, such as those of tp.Adam, keep them)"
            )
            doubts.append(kets.recursion.judged.moment_doubt(position, reason))
    return doubts


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
