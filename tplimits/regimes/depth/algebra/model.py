"""What lowering makes of a block, and contraction works on: dense layers, their operands, and the block itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from sympy import Expr, Rational, S, srepr

from tplimits.regimes.depth.algebra.coefficients import Ring
from tplimits.regimes.depth.algebra.products import SPAN, Dimension, Factor, Poly, ProductTerm

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.activations import Basis
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.derivation.scalars.limits import Weight


#: the number of the operand that is 1 at every neuron
ONES = -1


class ColumnLabel(str):
    """The label of a joint cumulant of functions of one neuron, which it carries."""

    column: tuple[Basis, ...]


def column_label(column: tuple[Basis, ...]) -> ColumnLabel:
    """The label of a joint cumulant."""
    found = ColumnLabel("C|" + ",".join(map(str, column)))
    found.column = column
    return found


def centred_label(matrix: int) -> str:
    """The label that makes the functions of a matrix at an index less by their mean."""
    return f"Z|{matrix}"


class KinkLabel(str):
    """The label of ∂^derivatives f(R) |R|^power, times sgn(R) if `sign`, R a scalar of the model and f in `U`."""

    scalar: int
    power: Rational
    sign: bool
    derivatives: int
    function: Expr


def kink_label(scalar: int, power: Rational, sign: bool, derivatives: int = 0, function: Expr = S.One) -> KinkLabel:
    """The label of a function of a scalar."""
    whole = "" if function == 1 else f"|{srepr(function)}"
    found = KinkLabel(f"G|{scalar}|{power}|{'s' if sign else 'p'}|{derivatives}{whole}")
    found.scalar, found.power, found.sign, found.derivatives = scalar, power, sign, derivatives
    found.function = function
    return found


@dataclass(frozen=True)
class Scalar:
    """A scalar of size 1 with its indices open (OPEN, OPEN − 1, …), and the dimensions of these."""

    poly: Poly
    dimensions: tuple[int, ...]


class Jump(NamedTuple):
    """A function with a kink or jump where its argument is zero: the variance of the argument, which has to be there.

    `order` is the power of n^(−1/2) that its value at the jump comes with, and None where that is what the terms say:
    there the derivative alone is in doubt.
    """

    variance: Form
    order: int | None


@dataclass(frozen=True)
class Layer:
    """A function of the dense layer (matrix × operand): the factor "F|…" stands for it.

    Its indices are those of the matrix's family, those of the operand, and its neuron.  `operand` is None for the
    state itself.  `rows` and `columns` are the dimensions of the entries and of the sum, 1/columns the variance.
    """

    matrix: int
    transposed: bool
    operand: int | None
    basis: Basis
    families: int
    rows: int
    columns: int

    @property
    def label(self) -> str:
        return f"F|{self.matrix}{'T' if self.transposed else ''}|{self.operand}|{self.basis}"


@dataclass
class Model:
    """A block in the index algebra.

    `operands` holds vectors that matrices multiply, as templates: open indices are OPEN (neuron), OPEN − 1, … (axes).
    `weights` are functions of scalars of order 1, the factors "Y|…", `averages` the scalars they read, at the open
    indices OPEN − 1, …; `neurons` the matrices of whose product with the state, and the vectors, they read entries at
    one neuron, and the covariance of two of these.
    `expanded` are arguments of functions that were expanded, with n times their variance; `jumps` are functions
    that are not differentiable at a value of their argument.
    `domains` are numbers in open constants that may not be negative, by the root or logarithm of them.
    `depth` orders the matrices, the largest outermost: each is independent of all operands of the ones before it is
    read by.
    """

    dimensions: tuple[Dimension, ...]
    tokens: int
    layers: dict[str, Layer] = field(default_factory=dict)
    operands: dict[int, Poly] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    scalars: list[Scalar] = field(default_factory=list)
    weights: dict[str, Weight] = field(default_factory=dict)
    averages: dict[int, Poly] = field(default_factory=dict)
    neurons: dict[int, Form] = field(default_factory=dict)
    expanded: dict[str, Form] = field(default_factory=dict)
    jumps: dict[str, Jump] = field(default_factory=dict)
    domains: dict[str, Expr] = field(default_factory=dict)
    #: the dimensions of the tokens where there are several sequences, the first `tokens`
    sequences: tuple[int, ...] = ()

    @property
    def zero_powers(self) -> tuple[int, ...]:
        return (0,) * len(self.dimensions)

    def is_token(self, index: int) -> bool:
        """Whether an index runs over tokens."""
        return index // SPAN in (self.sequences or (self.tokens,))

    def order_of(self, powers: tuple[int, ...]) -> int:
        """The power of ε = n^(−1/2) in some powers of widths."""
        return -sum(p for p, d in zip(powers, self.dimensions, strict=True) if d.width and d.grows)

    def weights_in(self, poly: Poly) -> Iterator[str]:
        """The weights of order 1 in a sum, and in what its matrices multiply."""
        for label in (label for t in poly.terms for label, _, _ in t.factors):
            if label[0] == "Y":
                yield label
            operand = self.layers[label].operand if label[0] == "F" else None
            if operand is not None:
                yield from self.weights_in(self.operands[operand])

    def matrices_in(self, *sums: Poly) -> frozenset[int]:
        """The matrices in some sums, and in what these multiply."""
        return self.matrices_behind(f for poly in sums for t in poly.terms for f in t.factors)

    def matrices_behind(self, factors: Iterable[Factor]) -> frozenset[int]:
        """The matrices of some dense layers, and in what these multiply."""
        layers = [self.layers[label] for label, _, _ in factors if label[0] == "F"]
        inside = [self.matrices_in(self.operands[y.operand]) for y in layers if y.operand is not None]
        return frozenset(y.matrix for y in layers).union(*inside)

    def is_of(self, matrix: int, factor: Factor) -> bool:
        """Whether a factor is a function of a matrix times something."""
        return factor[0][0] == "F" and self.layers[factor[0]].matrix == matrix

    def in_ring(self, terms: Iterable[ProductTerm]) -> tuple[Model, Ring]:
        """The model with its coefficients in one ring with those of some terms."""
        ring = Ring([t.coeff for t in (*terms, *(t for p in self.operands.values() for t in p.terms))])
        return replace(self, operands={p: ring.poly(operand) for p, operand in self.operands.items()}), ring

    def note(self, name: str, variance: Form, order: int | None) -> None:
        """A jump of the least order at which it was met."""
        known = self.jumps.get(name)
        orders = [o for o in (order, known.order if known else None) if o is not None]
        self.jumps[name] = Jump(variance, min(orders, default=None))

    def outermost_first(self) -> list[int]:
        """The matrices in the order in which they are averaged."""
        return sorted(self.depth, key=lambda m: -self.depth[m])
