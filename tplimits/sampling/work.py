"""What a draw costs, from the program alone: the same on every machine, so that choices made by it repeat.

The unit is one normal random number, about 8 ns on one processor.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tplimits.law.unroll import size_of
from tplimits.program.nodes.entries import AxisSum
from tplimits.program.nodes.kinds import Avg, InitialMatrix, Instruction, MatMul, OuterNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

Ratios = Mapping[str, float] | None

#: work of reading or writing one entry, per operation, and of one multiplication in a matrix product
_ENTRY = 0.2
_PRODUCT = 0.1
#: entries held by a batch of draws, about: small enough for the caches, large enough to hide Python
_BATCH_ENTRIES = 1 << 20
_MOST_DRAWS = 4096
#: a family that grows has one member for so many neurons
_WIDTH_OF_A_MEMBER = 16
#: work of an expansion in 1/n for each pair of averages
_AVERAGES = 3e4
#: a layer of a block holds small arrays and many instructions: work beside the one counted
_LAYER = 4.0
#: entries of the largest array of one draw of an OuterNonlin of order 3 or more
CAP_ENTRIES = 1 << 21
#: entries of all arrays of one draw: 1 GB
MOST_ENTRIES = 1 << 27


def width_of(name: str, n: int, ratios: Ratios) -> int:
    """The size of a width of the program when the first is n."""
    return n if name == "n" else max(1, round(n * float((ratios or {}).get(name, 1))))


def _family(program: Program, instruction: Instruction) -> int:
    return math.prod(size_of(program, a) for a in instruction.axes)


def _held(program: Program, s: Instruction, n: int, ratios: Ratios) -> int:
    """Entries of an instruction's array in one draw."""
    if isinstance(s, InitialMatrix):
        return _family(program, s) * width_of(s.rows, n, ratios) * width_of(s.columns, n, ratios)
    return _family(program, s) * (1 if s.width is None else width_of(s.width, n, ratios))


def _spent(program: Program, s: Instruction, n: int, ratios: Ratios) -> float:
    """Work of an instruction in one draw."""
    held = _held(program, s, n, ratios)
    if isinstance(s, MatMul):
        matrix = program[s.matrix]
        assert isinstance(matrix, InitialMatrix)
        across = matrix.rows if s.transposed else matrix.columns
        # the entries of the product, each a sum over the other side of the matrix
        return _PRODUCT * held * width_of(across, n, ratios)
    if isinstance(s, OuterNonlin):
        entries = held * math.prod(width_of(w, n, ratios) for w in s.slot_widths)
        entries *= math.prod(size_of(program, t.axis) for t in s.body.atoms(AxisSum))
        # tuples of neurons for each entry of the result, and one reading beside the operations
        return _ENTRY * entries * (1 + float(s.body.count_ops()))
    if isinstance(s, Avg):
        return _ENTRY * _family(program, s) * width_of(s.over, n, ratios)
    return float(held)


def work(program: Program, n: int, ratios: Ratios = None) -> float:
    """The work of one draw at width n."""
    return sum(_spent(program, s, n, ratios) for s in program.instructions)


def expansion_work(program: Program) -> float:
    """About the work of an expansion in 1/n: each use of a matrix makes an average with each other one of it."""
    averages, uses = 0, Counter[int]()
    for s in program.instructions:
        if isinstance(s, MatMul):
            uses[s.matrix] += _family(program, s)
        elif isinstance(s, Avg):
            averages += _family(program, s)
    return _AVERAGES * (averages + sum(u * u for u in uses.values())) ** 2


def batch_size(program: Program, n: int, ratios: Ratios = None) -> int:
    """Draws that run together at width n."""
    held = sum(_held(program, s, n, ratios) for s in program.instructions)
    # work beside memory: few entries may take many operations, as tuples of neurons do
    return int(min(max(1, _BATCH_ENTRIES // max(held, work(program, n, ratios))), _MOST_DRAWS))


def member_count(n: int) -> int:
    """How many members an axis has at width n that grows with it."""
    return max(2, n // _WIDTH_OF_A_MEMBER)


def update_work(program: Program, name: str, operations: int, n: int, ratios: Ratios = None) -> float:
    """The work of one update of a parameter by an optimizer of so many operations an entry, its gradient included."""
    held = _held(program, program[program.initial_names[name]], n, ratios)
    # the gradient of a matrix is an outer product, one multiplication and one sum an entry
    return held * (_ENTRY * operations + 2 * _PRODUCT)


def fitting_width(program: Program, n: int, ratios: Ratios = None) -> int:
    """The largest width up to n at which one draw holds at most `MOST_ENTRIES` numbers; 0 when there is none."""
    # what is held grows with n, so that bisection finds the last width that fits
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(_held(program, s, middle, ratios) for s in program.instructions) <= MOST_ENTRIES
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def width_cap(program: Program) -> int | None:
    """The largest width at which a program with an OuterNonlin of order r ≥ 3 is sampled: n^r ≤ 2²¹.

    None for the programs without one: order 2 costs no more than a matrix.
    """
    order = max((s.order for s in program.instructions if isinstance(s, OuterNonlin)), default=1)
    # rounding of the root must not lose a whole number: 2²¹ has the cube root 128
    return int(CAP_ENTRIES ** (1 / order) + 1e-9) if order >= 3 else None


def affordable(program: Program, widths: tuple[int, ...]) -> tuple[int, ...]:
    """The widths in the same proportions, below the cap of the program."""
    cap = width_cap(program)
    if cap is None or widths[-1] <= cap:
        return widths
    return tuple(max(1, round(w * cap / widths[-1])) for w in widths)


def layer_work(program: Program, n: int, ratios: Ratios, by_products: bool) -> float:
    """The work of one layer of a block; `by_products`: products with matrices are drawn, not the matrices.

    The controls, products of all rows with each other, are counted in.
    """
    rows = _rows(program)
    # controls: inner products of all rows
    found = _PRODUCT * n * rows**2
    for s in program.instructions:
        if by_products and isinstance(s, MatMul):
            found += _held(program, s, n, ratios) * (1 + 2 * _PRODUCT * _family(program, s))
        elif not (by_products and isinstance(s, InitialMatrix)):
            found += _spent(program, s, n, ratios)
    return _LAYER * found


def layer_batch(program: Program, n: int, ratios: Ratios, by_products: bool) -> int:
    """Chains that run together at width n."""
    held = sum(
        _held(program, s, n, ratios) for s in program.instructions if not (by_products and isinstance(s, InitialMatrix))
    )
    return int(min(max(1, _BATCH_ENTRIES // held), _MOST_DRAWS))


def _rows(program: Program) -> int:
    """Vectors that meet a matrix, and those of the state."""
    state = 0 if program.state is None else _family(program, program[program.state])
    return state + sum(_family(program, s) for s in program.instructions if isinstance(s, MatMul))
