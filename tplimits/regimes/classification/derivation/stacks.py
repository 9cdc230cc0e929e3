"""How a stack of blocks adds up: sizes of values and gradients of one network, counted with multiplicity.

Powers of n need no multiplicity: a sum of finitely many terms is as large as its largest.  With L blocks,
x + Σ_l λ F_l(x) has L terms.  How random these are is told by the weights that they passed last, so that sizes are kept
by weight: terms with the same last weight add up, those with different ones add up in squares.  So forward, and so
backward, with

    Δf = Σ_l ⟨g_l, Δw_l⟩,

in which updates are aligned with gradients: here all terms add up.  A program is counted at depths L, 2L, 4L; ratios
are powers of 2, whose exponents are the powers of L.  Widths, and numbers that multiply something, count as 1.

Blocks that count as c times the stream make (1 + c²/L)^L of it, which is no power yet at depths below c².  So they are
counted in first order, beside a stream without them: where that does not grow with L, neither does any power of it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import sympy

from tplimits.errors import NoLimitError
from tplimits.program.network.zeros import total_of
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import NO_NEURON, ArrayEntry, AxisSum, Entry, axis_symbol
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    MatMul,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
    standing,
)
from tplimits.regimes.classification.derivation.branches import FACTOR, summed
from tplimits.regimes.classification.derivation.randomness import (
    COMMON,
    Value,
    centred,
    function_of,
    product,
    summed_up,
)

if TYPE_CHECKING:
    from tplimits.program.network.backward import Backward
    from tplimits.program.nodes.program import Program

#: by how much exponents may differ from one doubling to the next
SETTLED = 0.35
#: blocks so small that they are seen in first order alone
SMALL = 1e-3


@dataclass(frozen=True)
class Stacked:
    """A network counted at one depth: its sums, and the gradient of each parameter, all of order 1 by itself."""

    sums: Mapping[Hashable, float]
    gradients: Mapping[str, float]

    @property
    def start(self) -> float:
        """The largest sum."""
        return max(self.sums.values(), default=1.0)


@dataclass(frozen=True)
class Orders:
    """A network counted without its blocks, and what these add to it in first order."""

    still: Stacked
    first: Stacked


def stacked(program: Program, factor: float) -> Stacked:
    """A network, whose branches hold `FACTOR`, counted with that number."""
    backward = total_of(program)
    values, sums = _counted(backward, program, factor)
    gradients = dict.fromkeys((name for name, p in program.initial_names.items() if p not in program.inputs), 0.0)
    for name in gradients:
        for use, _ in backward.uses(name):
            through = values[use.operand.source].size if use.operand is not None else 1.0
            gradients[name] += values[use.gradient.source].size * through
    return Stacked(sums, gradients)


def orders(program: Program, factor: float) -> Orders:
    """A network, whose branches hold `FACTOR`, counted in the first order of that number."""
    still, moved = stacked(program, 0.0), stacked(program, SMALL * factor)
    # sums of different weights grow in squares
    added = {p: math.sqrt(max((moved.sums[p] / x) ** 2 - 1, 0.0)) / SMALL for p, x in still.sums.items() if x}
    return Orders(still, Stacked(added, {k: (g - still.gradients[k]) / SMALL for k, g in moved.gradients.items()}))


def _aligned(backward: Backward, network: Program) -> frozenset[int]:
    """Averages that training aligns: scores, and gradients of scores, of what is made of them, and of parameters.

    Those of norms stay what they are at the start: a norm takes away what is aligned with it.
    """
    scores = {p for p, s in enumerate(network) if isinstance(s, Avg) and _is_score(network, s)}
    made = {p for p, s in enumerate(network) if isinstance(s, InitialScalar)} | scores
    for p, s in enumerate(network):
        if isinstance(s, ScalarNonlin) and made & set(s.operands):
            made.add(p)
    # also those that only what is added beside the readout is made of
    found = {u.gradient.source for p in made for u in backward.through(p)}
    found |= {u.gradient.source for name in network.initial_names for u, _ in backward.uses(name) if u.operand is None}
    # what is added up over uses is read by a sum of scalars
    found |= {q for p in found if isinstance(backward.program[p], ScalarNonlin) for q in backward.program[p].operands}
    return frozenset(scores | found)


def _is_score(network: Program, average: Avg) -> bool:
    """Whether an average is one of products of two vectors."""
    s = network[average.operand.source]
    body = s.body if isinstance(s, OuterNonlin) else sympy.S.Zero
    while isinstance(body, AxisSum):
        body = body.summand
    return sum(isinstance(f, Entry) and f.neuron != NO_NEURON for f in sympy.Mul.make_args(body)) == 2


def _counted(backward: Backward, network: Program, factor: float) -> tuple[dict[int, Value], dict[Hashable, float]]:
    """The sizes of all values of a total program, and the sums of the network."""
    program, forward, aligned = backward.program, len(network), _aligned(backward, network)
    values: dict[int, Value] = {}
    sums: dict[Hashable, float] = {}

    def walk(node: sympy.Expr) -> Value:
        if isinstance(node, Entry):
            return values[node.source]
        if node == FACTOR or node.is_number:
            return Value({COMMON: factor if node == FACTOR else abs(float(node))})
        if node.is_Symbol or isinstance(node, ArrayEntry):
            return Value({COMMON: 1.0})
        if isinstance(node, AxisSum):
            return walk(node.summand)
        if isinstance(node, sympy.Mul):
            return product([walk(a) for a in node.args if not a.is_number])
        if isinstance(node, sympy.Add):
            taken = _means_taken(program, node)
            left = [centred(walk(a)) if a in taken else walk(a) for a in node.args
                    if a not in taken.values() and not _starts_at_zero(program, a)]  # fmt: skip
            return summed_up(left)
        return function_of(node, [walk(a) for a in (node.args[1:] if isinstance(node, functions.where) else node.args)])

    for position, s in enumerate(program):
        if isinstance(s, (InitialMatrix, InitialScalar)):
            values[position] = Value({position: 1.0})
        elif isinstance(s, InitialVector):
            kind = "constant" if s.law.std == 0 and s.law.mean != 0 else "drawn"
            values[position] = Value({position: 1.0}, kind, float(s.law.mean != 0))
        elif isinstance(s, MatMul):
            # the same weights read at the same member: terms that passed them last are one random vector
            last = (s.matrix, s.transposed, *(i for i in s.matrix_indices if i.is_number))
            values[position] = Value({last: values[s.operand.source].size}, "vector")
        elif isinstance(s, Avg):
            x = values[s.operand.source]
            late = position in aligned and not (position < forward and x.mean)
            # of a sign that is random in each block; others are numbers of the size of the mean
            values[position] = Value({position: x.size if late else x.mean}, "chance" if late else "scalar")
        else:
            assert isinstance(s, Nonlin)
            found = walk(s.body)
            # a vector of equal entries is as random as these
            is_vector = isinstance(s, OuterNonlin) and found.kind != "chance"
            values[position] = replace(found, kind="vector") if is_vector else found
            if position < forward and isinstance(s, OuterNonlin):
                # the last stream may be a sum inside of what reads it
                many = sorted(s.body.atoms(sympy.Add), key=sympy.default_sort_key)
                sums |= {(position, i): walk(x).size for i, x in enumerate(many) if len(summed(program, x)) > 1}
    return values, sums


def _means_taken(program: Program, total: sympy.Expr) -> dict[sympy.Expr, sympy.Expr]:
    """The terms of a sum whose own mean over neurons is taken away there, r − ⟨r⟩, and the terms that do it."""
    found = {}
    for term in total.args:
        number, entry = term.as_coeff_Mul()
        s = program[entry.source] if isinstance(entry, Entry) else None
        if isinstance(s, Avg):
            of, at = program[s.operand.source], dict(zip(map(axis_symbol, s.axes), entry.indices, strict=True))
            # the vector by its name, or written out
            written = [standing(of, s.operand)] if isinstance(of, OuterNonlin) and not of.slots else []
            for vector in (s.operand, *written):
                whole = -number * vector.xreplace(at)
                if whole in total.args:
                    found[whole] = term
    return found


def _starts_at_zero(program: Program, term: sympy.Expr) -> bool:
    """Whether a term is a bias that starts at 0; what multiplies something else does not stay there."""
    entry = next((f for f in sympy.Mul.make_args(term) if f.has(Entry)), None)
    # a bias is alone in its term but for numbers
    if not isinstance(entry, Entry) or sum(f.has(Entry) for f in sympy.Mul.make_args(term)) > 1:
        return False
    s = program[entry.source]
    return isinstance(s, InitialVector) and s.law.mean == s.law.std == 0


def power_of(what: str, sizes: Sequence[float]) -> Fraction:
    """The power of L of sizes at depths that double, at least three: the multiple of ½ that their ratios go to.

    Raises NoLimitError where ratios go to nothing, as those of what grows faster than any power.
    """
    if min(sizes) <= 0:
        return Fraction(0)
    first, last = (math.log2(b / a) for a, b in zip(sizes[-3:-1], sizes[-2:], strict=True))
    if abs(last - first) > SETTLED:
        raise NoLimitError(
            f"{what} goes like L^{first:.1f}, then like L^{last:.1f} as the depth L doubles: by no power. Blocks that "
            "are added to what they read need a factor L^(-1/2) or L^(-1)."
        )
    # extrapolated: beside a term smaller by 1/L the distance to the exponent halves at each doubling
    return Fraction(round(2 * (2 * last - first)), 2)


def leading_power(what: str, still: Sequence[float], first: Sequence[float]) -> Fraction:
    """The larger of the powers of L of what there is without blocks and of what these add; 0 where there is nothing."""
    return max((power_of(what, sizes) for sizes in (still, first) if min(sizes) > 0), default=Fraction(0))
