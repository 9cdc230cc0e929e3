"""The parts of the operator 𝒦 that reports write: gradients of every parameter, use by use, and what divides them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.program.language.render import body_text
from tplimits.program.network.gradient_rows import pinned
from tplimits.regimes.training.derivation.norms import Norm, WholeNorm, norm_of, whole_norms
from tplimits.regimes.training.report.notation import of_kets
from tplimits.regimes.training.report.ratios import of_parameter
from tplimits.report.rolled import rolled_sum

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.operator import TangentOperator


@dataclass(frozen=True)
class TangentTerm:
    """One use of a parameter: `left` and `right` of its gradient in the names of the program.

    Axes of the parameter are held at axes of the output (`at`) or elsewhere (`fixed`): a Kronecker δ.
    """

    parameter: str
    left: str
    right: str | None
    sums: tuple[str, ...]
    at: tuple[tuple[str, str], ...]
    fixed: tuple[tuple[str, str], ...]


class Shown:
    """What the reports show of an operator; sums over layers once if they are `sums_rolled`."""

    def __init__(self, operator: TangentOperator, sums_rolled: bool = False) -> None:
        self.operator, self.sums_rolled = operator, sums_rolled
        self.total = of_kets(operator.backward.program)
        self.input = ", ".join(self.total[p].name for p in operator.whole.inputs)

    @cached_property
    def terms(self) -> dict[str, tuple[TangentTerm, ...]]:
        """The uses of every trained matrix and vector."""
        gradients = self.operator.backward.gradients
        return {name: tuple(self._term(name, use) for use in gradients[name]) for name in self.operator.trained}

    def _term(self, parameter: str, use: Use) -> TangentTerm:
        left, right = body_text(self.total, use.gradient), None
        if use.operand is not None:
            right = body_text(self.total, use.operand)
            left, right = (right, left) if use.transposed else (left, right)
        outputs = self.operator.backward.outputs
        place = pinned(use, self._axes(parameter), outputs)
        at, others = place.shown(outputs)
        fixed = tuple((a, body_text(self.total, i)) for a, i in others)
        return TangentTerm(parameter, left, right, place.summed, at, fixed)

    def _axes(self, parameter: str) -> tuple[str, ...]:
        return self.total[self.total.initial_names[parameter]].axes

    def summed(self, term: TangentTerm) -> tuple[str, ...]:
        """The axes of the parameter, every member with its own update, but for those that are axes of the output."""
        return tuple(a for a in self._axes(term.parameter) if (a, a) not in term.at)

    def apart(self, term: TangentTerm) -> tuple[tuple[str, str], ...]:
        """Axes of the parameter that a use holds in one place, under another name."""
        return (*((a, o) for a, o in term.at if a != o), *term.fixed)

    def weight(self, parameter: str) -> Expr:
        """The width of a parameter over that of the readout, which its part of the operator has as a factor."""
        return of_parameter(self.total, parameter, self.total[self.operator.whole.returns[0]].width or "n")

    def norm(self, parameter: str) -> Norm | None:
        """The norm that divides the updates of a parameter."""
        return norm_of(self.operator.whole, parameter, self.operator.optimizers[parameter])

    @cached_property
    def whole_norms(self) -> tuple[WholeNorm, ...]:
        """The norms of gradients that are clipped together."""
        return whole_norms(self.operator.whole, self.operator.optimizers)

    def clipped(self, parameter: str) -> str:
        """What a gradient is divided by before the update function sees it."""
        return f"/ν_{self.step}" if self.operator.optimizers[parameter].clips_gradient is not None else ""

    def gradient(self, parameter: str) -> str:
        """The gradient of a matrix or a vector, the sum over inputs b and uses."""
        terms = self.terms[parameter]
        signals = [signal(t) for t in terms]
        inner = [
            sum_over(t.sums) + deltas(t.fixed) + (f"|{t.left}⟩" if t.right is None else f"|{t.left}⟩⟨{t.right}|")
            for t in terms
        ]
        if len(terms) == 1:
            return f"Σ_b {signals[0]} {inner[0]}"
        if len(set(signals)) == 1:
            total = rolled_sum(inner) if self.sums_rolled else " + ".join(inner)
            return f"Σ_b {signals[0]} {f'({total})' if ' + ' in total else total}"
        return f"Σ_b ({' + '.join(f'{χ} {one}' for χ, one in zip(signals, inner, strict=True))})"

    @property
    def is_decaying(self) -> bool:
        """Whether any weights shrink."""
        return any(self.operator.weight_decay.values())

    @property
    def step(self) -> str:
        """The step of the updates inside the operator: with weight decay every one has kets of its own."""
        return "s" if self.is_decaying else "t"

    def left(self, name: str) -> str:
        """What a step leaves of a parameter that decays, 1 − λ, by name where parameters have decays of their own."""
        if not self.operator.weight_decay[name]:
            return ""
        return "1 − λ" if self.operator.decay is not None else f"1 − λ[{name}]"

    @property
    def decays(self) -> str:
        """All decays."""
        if self.operator.decay is not None:
            return f"λ = {self.operator.decay:g}"
        return ", ".join(f"λ[{name}] = {λ:g}" for name, λ in self.operator.weight_decay.items())


def sum_over(axes: tuple[str, ...]) -> str:
    """Σ over axes, if there are any."""
    return f"Σ_{{{', '.join(axes)}}} " if axes else ""


def deltas(fixed: tuple[tuple[str, str], ...]) -> str:
    """1 where axes are as stated, 0 elsewhere."""
    return "".join(f"δ[{axis}={index}] " for axis, index in fixed)


def signal(term: TangentTerm) -> str:
    """χ of input b: of all outputs, which are summed over, or of those that an entry belongs to."""
    at = ", ".join(a if a == o else f"{o}={a}" for a, o in term.at)
    return f"χ^b[{at}]" if at else "χ^b"


def by_optimizer(operator: TangentOperator) -> dict[Optimizer, tuple[str, ...]]:
    """The optimizers, and the parameters that each of them moves."""
    found: dict[Optimizer, tuple[str, ...]] = {}
    for name, optimizer in operator.optimizers.items():
        found[optimizer] = (*found.get(optimizer, ()), name)
    return found
