"""The operator regime in text and step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from sympy import Expr, Symbol

from tplimits.limit.kets import MASTER, Reference, Step
from tplimits.limit.training.norms import Norm, norm_of
from tplimits.limit.training.tangent import TangentOperator
from tplimits.program.backward import Use
from tplimits.program.nodes import InitialMatrix, InitialVector, MatMul
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.render import body_text, number_text, right_hand_side
from tplimits.report.training.outline import BACKWARD, FACTORED, NORM
from tplimits.report.training.ratios import of_image, of_parameter, text_factor
from tplimits.report.training.update_functions import (
    NOT_ZERO,
    SIDES,
    entry_by_entry,
    factored_text,
    is_factored,
    norm_text,
)

HAT = Reference(f"{MASTER}, Eqs. (2.18), (2.19)", "yang2023tensor")
OPERATOR = Reference(f"{MASTER}, Thms 2.4.7, 2.9.23; all uses of a matrix inside one update", "yang2023tensor")
START = Reference(f"{MASTER}, Thm 2.9.19, with the hypothesis of fresh readout vectors", "yang2023tensor")
AT_ZERO = "the outputs start at 0: readouts start smaller than in NTP, and gradients are divided by their size"
DECAY = Reference(f"{MASTER}, Thm 2.10.3, corrected", "yang2023tensor")


@dataclass(frozen=True)
class Term:
    """One use of a parameter: `left` and `right` of its gradient in the names of the program."""

    parameter: str
    left: str
    right: str | None
    sums: tuple[str, ...]


class Shown:
    """What the reports show of an operator."""

    def __init__(self, operator: TangentOperator) -> None:
        self.operator = operator
        self.total = operator.backward.program
        self.input = ", ".join(self.total[p].name for p in operator.whole.inputs)

    @cached_property
    def terms(self) -> dict[str, tuple[Term, ...]]:
        """The uses of every trained matrix and vector."""
        gradients = self.operator.backward.gradients
        return {name: tuple(self._term(name, use) for use in gradients[name]) for name in self.operator.trained}

    def _term(self, parameter: str, use: Use) -> Term:
        left, right = body_text(self.total, use.gradient), None
        if use.operand is not None:
            right = body_text(self.total, use.operand)
            left, right = (right, left) if use.transposed else (left, right)
        kept = set(self.operator.backward.outputs)
        family = {i.name for i in use.indices if isinstance(i, Symbol)}
        return Term(parameter, left, right, tuple(a for a in use.axes if a not in kept and a not in family))

    def summed(self, parameter: str) -> tuple[str, ...]:
        """The axes of a parameter: every member has its own update."""
        s = self.total[self.total.initial_names[parameter]]
        return s.axes

    def weight(self, parameter: str) -> Expr:
        """The width of a parameter over that of the readout, which its part of the operator has as a factor."""
        return of_parameter(self.total, parameter, self.total[self.operator.whole.returns[0]].width or "n")

    def norm(self, parameter: str) -> Norm | None:
        """The norm that divides the updates of a parameter."""
        return norm_of(self.operator.whole, parameter, self.operator.optimizers[parameter])

    def gradient(self, parameter: str) -> str:
        """The gradient of a matrix or a vector, the sum over inputs b and uses."""
        terms = self.terms[parameter]
        inner = " + ".join(
            _sum(t.sums) + (f"|{t.left}⟩" if t.right is None else f"|{t.left}⟩⟨{t.right}|") for t in terms
        )
        return f"Σ_b χ^b {inner}" if len(terms) == 1 else f"Σ_b χ^b ({inner})"

    @property
    def step(self) -> str:
        """The step of the updates inside the operator: with weight decay every one has kets of its own."""
        return "s" if self.operator.weight_decay else "t"

    @property
    def rest(self) -> str:
        """What stands before the operator: f_t, or the decayed outputs."""
        return "f_t" if not self.operator.weight_decay else "f^dec_{t+1}"


def text(operator: TangentOperator, at_zero: bool = False) -> str:
    """The operator term by term, the update function, the kets that it is made of; `at_zero`: outputs start at 0."""
    shown, λ = Shown(operator), operator.weight_decay
    lines = [
        f"training of {operator.whole.name} in the operator regime by {operator.optimizer or 'several optimizers'}"
    ]
    if λ:
        lines[0] += f", weight decay {λ:g}"
        lines.append("  f_{t+1} = f^dec_{t+1} − η Σ_{s≤t} (1 − λ)^(t−s) 𝒦_{s,t+1},   χ_s = ε_s(f_s),   λ = " + f"{λ:g}")
        lines.append("  f^dec_t ~ N(0, K), the outputs at the weights (1 − λ)^t θ_0, jointly over t")
        lines.append("  𝒦_{s,t+1} at input a, with bras and kets outside Q at time t+1, inside at their own:")
    else:
        start = "f_0 = 0" if at_zero else "f_0 ~ N(0, K)"
        lines.append(f"  f_{{t+1}} = f_t − η 𝒦(χ_0, …, χ_t),   χ_t = ε_t(f_t),   {start}")
        lines.append("  𝒦 at input a:")
    lines += [f"    {'+ ' if i else '  '}{line}" for i, line in enumerate(_terms(shown))]
    if operator.is_linear:
        lines.append("  Q is linear in the gradients: 𝒦 = Σ_s c_s χ_s Θ with the tangent kernel Θ of tp.Kernels()")
    elif operator.is_by_kernel:
        lines.append(
            "  Q is linear in the gradients: 𝒦 = Σ_w Θ_w q_t/ν_t[w], q_t = Σ_s c_s χ_s, with the kernel Θ_w of each "
        )
        lines.append("  parameter w, and (at equal widths) E[Q_t(G_w)²] = q_t·Θ_w q_t")
    norms = list(_norms(shown))
    if norms:
        lines += [*(f"  {line}" for _, line in norms), f"  {SIDES}"]
    for optimizer, names in by_optimizer(operator).items():
        whose = "" if operator.optimizer else f" of {', '.join(names)}"
        lines += [f"  {line}" for line in _update(optimizer, whose)]
    lines.append(f"kets, given {shown.input}; uses inside Q are summed over inputs b with weights χ^b")
    lines += [f"  {line}" for line in _kets(shown)]
    return "\n".join(lines)


def _terms(shown: Shown) -> Iterator[str]:
    for parameter, terms in shown.terms.items():
        matrix = any(t.right is not None for t in terms)
        gradient, divided = shown.gradient(parameter), _divided(shown, parameter)
        name = f"G_{parameter}"
        family = _sum(shown.summed(parameter))
        before, after = (" ", divided) if matrix else ("", "")
        for number, term in enumerate(terms):
            update = f"Q_{shown.step}({gradient if len(terms) == 1 else name})"
            ket = f" |{term.right}⟩" if matrix else f"{divided}⟩"
            where = f"   with {name} = {gradient}" if len(terms) > 1 and number == 0 else ""
            weight = text_factor(shown.weight(parameter))
            yield f"{weight}{family}{_sum(term.sums)}⟨{term.left}|{before}{update}{after}{ket}{where}"
    for bias in shown.operator.biases:
        yield f"∂f/∂{bias} Q_{shown.step}(∂f/∂{bias} Σ_b χ^b){_divided(shown, bias)}"


def _divided(shown: Shown, parameter: str) -> str:
    return "" if shown.norm(parameter) is None else f"/ν_{shown.step}[{parameter}]"


def _norms(shown: Shown) -> Iterator[tuple[str, str]]:
    """What updates are divided by, for each parameter."""
    operator, kept = shown.operator, "(1 − λ)^t" if shown.operator.weight_decay else ""
    for name in (*operator.trained, *operator.biases):
        norm = shown.norm(name)
        if norm is not None:
            yield name, f"ν_t[{name}] = {norm_text(_inside(shown, name, norm, kept), norm)}"


def _inside(shown: Shown, name: str, norm: Norm, kept: str) -> str:
    """What a norm is taken of: the update, or the weights, which are those of the start times a power."""
    if norm.of == "update":
        gradient = f"∂f/∂{name} Σ_b χ^b" if name in shown.operator.biases else shown.gradient(name)
        return f"Q_t({gradient})"
    if norm.is_of_start:
        return kept
    return f"{name}_t" if name in shown.operator.biases else (f"({kept} {name})" if kept else name)


def _sum(axes: tuple[str, ...]) -> str:
    return f"Σ_{{{', '.join(axes)}}} " if axes else ""


def by_optimizer(operator: TangentOperator) -> dict[Optimizer, tuple[str, ...]]:
    """The optimizers, and the parameters that each of them moves."""
    found: dict[Optimizer, tuple[str, ...]] = {}
    for name, optimizer in operator.optimizers.items():
        found[optimizer] = (*found.get(optimizer, ()), name)
    return found


def _update(optimizer: Optimizer, whose: str) -> Iterator[str]:
    """The update function as a recursion."""
    if is_factored(optimizer):
        values = ", ".join(f"{x} = {_plain(v)}" for x, v in optimizer.hyperparameters.items())
        yield from (f"Q_t{whose}: {line}" for line in factored_text())
        yield f"   (g = G_t, t = 0, 1, …; {values})"
        return
    optimizer = entry_by_entry(optimizer)
    states, output = optimizer.formula
    lines = [f"Q_t{whose} = {_plain(output)}", *(f"{s.name} ← {_plain(s.update)}" for s in states)]
    values = ", ".join(f"{x} = {_plain(v)}" for x, v in optimizer.hyperparameters.items() if v != 0)
    yield ",   ".join(lines) + f"   (entry by entry, g = G_t, t = 0, 1, …{'; ' if values else ''}{values})"


def _plain(expr: Expr) -> str:
    return number_text(expr)


def _kets(shown: Shown) -> Iterator[str]:
    for position, s in enumerate(shown.total):
        if isinstance(s, InitialMatrix) or position in shown.total.inputs:
            continue
        if isinstance(s, InitialVector) or s.width is None:
            yield f"{s.name}{_axes(s.axes)} = {right_hand_side(shown.total, s)[0]}"
            continue
        yield f"|{s.name}{_axes(s.axes)}⟩ = {right_hand_side(shown.total, s)[0]}" + _law(shown, position)


def _law(shown: Shown, position: int) -> str:
    """What is known of an image: Gaussian, or with a dot part."""
    s = shown.total[position]
    if not isinstance(s, MatMul):
        return ""
    assert s.operand is not None
    inside = body_text(shown.total, s.operand)
    gaussian = f"Gaussian with covariance {text_factor(of_image(shown.total, s))}⟨{inside}|{inside}′⟩"
    if not shown.operator.has_dot_part(position):
        return f",   {gaussian}: no dot part"
    return f",   its hat part {gaussian}, and a dot part"


def _axes(axes: tuple[str, ...]) -> str:
    return f"[{', '.join(axes)}]" if axes else ""


# -- steps ------------------------------------------------------------------------------------


def steps(operator: TangentOperator, at_zero: bool = False) -> tuple[Step, ...]:
    """The law of the start, the kets of both passes, the operator, the evolution of the outputs."""
    return tuple(_steps(Shown(operator), at_zero))


def _steps(shown: Shown, at_zero: bool) -> Iterator[Step]:
    operator = shown.operator
    readout = shown.total[operator.whole.returns[0]].name
    law = f"f_0 is Gaussian with covariance ⟨{readout}|{readout}′⟩: the readout is a sum of products with fresh vectors"
    law = AT_ZERO if at_zero else law
    yield Step("outputs at the start", (readout,), lambda: law, START)
    for position, s in enumerate(shown.total):
        if isinstance(s, MatMul):
            line = partial(_image, shown, position)
            reference = HAT if position < len(operator.whole) else BACKWARD
            yield Step("image under a matrix", (shown.total[s.matrix].name,), line, reference)
    for parameter in shown.terms:
        reference = FACTORED if is_factored(operator.optimizers[parameter]) else OPERATOR
        yield Step("gradient and update", (parameter,), partial(_of_parameter, shown, parameter), reference)
    for name, shown_norm in _norms(shown):
        yield Step("norm of an update", (name,), partial(str, shown_norm), NORM)
    if operator.weight_decay:
        sentence = (
            "with weight decay the initial weights are (1 − λ)^t θ_0 at step t: kets outside Q are those of step t+1, "
            "and f^dec, the outputs of that network, is a Gaussian process in time and input"
        )
        yield Step("weight decay", (), lambda: sentence, DECAY)
    yield Step(
        "outputs in training", tuple(shown.terms), lambda: text(operator, at_zero).split("\n")[1].strip(), OPERATOR
    )


def _image(shown: Shown, position: int) -> str:
    s = shown.total[position]
    return f"|{s.name}⟩ = {right_hand_side(shown.total, s)[0]}{_law(shown, position)}"


def _of_parameter(shown: Shown, parameter: str) -> str:
    one = Shown(shown.operator)
    one.__dict__["terms"] = {parameter: shown.terms[parameter]}
    return " + ".join(line for line in _terms(one) if not line.startswith("∂f"))


def assumptions(operator: TangentOperator, at_zero: bool = False) -> tuple[str, ...]:
    """What the limit rests on."""
    start = (
        "the readout is a sum of products with fresh vectors, so that f_0 is Gaussian with covariance ⟨x|x′⟩",
        "everything later is conditional on f_0",
    )
    found = [
        "widths go to infinity first, at a fixed number of steps, inputs and outputs",
        "parametrization NTP: matrices W = w/√columns, output n^(−1/2) Σ, gradients and updates scaled as there",
        "update functions are pseudo-Lipschitz" + (f"; {'; '.join(operator.lost)}" if operator.lost else ""),
        "scalar parameters are output biases"
        + (f"; {', '.join(operator.held)} stands inside the network and is held at its value" if operator.held else ""),
        *((AT_ZERO,) if at_zero else start),
    ]
    if any(o.divides_by for o in operator.optimizers.values()):
        found.append(NOT_ZERO)
    if operator.infinite:
        found.append(f"infinitely many independent members along {', '.join(operator.infinite)}")
    return tuple(found)
