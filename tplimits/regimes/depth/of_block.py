"""What the limits of a block have in common: its tokens, numbers for its coefficients, layers to check it by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import sympy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import Entry, constant_symbol, size_symbol, width_symbol
from tplimits.program.nodes.given import by_name, finite_number, width_ratios
from tplimits.program.nodes.kinds import Nonlin
from tplimits.regimes.depth.algebra.coefficients import ratio_symbol
from tplimits.regimes.depth.algebra.writing import M
from tplimits.regimes.depth.claims import layer_verdict
from tplimits.regimes.protocol import CheckAsked, Undoubted
from tplimits.report.written import DEPTH, Told

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.sampling.verdict import Verdict


#: a number under a root is rounding below this part of its terms
_ROUNDING = 1e-12


class OfBlock(Undoubted, Told):
    """A limit of a block in which t = layer/n; widths in `fixed` stay as they are."""

    fixed: tuple[str, ...]
    _format: ClassVar[str] = DEPTH
    _note: ClassVar[str] = "Depth and width to infinity together: V is the covariance of the tokens, and t = layer/n."

    @property
    def tokens(self) -> Any:
        """The number of tokens: m, or the number the block was bound to."""
        size = self.program.size(self.program[self.program.state or 0].axes[0])
        return M if size is None else size

    @property
    def _title(self) -> str:
        return f"{self.program.name} as deep as wide"

    def _asked(self) -> Mapping[str, Any]:
        return {"fixed": list(self.fixed)}

    def judged(self, asked: CheckAsked) -> Verdict:
        """One layer, the law of simulated paths, or the user's claims, against layers of finite width."""
        return layer_verdict(self, asked)

    def values(
        self, m: int, constants: Mapping[str, Any] | None = None, ratios: Mapping[str, float] | None = None
    ) -> dict[Symbol, float]:
        """Numbers for the symbols of the terms: constants by name, open sizes by axis, `ratios` of widths to n.

        Raises EvaluationError for a name the program does not have, or another number of tokens than its own.
        """
        if self.tokens.is_Integer and self.tokens != m:
            raise EvaluationError(f"V is for {m} tokens; `{self.program.name}` is for {self.tokens}.")
        return block_numbers(self.program, self.fixed, m, constants, ratios)


def block_numbers(
    program: Program, fixed: tuple[str, ...], m: int, constants: Any = None, ratios: Any = None
) -> dict[Symbol, float]:
    """Numbers for the symbols of the coefficients at m tokens.

    Raises EvaluationError for a name the program does not have, for what is no number, for a size or ratio that is not
    positive, and for constants at which a root of the block is not real.
    """
    found: dict[Symbol, float] = {M: float(m)}
    given = {**{c: v for c, v in program.constants.items() if v is not None}}
    for name, value in {**given, **by_name(constants, "constants", EvaluationError)}.items():
        number = finite_number(name, value, EvaluationError)
        if name in program.constants:
            found[constant_symbol(name)] = number
        elif name in program.all_axes or name in fixed:
            if number < 1 or number != int(number):
                raise EvaluationError(f"{name}={value!r}: a size is a whole number from 1.")
            axis = name in program.all_axes
            tokens = program[program.state or 0].axes[0]
            if axis and program.root_axis(name) == program.root_axis(tokens) and number != m:
                raise EvaluationError(f"{name}={value!r}: V is for {m} tokens.")
            found[size_symbol(program.root_axis(name)) if axis else width_symbol(name)] = number
        else:
            known = ", ".join([*program.constants, *fixed]) or "none"
            raise EvaluationError(f"`{name}` is not a constant of `{program.name}`; it has {known}.")
    relative = width_ratios(program, ratios, EvaluationError, fixed)
    found.update({ratio_symbol(w): float(ratio) for w, ratio in relative.items()})
    _refuse_imaginary_roots(program, found)
    return found


def _refuse_imaginary_roots(program: Program, found: Mapping[Symbol, float]) -> None:
    """√(1 − γ²) at γ = 1.5 is no coefficient of a real network, even where only its square enters the limit."""
    refuse_unreal(program, {str(power): power.base for power in _roots_of_constants(program)}, found)


def refuse_unreal(program: Program, domains: Mapping[str, Expr], found: Mapping[Symbol, float]) -> None:
    """EvaluationError where a number that may not be negative is so; they go by the root or logarithm of them."""
    for shown, number in domains.items():
        value = number.xreplace({s: sympy.Float(v, 17) for s, v in found.items()})
        terms = (a.xreplace({s: sympy.Float(v, 17) for s, v in found.items()}) for a in sympy.Add.make_args(number))
        if value.is_number and value.is_real and value < -_ROUNDING * max(map(abs, terms)):
            raise EvaluationError(f"`{shown}` of `{program.name}` is not real: {number} = {float(value):.6g} < 0.")


def _roots_of_constants(program: Program) -> Iterator[sympy.Pow]:
    parts = program.parts or (program,)
    for part in parts:
        for instruction in part.instructions:
            if isinstance(instruction, Nonlin):
                for power in instruction.body.atoms(sympy.Pow):
                    if power.exp.is_Rational and not power.exp.is_Integer and not power.base.has(Entry):
                        yield power
