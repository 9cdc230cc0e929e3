"""What is asked of the tables of a kernel, checked and read, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.pages.matrices import report_of
from tplimits.pages.report import Report, Reported
from tplimits.program.nodes.entries import size_symbol
from tplimits.program.nodes.given import seed_number, whole_from
from tplimits.regimes.kernels.derivation.leaves import SECOND
from tplimits.regimes.kernels.numbers.disguised import require_settled
from tplimits.regimes.kernels.numbers.inputs import (
    Inputs,
    Known,
    all_sizes,
    inputs_of,
    read_arrays,
    read_constants,
    read_sizes,
    same_parameters,
)
from tplimits.regimes.kernels.numbers.inseparable import Cost, cost, inseparable
from tplimits.regimes.kernels.numbers.judged import require

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
    from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

#: the two kernels, in the order of a pair
KERNELS = ("nngp", "ntk")


def sampling_of(draws: Any = 1024, replicates: Any = 8, seed: Any = 0) -> dict[str, int]:
    """How means are drawn, where they have to be; EvaluationError for what is no number of draws or no seed."""
    return {
        "draws": whole_from("draws", draws, 1, EvaluationError),
        "replicates": whole_from("replicates", replicates, 1, EvaluationError),
        "seed": seed_number(seed, EvaluationError),
    }


def _with_errors(pair: KernelPair | NNGPAlone, *names: str) -> str:
    """The matrices, and their standard errors where they are drawn: bounds of other routes are far below any print."""
    drawn = [f"{name}_error" for name in names if isinstance(getattr(pair, f"{name}_error"), numpy.ndarray)]
    return f"{type(pair).__name__}({', '.join(f'{name}={getattr(pair, name)!r}' for name in (*names, *drawn))})"


@dataclass(frozen=True)
class KernelPair(Reported):
    """NNGP and NTK of two batches of inputs, shape (N1, N2, *axes, *axes); unpacks into the two arrays.

    `nngp_error` and `ntk_error` are standard errors where logits are drawn.  Elsewhere they are one number, the largest
    error bound of any single mean of the recursion, which is not carried on through later layers; 0 for closed forms,
    and for float32 data of many inputs, which is done in single precision, the largest difference to doubles at some
    pairs of inputs, the most alike among them.
    """

    nngp: Array
    ntk: Array
    nngp_error: Array | float = field(default=0.0, repr=False)
    ntk_error: Array | float = field(default=0.0, repr=False)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.nngp, self.ntk))

    def __repr__(self) -> str:
        return _with_errors(self, "nngp", "ntk")

    def report(self) -> Report:
        """Both matrices as pictures, with their ranges and errors."""
        found = {"NNGP": (self.nngp, self.nngp_error), "NTK": (self.ntk, self.ntk_error)}
        return report_of("tplimits kernels", "Kernels of pairs of inputs", found, repr(self))


@dataclass(frozen=True)
class NNGPAlone(Reported):
    """The NNGP of two batches of inputs where the tangent kernel has no limit: asking for it raises NoLimitError."""

    nngp: Array
    nngp_error: Array | float = field(default=0.0, repr=False)
    reason: str = field(default="", repr=False)

    @property
    def ntk(self) -> Array:
        """What has no limit."""
        raise NoLimitError(self.reason)

    def __iter__(self) -> Iterator[Array]:
        yield self.nngp
        yield self.ntk

    def __repr__(self) -> str:
        return _with_errors(self, "nngp")

    def report(self) -> Report:
        """The matrix as a picture, and why there is no other."""
        found = {"NNGP": (self.nngp, self.nngp_error)}
        why = f"{' '.join(self.reason.split())} The NNGP is below."
        return report_of("tplimits kernels", "Covariances of pairs of inputs", found, repr(self), answer=why)


def paired(arrays: Mapping[str, Array], error: float, no_ntk: str) -> KernelPair | NNGPAlone:
    """Arrays by name, with their standard errors among them or a bound beside them, as a pair."""
    nngp, of_nngp = arrays["nngp"], arrays.get("nngp_error", error)
    if no_ntk:
        return NNGPAlone(nngp, of_nngp, no_ntk)
    return KernelPair(nngp, arrays["ntk"], of_nngp, arrays.get("ntk_error", error))


@dataclass(frozen=True)
class GramRequest:
    """What is to be evaluated: the derivation, both batches, numbers of constants."""

    derivation: KernelTables
    one: Inputs
    other: Inputs
    constants: Mapping[Expr, float]
    symmetric: bool
    single: bool = False

    @property
    def dtype(self) -> type[numpy.floating[Any]]:
        """Of the kernels: float32 where all data is."""
        return numpy.float32 if self.single else numpy.float64

    @cached_property
    def cost(self) -> Cost:
        """What means that do not separate would take by quadrature."""
        return cost(self.derivation, self.one, self.other, self.constants)

    @property
    def needs_quadrature(self) -> bool:
        """Whether there are means with neither a formula nor an expansion, of which each entry may take a second."""
        return bool(inseparable(self.derivation, self.constants))

    @property
    def is_drawn(self) -> bool:
        """Whether numbers come from draws: of random logits, or of means that are too many for quadrature."""
        return self.derivation.is_drawn or self.cost.is_too_much


@dataclass(frozen=True)
class _Read:
    """What shapes and constants decide: sizes of both sides, numbers of constants."""

    one: Known
    other: Known
    constants: Known


def request(
    derivation: KernelTables, X1: Any, X2: Any, given: Mapping[str, Any], ratios: Mapping[str, float] | None
) -> GramRequest:
    """Check and read what a user gave; shapes and constants that came before are not checked again."""
    network = derivation.network
    first = read_arrays(network, X1, "X1")
    second = first if X2 is None else read_arrays(network, X2, "X2")
    read = _read(derivation, first, second, given, ratios)
    one = other = inputs_of(network, first, "X1", read.one)
    if X2 is not None:
        other = inputs_of(network, second, "X2", read.other)
    require(derivation, (one, other), read.constants)
    for inputs in (one,) if other is one else (one, other):
        require_settled(derivation, inputs, read.constants)
    single = _is_single(X1) and (X2 is None or _is_single(X2))
    return GramRequest(derivation, one, other, read.constants, X2 is None, single)


def _read(
    derivation: KernelTables, first: Mapping[int, Array], second: Mapping[int, Array], given: Any, ratios: Any
) -> _Read:
    """Sizes and numbers, remembered by shapes and by what was given."""
    known: dict[Any, _Read] = derivation.remembered["read"]
    try:  # True is no 1 here
        asked = [[(k, type(v), v) for k, v in g.items()] for g in (given, {} if ratios is None else ratios)]
        key = (*(tuple((p, a.shape[1:]) for p, a in s.items()) for s in (first, second)), *map(tuple, asked))
        if key in known:
            return known[key]
    except Exception:  # refused below, numbers that cannot be remembered, or the code of users
        return _found(derivation, first, second, given, ratios)
    known[key] = _found(derivation, first, second, given, ratios)
    return known[key]


def _found(
    derivation: KernelTables, first: Mapping[int, Array], second: Mapping[int, Array], given: Any, ratios: Any
) -> _Read:
    network = derivation.network
    fixed = {
        network.root_axis(a): int(s) for a in network.all_axes if (s := network.size(a)) is not None and s.is_Integer
    }
    constants, sizes = read_constants(network, given, ratios, fixed)
    sides = [read_sizes(network, a, n, sizes) for a, n in ((first, "X1"), (second, "X2"))]
    one, other = (all_sizes(network, s, derivation.alike, derivation.infinite) for s in sides)
    same_parameters(network, one, other)
    constants |= {size_symbol(a): float(s) for a, s in one.items()}
    constants |= {size_symbol(a + SECOND): float(s) for a, s in other.items()}
    return _Read(one, one if one == other else other, Known(constants))


def _is_single(X: Any) -> bool:
    arrays = X.values() if isinstance(X, Mapping) else [X]
    return all(getattr(a, "dtype", None) == numpy.float32 for a in arrays)


def refuse_mixture(derivation: KernelTables) -> None:
    """Refuse kernels that are random."""
    if derivation.is_mixture:
        raise EvaluationError(
            "with fluctuations √n·Avg that stay, such as 1/√n logits of a fixed number of heads, the limit is a "
            "mixture, and the kernels are random: use .sample(X), or send the heads to infinity with "
            'tp.Kernels(infinite=("head",)).'
        )


def of_tables(asked: GramRequest, tables: Tables, kernels: Sequence[str] = KERNELS) -> list[Array]:
    """Kernels of all pairs, (N1, N2, *axes, *axes) each."""
    frame = tables.frame(1, 2)
    exprs = [getattr(asked.derivation if tables.demand is None else tables.demand, k) for k in kernels]
    with numpy.errstate(all="ignore"):
        return [laid_out(asked, frame.mean(e)) for e in exprs]


def laid_out(asked: GramRequest, value: Labelled, own: bool = False) -> Array:
    """A kernel of all pairs, or of all inputs with themselves, with its axes in order."""
    axes = asked.derivation.axes
    if not axes and value.labels == (("input 1",) if own else ("input 1", "input 2")):
        return value.array
    sides = [asked.one.sizes[a] for a in axes], [asked.other.sizes[a] for a in axes]
    order = ["input 1", *([] if own else ["input 2"]), *axes, *(a + SECOND for a in axes)]
    many = [asked.one.many, *([] if own else [asked.other.many])]
    return numpy.broadcast_to(value.at(order), (*many, *sides[0], *sides[1]))


def shape_of(asked: GramRequest, axes: Sequence[str] | None = None) -> tuple[int, ...]:
    """The shape of a kernel with these output axes, or those that it keeps."""
    axes = asked.derivation.kept if axes is None else axes
    sides = ([asked.one.sizes[a] for a in axes], [asked.other.sizes[a] for a in axes])
    return (asked.one.many, asked.other.many, *sides[0], *sides[1])


def dropped(asked: GramRequest, value: Array) -> Array:
    """The array without output axes along which outputs are independent and alike."""
    axes = asked.derivation.axes
    for place in reversed(range(len(axes))):
        if axes[place] in asked.derivation.alike:
            many = value.ndim - 2
            value = numpy.take(numpy.take(value, 0, axis=2 + many // 2 + place), 0, axis=2 + place)
    return value


def refuse_infinite(
    asked: GramRequest, kernels: Sequence[str], values: Sequence[Array], row: int = 0, column: int = 0
) -> None:
    """Refuse kernels that are not finite; `row` and `column` are where the arrays begin."""
    for name, array in zip(kernels, values, strict=True):
        if not numpy.isfinite(array).all():
            i, j = numpy.argwhere(~numpy.isfinite(array))[0][:2] + numpy.array([row, column])
            zeros = [k for side, k in ((asked.one, i), (asked.other, j)) if _is_zero(side, k)]
            why = "leaves the range of double precision there, or divides by zero."
            if zeros:
                why = (
                    f"divides by the size of input {zeros[0]}, which is zero: a norm does, and so does the mean slope "
                    "of a jump whose argument is made by the matrix that it is multiplied by. Leave the input out, or "
                    "add a bias."
                )
            raise EvaluationError(
                f"the {name.upper()} of inputs {i} and {j} is not a finite number: a kernel of "
                f"`{asked.derivation.network.name}` {why}"
            )


def _is_zero(inputs: Inputs, k: int) -> bool:
    """Whether one of the inputs is zero in all its entries; indices are no numbers."""
    return all(a.dtype.kind == "f" and not a[k].any() for a in inputs.arrays.values())


def squares(rows: int, columns: int, mirrored: bool, step: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles of a matrix; of a symmetric one those on and above the diagonal."""
    for i in range(0, rows, step):
        for j in range(i if mirrored else 0, columns, step):
            yield slice(i, min(i + step, rows)), slice(j, min(j + step, columns))


def many_squares(asked: GramRequest, step: int) -> int:
    """How many of them there are."""
    a, b = -(-asked.one.many // step), -(-asked.other.many // step)
    return a * (a + 1) // 2 if asked.symmetric else a * b
