"""The widths at which a program is sampled: those asked for, or those it can afford."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tplimits.errors import CheckError, shown
from tplimits.program.nodes.given import several, whole_number
from tplimits.sampling.work import MOST_ENTRIES, Ratios, affordable, fitting_width, width_cap

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.sampling.estimate import Series

#: the widths of a check unless it is told others
WIDTHS = (64, 128, 256, 512)
#: the same where precision is dear: covariances, whose noise does not fall with n, and odd powers of √n
MORE_WIDTHS = (16, 32, 64, 128, 256, 512)


def sampled_widths(
    program: Program, widths: Sequence[int], form: Series, ratios: Ratios, layers: int | None = None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The widths to sample at, and a remark where they are not those asked for.

    With `layers`, as many at the largest width, the others are moved to where their share is whole.
    """
    asked = _asked(widths, form)
    capped = affordable(program, asked)
    if not _increasing(capped):
        raise CheckError(
            f"widths={asked}: `{program.name}` is sampled up to width {width_cap(program)} only, and these widths are "
            f"not distinct when scaled down to {capped}; give widths within the cap, further apart."
        )
    # told before any draw, with what would fit: an allocation that fails in a worker knows neither
    most = fitting_width(program, capped[-1], ratios)
    if most < capped[-1]:
        raise CheckError(
            f"widths={asked}: one draw at width {capped[-1]} does not fit into {MOST_ENTRIES * 8 >> 30} GB; give "
            f"widths up to {most}, smaller ratios or smaller axes."
        )
    taken = whole_ratios(program, capped, ratios, layers)
    remarks = []
    if capped != asked:
        remarks.append(f"Widths were kept to n ≤ {capped[-1]}: `{program.name}` averages over tuples of neurons.")
    if taken != capped:
        remarks.append(f"Widths were moved to {taken}, where {_whole(program, layers)} close to whole numbers.")
    return taken, tuple(remarks)


def _asked(widths: Sequence[int], form: Series) -> tuple[int, ...]:
    listed = several(widths)
    if listed is None:
        raise CheckError(f"widths={shown(widths)}: give a sequence such as {WIDTHS}.")
    numbers = [whole_number(w, 1 << 1000) for w in listed]  # which of them fit is told below
    found = tuple(w for w in numbers if w is not None and w > 0)
    if len(found) < len(numbers):
        raise CheckError(f"widths={shown(widths)}: widths are positive whole numbers.")
    if not _increasing(found):
        raise CheckError(f"widths={found}: widths increase, each larger than the one before.")
    if len(found) < form.parameters:
        raise CheckError(
            f"widths={found}: the fit of {form} needs at least {form.parameters} widths, better {form.parameters + 2}."
        )
    return found


def _increasing(widths: Sequence[int]) -> bool:
    return all(a < b for a, b in itertools.pairwise(widths))


def _whole(program: Program, layers: int | None) -> str:
    parts = [*(["the other widths"] if len(program.widths) > 1 else []), *(["numbers of layers"] if layers else [])]
    return f"{' and '.join(parts)} are"


def whole_ratios(
    program: Program, widths: tuple[int, ...], ratios: Ratios, layers: int | None = None
) -> tuple[int, ...]:
    """The widths, each moved by a tenth at most to where ρ n is nearest to whole for every other width ρ n.

    A rounded width is off its ratio by up to 1/(2n), now up, now down, which no series in 1/n describes.  The
    same holds for depths in proportion to the largest width, which has `layers` of them.
    """
    others = [float((ratios or {}).get(w, 1)) for w in program.other_widths]
    largest = _nearest(widths[-1], others)
    deep = [] if layers is None else [layers / largest]
    # ratios of layers are relative to the largest width, which therefore stays where its own move put it
    moved = (*(_nearest(n, others + deep) for n in widths[:-1]), largest)
    # close widths may be moved onto one another: then whole ratios are given up
    return moved if _increasing(moved) else widths


def _nearest(n: int, ratios: Sequence[float]) -> int:
    """The width within a tenth of n at which ratios are closest to whole numbers."""

    def off(n: int) -> float:
        return max((abs(n * ρ - max(1, round(n * ρ))) / (n * ρ) for ρ in ratios), default=0.0)

    # rounded, so that exact ratios tie in spite of rounding errors and the nearest width wins
    return min(range(n - n // 10, n + n // 10 + 1), key=lambda m: (round(off(m), 9), abs(m - n)))
