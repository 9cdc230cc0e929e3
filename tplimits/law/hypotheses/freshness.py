"""Readouts: f = n^(−1/2) Σ x is Gaussian with covariance ⟨x|x′⟩ for x = Σ v ⊙ y with fresh readout vectors v.

The hypothesis of Yang & Littwin 2023, Thm 2.9.19 (as printed it asks for less and has counterexamples: x = (Wz)² − 1).
It is the safe class of `fluctuation`, asked of the vector that is read out, or

Tied readouts.  x = Σ v ⊙ F(W z, b) with centred initial vectors v, others b, and matrices W that are used there alone;
z may depend on v, as embeddings that are read out, too.  Given v, b and z the rows of W make entries independent, of
mean v m(b) and variance v² s(b), in which m and s depend on z by its norm: this settles, and n^(−1/2) Σ v m(b) is a sum
of independent centred entries.  Together the variance is ⟨v²⟩⟨F²⟩ = ⟨x|x⟩.

Nested tied readouts.  x = Σ v ⊙ F(Z, b, c) with centred initial vectors v, others b, scalars c, and images Z under
normal matrices that are applied one way round in all that x is made of, as often as one likes, to functions of images,
v, b and c.  Given the images under W that came before, W z is a combination of these, with coefficients of the Gram
matrix of its operands, and a normal vector that knows nothing of v: by induction all Z are functions of such vectors ξ
and of finitely many means over neurons θ, which settle.  At the limits of θ and c, n^(−1/2) Σ v F(Z(ξ, θ), b, c) is a
sum of independent centred entries; what θ and c move it by vanishes: v is centred given ξ and b, and sums of v times a
function do not grow where the function tends to 0.  Scalars beside powers of n (√n Avg) do not settle; applied both
ways, W h and Wᵀ g join v at one neuron to images at others.

Odd readouts.  x = F(W z, b) that changes its sign with the matrices W, which are used there alone; z and b are anything
that does not depend on W.  Given z and b the rows of W make entries independent, of mean 0 at every width, and the mean
of their variances settles at ⟨x|x⟩: tanh(W z), b tanh(W z) with E b = 1.  So does x = F(b) of centred vectors b alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.fluctuation import (
    Product,
    Written,
    initial_only,
    is_average,
    is_place,
    is_safe,
    one_orientation,
    opened,
    origins_of,
)
from tplimits.program.nodes.entries import OWN, Entry, entries
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialVector,
    MatMul,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.nodes.laws import NORMAL
from tplimits.program.nodes.parity import Sign, signs

if TYPE_CHECKING:
    from collections.abc import Set

    from tplimits.program.nodes.program import Program

#: a factor that may be the readout of a term, and what the other factors are made of
Part = tuple[int, frozenset[int]]


def readout(program: Program, position: int) -> None:
    """NoLimitError where a vector that is read out is in neither class."""
    if not (is_safe(program, [position]) or _is_tied(program, position) or _is_odd(program, position)):
        raise NoLimitError(
            f"{program.where(position)}: the output n^(−1/2) Σ x is Gaussian with covariance ⟨x|x′⟩ only for "
            "x = Σ v·y with fresh readout vectors v of mean 0 (or images W y with W used there alone, or odd functions "
            "of these). Multiply what is read out by a fresh vector."
        )


def _is_odd(program: Program, position: int) -> bool:
    """Whether a vector changes its sign with matrices that are used there alone, or with all of its initial vectors."""
    if _is_odd_in_one(program, position):
        return True
    if initial_only(program, position):
        vectors = [s for p in origins_of(program, position) if isinstance(s := program[p], InitialVector)]
        return all(s.law.mean == 0 for s in vectors) and _sign(program, position, -1, frozenset()) == -1
    last = frozenset(m for m in origins_of(program, position) if _is_used_last(program, m, position))
    return any(_sign(program, position, 1, turned) == -1 for turned in (last, *(frozenset({m}) for m in sorted(last))))


def _is_odd_in_one(program: Program, position: int) -> bool:
    """Whether a vector changes its sign with one centred vector that stands at each neuron alone, beside no scalars."""
    if any(_is_scalar(program, p) for p in (*networkx.ancestors(program.graph, position), position)):
        return False
    for p in sorted(origins_of(program, position)):
        s = program[p]
        centred = isinstance(s, InitialVector) and s.law.mean == 0 and not is_place(s)
        if centred and _is_alone(program, p, position) and _sign(program, position, -1, frozenset(), p) == -1:
            return True
    return False


def _is_used_last(program: Program, matrix: int, position: int) -> bool:
    """Whether images under a matrix are made alike, of what does not depend on it, and mixed with no other neurons."""
    drawn = isinstance(program[matrix], InitialMatrix) and one_orientation(program, matrix)
    return drawn and _is_alone(program, matrix, position)


def _is_alone(program: Program, source: int, position: int) -> bool:
    """Whether what depends on a matrix or a vector is mixed with no other neurons below a position."""
    above = {*networkx.ancestors(program.graph, position), position}
    behind = networkx.descendants(program.graph, source) & above
    images = [s for p in above if isinstance(s := program[p], MatMul)]
    mixed = any(s.operand.source in {*behind, source} for s in images)
    return not (mixed or any(is_average(program, p) for p in behind))


def _sign(program: Program, position: int, vectors: int, turned: frozenset[int], alone: int | None = None) -> Sign:
    """How a vector changes with the signs of matrices, and of all initial vectors, or of one, where `vectors` is −1."""

    def image(s: MatMul, operand: Sign) -> Sign:
        return -operand if operand is not None and s.matrix in turned else operand

    return signs(program, vectors, image, {}, alone)[position]


def _is_tied(program: Program, position: int) -> bool:
    """Whether readouts multiply functions of images under matrices that are used there alone."""
    written = opened(program, [position])
    whole = tuple(e for p in written.positions for e in entries(written.at(p)))
    products = written.every
    parted = _parted([_parts(written, factors) for factors in products], frozenset(), frozenset())
    if not products or parted is None:
        return False
    readouts, leaves = parted
    images = [s for s in (written.program[p] for p in leaves) if isinstance(s, MatMul)]
    matrices = {s.matrix for s in images}
    vectors = {p for p in leaves if isinstance(written.program[p], InitialVector)}
    if not images or any(is_place(written.program[p]) for p in readouts | vectors):
        return False
    if _is_nested(written):
        return True
    behind = matrices.union(*(networkx.descendants(written.graph, m) for m in matrices))
    inside = [s for s in written.program if isinstance(s, MatMul) and s.matrix in matrices]
    # scalars would be random beside the sum, and what is made of these matrices remembers them
    return (
        all(s.operand.source not in behind for s in inside)
        and all(one_orientation(written.program, m) for m in matrices)
        and not any(_is_scalar(written.program, p) for p in _leaves(written.program, whole))
    )


def _is_nested(written: Written) -> bool:
    """Whether all is made of images under normal matrices, each applied one way round, and of scalars that settle."""
    program = written.program
    for p in {*written.positions}.union(*(networkx.ancestors(written.graph, p) for p in written.positions)):
        s = program[p]
        if isinstance(s, InitialMatrix) and not (s.law == NORMAL and one_orientation(program, p)):
            return False
        # a mean for each neuron over others is no finite number of scalars
        if is_place(s) or (is_average(program, p) and not isinstance(s, Avg)):
            return False
        if isinstance(s, Nonlin) and s.body.free_symbols & program.known.width_symbols:
            return False
    return True


def _parted(terms: list[list[Part]], readouts: Set[int], others: Set[int]) -> tuple[Set[int], Set[int]] | None:
    """Readouts, one for each term, and what all other factors are made of, which holds none of them."""
    if not terms:
        return readouts, others
    for readout, leaves in terms[0]:
        tried = readouts | {readout}, others | leaves
        if not tried[0] & tried[1] and (found := _parted(terms[1:], *tried)) is not None:
            return found
    return None


def _parts(written: Written, factors: Product) -> list[Part]:
    """The factors of a term that are initial vectors, each with the positions of what the others are made of."""
    found = []
    for i, factor in enumerate(factors):
        origin = written.origin(factor)
        if origin is not None and isinstance(written.program[origin], InitialVector):
            rest = (*factors[:i], *factors[i + 1 :])
            found.append((origin, frozenset().union(*(_leaves(written.program, entries(f)) for f in rest))))
    return found


def _leaves(program: Program, found: tuple[Entry, ...]) -> set[int]:
    """The images, initial vectors and scalars that entries are functions of."""
    leaves: set[int] = set()
    for e in found:
        s = program[e.source]
        if isinstance(s, OuterNonlin) and e.neuron == OWN and not is_average(program, e.source):
            leaves |= _leaves(program, entries(s.body))
        else:
            leaves.add(int(e.source))
    return leaves


def _is_scalar(program: Program, position: int) -> bool:
    """Whether a value is no vector of its own neuron: computed scalars, and means over other neurons."""
    return isinstance(program[position], (Avg, ScalarNonlin)) or is_average(program, position)
