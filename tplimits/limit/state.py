"""What a derivation knows so far; the rules read it and add to it."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy
from sympy import Expr, S, Symbol

from tplimits.limit.expectation import Expectations
from tplimits.limit.gaussians import Gaussians, HatSource, View
from tplimits.limit.kets import Ket, Key, Step
from tplimits.limit.span import Span
from tplimits.limit.unroll import Unroller, label
from tplimits.program.entries import width_symbol
from tplimits.program.nodes import InitialMatrix
from tplimits.program.program import Program

#: conditions that array constants decide are judged to this accuracy
DATA_TOLERANCE = 1e-12
#: in sentences, what has more nodes than this is written by its name
_MOST_WRITTEN = 250


@dataclass(frozen=True)
class Use:
    """One application of a matrix (in one orientation) to a vector."""

    operand: str
    operand_ket: Expr
    hat: Symbol
    result: str
    result_ket: Expr


@dataclass(frozen=True)
class Doubt:
    """A second moment that is not established: of what (as text), on which line, and why."""

    what: str
    where: str
    reason: str


@dataclass
class Fluctuation:
    """A scalar √n·Avg(x) with ⟨1|x⟩ = 0: the Gaussian variable that stands for it."""

    symbol: Symbol
    key: Key
    over: str


@dataclass
class State:
    """The growing tables of one derivation."""

    program: Program
    engine: Expectations
    with_dots: bool = True
    kets: dict[Key, Ket] = field(default_factory=dict)
    scalars: dict[Key, Expr] = field(default_factory=dict)
    uses: dict[View, list[Use]] = field(default_factory=dict)
    spans: dict[View, Span] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    fluctuations: dict[Key, Fluctuation] = field(default_factory=dict)
    covariances: dict[tuple[Symbol, Symbol], Expr] = field(default_factory=dict)
    #: what has no established second moment: the formula, where it stands, why
    doubts: list[Doubt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unroller = Unroller(self.program)
        self._hat_covariances: dict[tuple[HatSource, HatSource], Expr] = {}
        self.gaussians.hat_covariance = self._hat_covariance

    @property
    def tolerance(self) -> float:
        """What counts as zero: exact zeros, and 1e-12 where array constants (data) take part."""
        return DATA_TOLERANCE if self.program.arrays else 0.0

    @property
    def gaussians(self) -> Gaussians:
        return self.engine.gaussians

    def label(self, key: Key) -> str:
        """The printed name of one entry of an instruction."""
        position, index = key
        instruction = self.program[position]
        return label(instruction.name, instruction.axes, index)

    def text(self, expr: Expr) -> str:
        """An expression with its moments written out, the long ones by name, as text."""
        return sympy.sstr(self.engine.written_out(expr, _MOST_WRITTEN))

    def matrix_label(self, view: View) -> str:
        position, index, transposed = view
        matrix = self.program[position]
        return label(matrix.name, matrix.axes, index) + ("ᵀ" if transposed else "")

    def ratio(self, upper: str, lower: str) -> Expr:
        """The limit of one width over another, in symbols k/n."""
        if upper == lower:
            return S.One
        return width_ratio(upper) / width_ratio(lower)

    def hat_factor(self, view: View) -> Expr:
        """κ = (entry variance) × (length of the sum): 1 for W, rows/columns for Wᵀ."""
        matrix = self.program[view[0]]
        assert isinstance(matrix, InitialMatrix)
        return self.ratio(matrix.rows, matrix.columns) if view[2] else S.One

    def _hat_covariance(self, a: HatSource, b: HatSource) -> Expr:
        """Cov(|Wx⟩^, |Wy⟩^) = κ ⟨x|y⟩ (Eq. 2.18)."""
        key = (a, b) if a.use <= b.use else (b, a)
        if key not in self._hat_covariances:
            uses = self.uses[a.view]
            bracket = self.engine.inner(uses[key[0].use].operand_ket, uses[key[1].use].operand_ket)
            factor = self.hat_factor(a.view)
            value = bracket if factor == 1 else sympy.expand(factor * bracket)
            self._hat_covariances[key] = self.engine.named(value, positive=a.use == b.use)
        return self._hat_covariances[key]


def width_ratio(width: str) -> Expr:
    """width / n as a positive symbol, in parentheses so that its powers read right."""
    return S.One if width == "n" else Symbol(f"({width}/n)", positive=True)


def in_widths_of_n(expr: Expr, program: Program) -> Expr:
    """Other widths in a body written as their ratio times n."""
    n = width_symbol("n")
    return expr.xreplace({width_symbol(w): width_ratio(w) * n for w in program.widths if w != "n"})
