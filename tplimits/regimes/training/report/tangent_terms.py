"""The parts of the operator 𝒦 that reports write: gradients of every parameter, use by use, and what divides them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.program.language.render import body_text
from tplimits.program.network.gradient_rows import pinned
from tplimits.regimes.training.derivation.norms import Norm, WholeNorm, norm_of, whole_norms
from tplimits.regimes.training.report.notation import LATEX, TEXT, Alphabet, Notation, of_kets
from tplimits.regimes.training.report.ratios import of_parameter
from tplimits.report.latex_names import name as latex_name
from tplimits.report.letters import Letters, filled, with_scalars
from tplimits.report.rolled import rolled_sum

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.operator import TangentOperator


#: templates by what they stand for: in plain text and in LaTeX
_SIGNS = {
    "comma": (", ", ","),
    "signal": ("χ^b", r"\chi^b"),
    "signal at": ("χ^b[{}]", r"\chi^{{b,{}}}"),
    "sum": ("Σ_{{{}}} ", r"\sum_{{{}}}"),
    "delta": ("δ[{}={}] ", r"\delta_{{{}={}}}\,"),
    "ket": ("|{}⟩", r"|{}\rangle^b"),
    "bra": ("⟨{}|", r"\langle {}|^b"),
    "use": ("Σ_b {} {}", r"\sum_b{}{}"),
    "uses": ("Σ_b {} ({})", r"\sum_b{}\Big({}\Big)"),
    "uses apart": ("Σ_b ({})", r"\sum_b\Big({}\Big)"),
    "weighed": ("{} {}", "{}{}"),
    "clipped": ("/ν_{}", r"\big/\nu_{}"),
    "divided": ("/ν_{1}[{0}]", r"\big/\nu^{{{}}}_{}"),
    "left": ("(1 − λ)", r"(1-\lambda)"),
    "left of": ("(1 − λ[{}])", r"(1-\lambda_{{{}}})"),
    "left of an update": ("{}^(t−s) ", r"{}^{{t-s}}\,"),
    "decay": ("λ = {}", r"\lambda = {}"),
    "decay of": ("λ[{}] = {}", r"\lambda_{{{}}} = {}"),
    "decays": (", ", r",\ "),
    "divisor": ("ν_{1}[{0}]", r"\nu^{{{}}}_{}"),
    "whole divisor": ("ν_{}", r"\nu_{}"),
    "update": ("Q_{}({})", r"Q_{}\big({}\big)"),
    "gradient of a bias": ("∂f/∂{} Σ_b χ^b", r"\partial_{{{}}}f\sum_b\chi^b"),
    "whole gradient": ("G_{}", "G_{}"),
    "slope": ("∂f/∂{}", r"\partial_{{{}}}f"),
    "at": ("{}_{}", "{{{}}}_{}"),
    "weights": ("({} {})", "{} {}"),
}


def in_latex(program: Program, entry: Expr) -> str:
    """An entry, or an index, without the bars of a ket and without a time."""
    shown = LATEX.body(program, frozenset(range(len(program)))).doprint(entry)
    return shown.removeprefix("|").removesuffix(r"\rangle")


@dataclass(frozen=True)
class Writing:
    """One way to print the operator: its alphabet, names, and entries of vectors."""

    alphabet: Alphabet
    name: Callable[[str], str]
    entry: Callable[[Program, Expr], str]


#: plain text: ⟨dh| Q_t(Σ_b χ^b |dh⟩⟨x|) |x⟩
IN_TEXT = Writing(TEXT, str, body_text)
IN_LATEX = Writing(LATEX, latex_name, in_latex)


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
    """What the reports show of an operator, in one way to print; sums over layers once if they are `sums_rolled`."""

    def __init__(self, operator: TangentOperator, write: Writing = IN_TEXT, sums_rolled: bool = False) -> None:
        self.operator, self.write, self.sums_rolled = operator, write, sums_rolled
        self.total = of_kets(operator.backward.program)
        self.letters = Letters(with_scalars(operator.whole))
        self.notation = Notation(write.alphabet, self.letters)
        self.own = self.notation.own
        self.input = ", ".join(self.total[p].name for p in operator.whole.inputs)

    def put(self, sign: str, *parts: object) -> str:
        """A sign with its parts."""
        return filled(self.own, _SIGNS[sign][self.write.alphabet.column], parts)

    @cached_property
    def terms(self) -> dict[str, tuple[TangentTerm, ...]]:
        """The uses of every trained matrix and vector."""
        gradients = self.operator.backward.gradients
        return {name: tuple(self._term(name, use) for use in gradients[name]) for name in self.operator.trained}

    def _term(self, parameter: str, use: Use) -> TangentTerm:
        left, right = self.write.entry(self.total, use.gradient), None
        if use.operand is not None:
            right = self.write.entry(self.total, use.operand)
            left, right = (right, left) if use.transposed else (left, right)
        outputs = self.operator.backward.outputs
        place = pinned(use, self._axes(parameter), outputs)
        at, others = place.shown(outputs)
        fixed = tuple((a, self.write.entry(self.total, i)) for a, i in others)
        return TangentTerm(parameter, left, right, place.summed, at, fixed)

    def _axes(self, parameter: str) -> tuple[str, ...]:
        return self.total[self.total.initial_names[parameter]].axes

    def members(self, term: TangentTerm) -> str:
        """Σ over members of the parameter, every one with its own update, and over axes; δ where a use holds an axis.

        Members that are axes of the output are not summed over.
        """
        summed = tuple(a for a in self._axes(term.parameter) if (a, a) not in term.at)
        apart = (*((a, self.write.name(o)) for a, o in term.at if a != o), *term.fixed)
        return self._sum(summed) + self._sum(term.sums) + self._deltas(apart)

    def _sum(self, axes: tuple[str, ...]) -> str:
        return self.put("sum", self.put("comma").join(map(self.write.name, axes))) if axes else ""

    def _deltas(self, fixed: tuple[tuple[str, str], ...]) -> str:
        """1 where axes are as stated, 0 elsewhere."""
        return "".join(self.put("delta", self.write.name(axis), index) for axis, index in fixed)

    def weight(self, parameter: str) -> Expr:
        """The width of a parameter over that of the readout, which its part of the operator has as a factor."""
        return of_parameter(self.total, parameter, self.operator.whole.output_width)

    def _norm(self, parameter: str) -> Norm | None:
        """The norm that divides the updates of a parameter."""
        return norm_of(self.operator.whole, parameter, self.operator.optimizers[parameter])

    def divided(self, parameter: str) -> str:
        """What the update of a parameter is divided by."""
        return "" if self._norm(parameter) is None else self.put("divided", self.write.name(parameter), self.step)

    @cached_property
    def whole_norms(self) -> tuple[WholeNorm, ...]:
        """The norms of gradients that are clipped together."""
        return whole_norms(self.operator.whole, self.operator.optimizers)

    def norms(self, time: str) -> Iterator[tuple[str, str, str]]:
        """What updates are divided by, for each parameter: names, both sides of an equation."""
        operator, write, time = self.operator, self.write, self.own(time)
        for name in (*operator.trained, *operator.biases):
            norm = self._norm(name)
            if norm is not None:
                left, own = self.left(name), write.name(name)
                kept = f"{left}^{time}" if left else ""
                if norm.of == "update":
                    inside = self.put("update", time, self._whole_gradient(name))
                elif norm.is_of_start:
                    inside = kept
                elif name in operator.biases:
                    inside = self.put("at", own, time)
                else:  # those of the start times a power
                    inside = self.put("weights", kept, own) if kept else own
                yield name, self.put("divisor", own, time), self.notation.norm(inside, norm)
        for whole in self.whole_norms:
            gradients = {name: self._whole_gradient(name) for name in whole.parts}
            yield ", ".join(whole.parts), self.put("whole divisor", time), self.notation.whole_norm(gradients, whole)

    def clipped(self, parameter: str) -> str:
        """What a gradient is divided by before the update function sees it."""
        clips = self.operator.optimizers[parameter].clips_gradient is not None
        return self.put("clipped", self.step) if clips else ""

    def _whole_gradient(self, name: str) -> str:
        """The gradient of a parameter, of an output bias too."""
        is_bias = name in self.operator.biases
        return self.put("gradient of a bias", self.write.name(name)) if is_bias else self.gradient(name)

    def gradient(self, parameter: str) -> str:
        """The gradient of a matrix or a vector, the sum over inputs b and uses."""
        terms = self.terms[parameter]
        signals = [self._signal(t) for t in terms]
        inner = [
            self._sum(t.sums)
            + self._deltas(t.fixed)
            + self.put("ket", t.left)
            + ("" if t.right is None else self.put("bra", t.right))
            for t in terms
        ]
        if len(terms) == 1:
            return self.put("use", signals[0], inner[0])
        if len(set(signals)) == 1:
            total = rolled_sum(inner) if self.sums_rolled else " + ".join(inner)
            return self.put("uses" if " + " in total else "use", signals[0], total)
        return self.put("uses apart", " + ".join(map(partial(self.put, "weighed"), signals, inner)))

    def _signal(self, term: TangentTerm) -> str:
        """χ of input b: of all outputs, which are summed over, or of those that an entry belongs to."""
        name = self.write.name
        at = self.put("comma").join(name(a) if a == o else f"{name(o)}={name(a)}" for a, o in term.at)
        return self.put("signal at", at) if at else self.put("signal")

    @property
    def is_decaying(self) -> bool:
        """Whether any weights shrink."""
        return any(self.operator.weight_decay.values())

    @property
    def step(self) -> str:
        """The step of the updates inside the operator: with weight decay every one has kets of its own."""
        return self.own("s" if self.is_decaying else "t")

    def left(self, name: str) -> str:
        """What a step leaves of a parameter that decays, 1 − λ, by name where parameters have decays of their own."""
        if not self.operator.weight_decay[name]:
            return ""
        return self.put("left") if self.operator.decay is not None else self.put("left of", self.write.name(name))

    def left_of_update(self, name: str) -> str:
        """What is left of an update after t − s steps, in front of the terms of parameters with decays of their own."""
        left = self.left(name) if self.operator.decay is None else ""
        return self.put("left of an update", left) if left else ""

    @property
    def decays(self) -> str:
        """All decays."""
        if self.operator.decay is not None:
            return self.put("decay", f"{self.operator.decay:g}")
        each = (self.put("decay of", self.write.name(name), f"{λ:g}") for name, λ in self.operator.weight_decay.items())
        return self.put("decays").join(each)


def by_optimizer(operator: TangentOperator) -> dict[Optimizer, tuple[str, ...]]:
    """The optimizers, and the parameters that each of them moves."""
    found: dict[Optimizer, tuple[str, ...]] = {}
    for name, optimizer in operator.optimizers.items():
        found[optimizer] = (*found.get(optimizer, ()), name)
    return found
