"""Orthonormal bases of columns of particles, grown many columns at a time.

Columns are stored as rows of an array (count, particles), so that products with them run along memory.
"""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.files.fields import parse

#: digits of the numbers that generators count with
_DIGITS = 40
#: what a checkpoint holds of one object: arrays, numbers, text, and the same of its parts
State = dict[str, Any]

#: directions shorter than this, relative to the vector, are taken as repetitions
REPEATED = 1e-6
#: rows that the second one makes room for
_SECOND = 4
#: particles needed for every column
PER_COLUMN = 4
#: columns that fresh ones are made orthogonal to: more cost quadratically, and change no error bar that was measured
MOST_SEEN = 512


class OverflowingError(EvaluationError):
    """Columns beyond the range of numbers; who trains knows at which step."""


class Growing:
    """Rows of equal length in one array that grows by doubling.

    A spare block of long rows would be mapped and unmapped by the system for every matrix, also if it is applied once:
    the first rows are kept as they are given, and there is room for more with the second ones.
    """

    def __init__(self, size: int) -> None:
        self._rows = numpy.empty((0, size))
        self.count = 0

    @property
    def rows(self) -> Array:
        """All rows so far."""
        return self._rows[: self.count]

    def append(self, rows: Array) -> None:
        """Add rows at the end; nobody writes into them afterwards."""
        needed = self.count + len(rows)
        if not self.count:
            self._rows = numpy.ascontiguousarray(rows, dtype=float)
        else:
            if needed > len(self._rows):
                larger = numpy.empty((max(needed, 2 * len(self._rows), _SECOND), self._rows.shape[1]))
                larger[: self.count] = self.rows
                self._rows = larger
            self._rows[self.count : needed] = rows
        self.count = needed

    def state(self) -> State:
        """What a checkpoint holds."""
        return {"rows": self.rows}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self._rows = numpy.array(state["rows"])
        self.count = len(self._rows)


class Basis(Growing):
    """Orthonormal rows."""

    def rest(self, x: Array) -> tuple[Array, Array]:
        """(coordinates, remainder) of the rows of x; a second time where the first left less than half (Kahan)."""
        if not self.count:
            return numpy.empty((len(x), 0)), x.copy()
        rows = self.rows
        coordinates = x @ rows.T
        left = x - coordinates @ rows
        # a remainder that is small has lost digits in the subtraction: twice is enough.  By Pythagoras, it is less than
        # half where its square is less than a third of that of the coordinates, and these are few
        small = 3 * numpy.vecdot(left, left) < numpy.vecdot(coordinates, coordinates)
        if numpy.count_nonzero(small):
            again = left[small] @ rows.T
            left[small] -= again @ rows
            coordinates[small] += again
        return coordinates, left

    def new_directions(self, x: Array) -> tuple[Array, Array, Array]:
        """(coordinates, remainder, orthonormal rows that span the remainder); repetitions add no row."""
        lengths = _finite_lengths(x)
        coordinates, left = self.rest(x)
        return coordinates, left, orthonormal(left, lengths)


def _finite_lengths(x: Array) -> Array:
    lengths = numpy.sqrt(numpy.vecdot(x, x))  # without the copies of numpy.linalg.norm
    if numpy.count_nonzero(numpy.isfinite(lengths)) < len(lengths):
        raise OverflowingError("moment not established: a particle column is not finite.")
    return lengths


def orthonormal(x: Array, lengths: Array) -> Array:
    """Orthonormal rows spanning the rows of x, leaving out what is small beside `lengths` or repeats earlier rows."""
    found = numpy.empty_like(x)
    count = 0
    for row, length in zip(x, lengths, strict=True):
        left = row
        for _ in range(2 if count else 0):
            left = left - (found[:count] @ left) @ found[:count]
        rest = math.sqrt(left @ left)
        # relative to the vector itself: what is left of a repetition is rounding, however long the vector
        if rest > REPEATED * length and rest > 0:
            found[count] = left / rest
            count += 1
    return found[:count]


