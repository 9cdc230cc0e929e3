"""What an execution is given: widths, sizes of finite axes, constants, and arrays of initial data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.nodes.bind import exact_constants
from tplimits.program.nodes.entries import BOUND, size_symbol, width_symbol
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.given import index_array, real_array, whole_from, width_ratios
from tplimits.program.nodes.grid import Grid
from tplimits.program.nodes.kinds import InitialScalar

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from tplimits.program.nodes.program import Program


class Setting:
    """A program at one width, with what is given for it: `leaves` are the numbers of its symbols, `given` its arrays.

    `data` holds those inputs that are indices, by position.
    """

    def __init__(
        self,
        program: Program,
        n: int,
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.program = program
        self.width = {"n": n, **_widths(program, n, ratios)}
        self.leaves: dict[Expr, Any] = {width_symbol(w): float(size) for w, size in self.width.items()}
        self.given: dict[str, Array] = {}
        self.data: dict[int, NDArray[numpy.int64]] = {}
        self._sizes: dict[str, int] = {}
        given = dict(given or {})
        constants = exact_constants(program, given)
        self._read_arrays(given)
        self._read_indices()
        for axis in program.all_axes:
            if program.size(axis) is not None or program.root_axis(axis) in self._sizes:
                self.leaves[size_symbol(axis)] = float(self.size(axis))
        self.leaves |= {symbol: float(evaluate(value, self.leaves)) for symbol, value in constants.items()}

    def _read_arrays(self, given: Mapping[str, Any]) -> None:
        """Turn what was given into arrays; they fix the sizes of axes that the program leaves open."""
        program = self.program
        for name, value in given.items():
            if name in program.all_axes and name not in program.initial_names:
                self._read_size(name, value)
                continue
            if name not in program.initial_names:
                initial = {program[p].name for p in program.initial_names.values()}
                known = ", ".join(sorted({*initial, *program.constants})) or "none"
                raise EvaluationError(
                    f"`{name}` is not initial data or a constant of `{program.name}`; it has {known}."
                )
            instruction = program[program.initial_names[name]]
            target = instruction.name
            if target in self.given:
                raise EvaluationError(f"`{name}` is `{target}`, which is given too; give it once.")
            array = self.given[target] = real_array(name, value)
            for axis, size in zip(instruction.axes, array.shape, strict=False):
                root = program.root_axis(axis)
                if program.size(axis) is None and self._sizes.setdefault(root, size) != size:
                    raise EvaluationError(
                        f"`{name}` has {size} entries along `{axis}`, but that axis has {self._sizes[root]} elsewhere."
                    )

    def _read_indices(self) -> None:
        """Those of the data that are indices, as whole numbers within their axes."""
        for position, s in enumerate(self.program):
            if isinstance(s, InitialScalar) and s.of is not None and s.name in self.given:
                self.data[position] = index_array(s.name, self.given[s.name], s.of, self.size(s.of))

    def _read_size(self, axis: str, value: Any) -> None:
        """Take the size of an axis that the program leaves open."""
        value = whole_from(axis, value, 1, EvaluationError)
        known = self.program.size(axis)
        if known is not None and known != value:
            raise EvaluationError(f"{axis}={value}: the axis `{axis}` of `{self.program.name}` has size {known}.")
        if self._sizes.setdefault(self.program.root_axis(axis), value) != value:
            raise EvaluationError(f"{axis}={value}: the axis `{axis}` has another size in an array that is given.")

    def size(self, axis: str) -> int:
        """The size of a finite axis, or of an index of a sum over it: the program's own, or that of a given array."""
        axis = axis.partition(BOUND)[0]
        size = self.program.size(axis)
        if size is not None:
            return int(size)
        root = self.program.root_axis(axis)
        if root not in self._sizes:
            raise ProgramError(
                f"the axis `{axis}` of `{self.program.name}` has no size: fix it with .bind({axis}=…), "
                "or give an array that has it."
            )
        return self._sizes[root]

    def shape(self, axes: Iterable[str]) -> tuple[int, ...]:
        """The sizes of some axes."""
        return tuple(self.size(a) for a in axes)

    def grid(self, sizes: Mapping[str, int]) -> Grid:
        """A grid of these sizes, on which look-ups and data can be read."""
        return Grid(sizes, [t.values for t in self.program.tables], self.data)


def _widths(program: Program, n: int, ratios: Mapping[str, float] | None) -> dict[str, int]:
    """The widths other than n: in proportion to it, and at least 1."""
    others = width_ratios(program, ratios, EvaluationError)
    return {w: max(1, round(n * float(ratio))) for w, ratio in others.items()}
