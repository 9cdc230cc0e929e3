"""Compiled loops over pairs of inputs, each pair in registers: a fast one over rows, a careful one over pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.numbers.generated import functions, is_compiled
from tplimits.regimes.kernels.numbers.fused.statements import Text

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables


@dataclass(frozen=True)
class Loop:
    """A loop and what it reads: expressions of Grams, of rows of either side, of numbers.

    `text` is the module, which `run` compiles.
    """

    text: str
    statements: int
    grams: tuple[Expr, ...]
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    numbers: tuple[Expr, ...]

    @property
    def run(self) -> Callable[..., None]:
        """The compiled loop."""
        return _compiled(self.text)

    @property
    def is_kept(self) -> bool:
        """Whether it is compiled already."""
        return is_compiled(self.text, _kind(self.text))


#: sums of products are rounded once (`contract`) in the fast loop alone: the careful one lives from exact cancellation
_OPTIONS = 'error_model="numpy"'
_HEADING = '''"""Generated: the kernels of a network for pairs of inputs."""


import math

import numba

from tplimits.numbers.jit import njit
from tplimits.numbers.moments.angles import atan2

angle = numba.njit(forceinline=True, error_model="numpy")(atan2)


'''


#: the body stands in a function of its own: the passes for parallel loops take minutes over hundreds of statements, and
#: inlined by LLVM it still runs in vector registers, because a parallel loop knows that its arrays do not overlap
_LOOP = """

row_of = numba.njit(forceinline=True, error_model="numpy")(row)


@njit(parallel=True, error_model="numpy")
def loop(G, D, L, R, P, K, T, N, triangle):
    for i in numba.prange(K.shape[0]):
        row_of(G, D, L, R, P, K, T, N, triangle, i)
"""


def generate(derivation: KernelTables, constants: Mapping[Expr, float], careful: bool) -> tuple[str, Text]:
    """The module with the loop, and what it reads.  Raises NotFused where a part has no place in it."""
    text = Text(derivation, constants, careful)
    results = text.kernels(2)
    rows = [f"{name} = L[{k}, i]" for k, name in enumerate(text.left.values())]
    numbers = [f"p{k} = P[{k}]" for k in range(len(text.numbers))]
    margins = [f"margin = {m} if {m} < margin else margin" for m in text.margins]
    body = [*text.determinants.reads, *text.lines, "margin = 1.0", *margins]
    body = [_inlined_numbers(line.replace("math.atan2(", "angle(")) for line in body]
    found = [*map(_inlined_numbers, results), "margin < 0.0"]
    written = _of_pairs if careful else _of_rows
    lines = "\n".join(f"    {line}" for line in [*numbers, *rows, *written(text, body, found)])
    options = _OPTIONS if careful else f"{_OPTIONS}, fastmath={{'contract'}}"
    heading, loop = (part.replace(_OPTIONS, options) for part in (_HEADING, _LOOP))
    return f"{heading}def row(G, D, L, R, P, K, T, N, triangle, i):\n{lines}\n{loop}", text


def _of_pairs(text: Text, body: list[str], found: list[str]) -> list[str]:
    """The lines for one pair, whose arrays are (pairs, 1)."""
    right = [f"{name} = R[{k}, i]" for k, name in enumerate(text.right.values())]
    grams = [f"{name} = G[{k}, i, 0]" for k, name in enumerate(text.grams.values())]
    return [*right, *grams, *body, *(f"{array}[i, 0] = {x}" for array, x in zip("KTN", found, strict=True))]


def _of_rows(text: Text, body: list[str], found: list[str]) -> list[str]:
    """The lines for one row, with a loop over its columns, which are slices.

    A column of the whole array would be a number that might be negative and count from the end: the compiler then
    gathers and scatters the numbers of a vector one by one, which takes longer than all the arithmetic.
    """
    slices = [f"{array}0 = {array}[i, first:]" for array in "KTN"]
    slices += [f"G{k} = G[{k}, i, first:]" for k in range(len(text.grams))]
    slices += [f"R{k} = R[{k}, first:]" for k in range(len(text.right))]
    reads = [f"{name} = R{k}[j]" for k, name in enumerate(text.right.values())]
    reads += [f"{name} = G{k}[j]" for k, name in enumerate(text.grams.values())]
    stores = [f"{array}0[j] = {x}" for array, x in zip("KTN", found, strict=True)]
    inner = [f"    {line}" for line in (*reads, *body, *stores)]
    return ["first = i if triangle else 0", *slices, "for j in range(K0.shape[0]):", *inner]


def _inlined_numbers(line: str) -> str:
    """P[k] as the local name pk: loads stay out of the loop."""
    parts = line.split("P[")
    return parts[0] + "".join(f"p{p.replace(']', '', 1)}" for p in parts[1:])


@lru_cache(maxsize=64)
def _compiled(code: str) -> Callable[..., None]:
    return functions(code, _kind(code))["loop"]


def _kind(code: str) -> str:
    return f"kernels_{hashlib.sha256(code.encode()).hexdigest()[:16]}"


def loop_for(derivation: KernelTables, constants: Mapping[Expr, float], careful: bool) -> Loop:
    """The loop of a recursion; NotFused where it needs arrays."""
    code, text = generate(derivation, constants, careful)
    return Loop(code, len(text.lines), *(tuple(d) for d in (text.grams, text.left, text.right, text.numbers)))