class Population:
    """The particles of one width: fresh columns, orthogonal to those seen so far while there is room for it.

    White columns have exact first and second moments with everything seen.  At most a quarter of the particles, and
    `MOST_SEEN` columns, are spent on them; later columns are plain normals, as in a network of that width.
    """

    #: particles needed for every column that a matrix is applied to
    least_per_column: ClassVar[int] = PER_COLUMN

    def __init__(self, size: int, white: bool, rng: numpy.random.Generator) -> None:
        self.size, self.rng = size, rng
        self.seen = Basis(size)
        self.white = white
        if white:
            # fresh columns have mean 0 exactly
            self.seen.append(numpy.full((1, size), 1 / math.sqrt(size)))

    def _has_room(self, columns: int) -> bool:
        count = self.seen.count + columns
        if self.white and (PER_COLUMN * count > self.size or count > MOST_SEEN):
            self.white = False
            self.seen = Basis(0)
        return self.white

    def see(self, x: Array) -> None:
        """Remember columns, so that later fresh columns are orthogonal to them."""
        if self._has_room(len(x)):
            self.seen.append(self.seen.new_directions(x)[2])

    def fresh(self, count: int, beside: Basis | None = None) -> Array:
        """Rows of independent N(0, 1) entries, orthogonal to what has been seen, or at least to `beside`."""
        g = self._normal(count)
        if self._has_room(count):
            rows = _rotated(self.seen.rest(g)[1])
            self.seen.append(rows)
            return rows * math.sqrt(self.size)
        return g if beside is None or not beside.count else beside.rest(g)[1]

    def _normal(self, count: int) -> Array:
        """Rows of normals."""
        return self.rng.standard_normal((count, self.size))

    def state(self) -> State:
        """What a checkpoint holds."""
        return {"seen": self.seen.state(), "white": self.white, "rng": rng_state(self.rng)}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.white = bool(state["white"])
        self.seen.restore(state["seen"])
        set_rng_state(self.rng, state["rng"])


class AntitheticPopulation(Population):
    """Fresh columns that the other half of the particles has with the other sign: odd columns.

    What is odd in all of them together has mean 0 exactly, whatever it is.  An odd column is orthogonal to every even
    one, and to others if it is to their odd parts, so that half of a column is all that is kept and drawn.
    """

    def __init__(self, size: int, white: bool, rng: numpy.random.Generator) -> None:
        super().__init__(size, white, rng)
        self._half = size // 2
        if white:
            self.seen = Basis(self._half)

    def see(self, x: Array) -> None:
        """Remember the odd parts of columns."""
        if self._has_room(len(x)):
            lengths = _finite_lengths(x)
            # even parts are orthogonal to odd columns already
            odd = (x[:, : self._half] - x[:, self._half :]) / 2
            self.seen.append(orthonormal(self.seen.rest(odd)[1], lengths))

    def fresh(self, count: int, beside: Basis | None = None) -> Array:
        """Odd rows of N(0, 1) entries, orthogonal to what has been seen; where there is no room, plain normals."""
        if not self._has_room(count):
            return super().fresh(count, beside)
        rows = _rotated(self.seen.rest(self.rng.standard_normal((count, self._half)))[1])
        self.seen.append(rows)
        rows = rows * math.sqrt(self._half)
        return numpy.concatenate([rows, -rows], axis=1)


def _rotated(left: Array) -> Array:
    """Orthonormal rows that span the same as the rows given, rotated at random if these are normal."""
    if len(left) == 1:
        # of one row a decomposition takes ten times as long
        return left / numpy.linalg.norm(left)
    columns, triangle = numpy.linalg.qr(left.T)
    return columns.T * numpy.sign(numpy.diag(triangle))[:, None]


def rng_state(rng: numpy.random.Generator) -> str:
    """Where a generator stands, as text."""
    return json.dumps(rng.bit_generator.state, default=lambda array: array.tolist())


def set_rng_state(rng: numpy.random.Generator, text: Any) -> None:
    """Put a generator where `rng_state` found it."""
    try:
        fields = parse(str(text), numbers=True, digits=_DIGITS)
        state = {key: fields.plain(key) for key in rng.bit_generator.state}
        if isinstance(state["state"], dict):  # generators with arrays inside take arrays back
            state["state"] = {
                k: numpy.array(v, dtype=numpy.uint64) if isinstance(v, list) else v for k, v in state["state"].items()
            }
        rng.bit_generator.state = state
    except (ProgramError, ValueError, TypeError, KeyError, OverflowError):
        raise EvaluationError("the state of a generator of random numbers is damaged.") from None
