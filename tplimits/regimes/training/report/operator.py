"""The operator regime in text and step by step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from tplimits.law.hypotheses import universality
from tplimits.law.kets import MASTER, Reference, Step
from tplimits.program.language.render import body_text, constants_text, number_text, right_hand_side
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, MatMul
from tplimits.regimes.training.report.outline import BACKWARD, FACTORED, NORM
from tplimits.regimes.training.report.ratios import of_image, text_factor
from tplimits.regimes.training.report.tangent_terms import Shown, by_optimizer
from tplimits.regimes.training.report.update_functions import (
    NOT_ZERO,
    SIDES,
    factored_text,
    is_factored,
    recursion,
)
from tplimits.report.rolled import rolled_sum, screen

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.operator import TangentOperator
    from tplimits.report.letters import Letters

#: what is left of initial weights that decay at rates of their own
_LEFT_OF_EACH = "(1 − λ[w])^t w_0"
#: uses of a parameter that are one line
_MANY = 4

HAT = Reference(f"{MASTER}, Eqs. (2.18), (2.19)", "yang2023tensor")
OPERATOR = Reference(f"{MASTER}, Thms 2.4.7, 2.9.23; all uses of a matrix inside one update", "yang2023tensor")
START = Reference(f"{MASTER}, Thm 2.9.19, with the hypothesis of fresh readout vectors", "yang2023tensor")
AT_ZERO = "the outputs start at 0: readouts start smaller than in NTP, and gradients are divided by their size"
DECAY = Reference(f"{MASTER}, Thm 2.10.3, corrected", "yang2023tensor")


def text(operator: TangentOperator, at_zero: bool = False, full: bool = False) -> str:
    """The operator term by term, the update function, the kets that it is made of; `at_zero`: outputs start at 0.

    What is longer than a screen has repeated layers once and short lines together, unless `full`.
    """
    shown = Shown(operator, sums_rolled=not full)
    own = shown.own
    lines = [
        f"training of {operator.whole.name} in the operator regime by {operator.optimizer or 'several optimizers'}"
    ]
    if shown.is_decaying:
        same = operator.decay is not None
        lines[0] += f", weight decay {operator.decay:g}" if same else ", weight decay by parameter"
        power, weights = ("(1 − λ)^(t−s) ", "(1 − λ)^t θ_0") if same else ("", _LEFT_OF_EACH)
        lines.append(
            own(f"  f_{{t+1}} = f^dec_{{t+1}} − η Σ_{{s≤t}} {power}𝒦_{{s,t+1}},   χ_s = ε_s(f_s),   ") + shown.decays
        )
        lines.append(own(f"  f^dec_t ~ N(0, K), the outputs at the weights {weights}, jointly over t"))
        lines.append(own("  𝒦_{s,t+1} at input a, with bras and kets outside Q at time t+1, inside at their own:"))
    else:
        start = "f_0 = 0" if at_zero else "f_0 ~ N(0, K)"
        lines.append(own(f"  f_{{t+1}} = f_t − η 𝒦(χ_0, …, χ_t),   χ_t = ε_t(f_t),   {start}"))
        lines.append(own("  𝒦 at input a:"))
    lines += [f"    {'+ ' if i else '  '}{line}" for i, line in enumerate(_terms(shown))]
    lines += [f"  {own(line)}" for line in _by_kernels(operator, bool(shown.whole_norms))]
    norms = list(shown.norms("t"))
    if norms:
        lines += [*(f"  {left} = {right}" for _, left, right in norms), f"  {own(SIDES)}"]
    for optimizer, names in by_optimizer(operator).items():
        whose = "" if operator.optimizer else f" of {', '.join(names)}"
        lines += [f"  {line}" for line in _update(optimizer, whose, shown.letters)]
    lines += [f"  taken on by the user, not established: {name}" for name in operator.assumed]
    lines.append(f"kets, given {shown.input}{own('; uses inside Q are summed over inputs b with weights χ^b')}")
    kets = [f"  {line}" for line in _kets(shown)]
    known = constants_text(shown.total, "\n".join([*lines, *kets]))
    return "\n".join(screen(lines, [*kets, *(f"  {line}" for line in known)], full))


def _by_kernels(operator: TangentOperator, clips: bool) -> Iterator[str]:
    """What the operator is where the update function is linear."""
    linear = "Q is linear in the gradients: "
    if operator.is_linear and operator.decay is None:
        yield f"{linear}the terms of a parameter w are Σ_s c_s χ_s Θ_w with its kernel Θ_w"
    elif operator.is_linear:
        yield f"{linear}𝒦 = Σ_s c_s χ_s Θ with the tangent kernel Θ of tp.Kernels()"
    elif operator.is_by_kernel and clips:
        yield f"{linear}it acts on χ_s/ν_s times tangent kernels Θ, and norms are √(χ·Θχ)"
    elif operator.is_by_kernel:
        yield f"{linear}𝒦 = Σ_w Θ_w q_t/ν_t[w], q_t = Σ_s c_s χ_s, with the kernel Θ_w of each "
        yield "parameter w, and (at equal widths) E[Q_t(G_w)²] = q_t·Θ_w q_t"


def _terms(shown: Shown) -> Iterator[str]:
    for parameter, terms in shown.terms.items():
        if shown.sums_rolled and len(terms) >= _MANY:
            yield _rolled_terms(shown, parameter)
            continue
        matrix = any(t.right is not None for t in terms)
        gradient, divided = shown.gradient(parameter), shown.divided(parameter)
        name, clipped = shown.put("whole gradient", parameter), shown.clipped(parameter)
        before, after = (" ", divided) if matrix else ("", "")
        for number, term in enumerate(terms):
            inside = gradient if len(terms) == 1 else name
            inside = f"({inside}){clipped}" if clipped and len(terms) == 1 else f"{inside}{clipped}"
            update = shown.put("update", shown.step, inside)
            ket = f" |{term.right}⟩" if matrix else f"{divided}⟩"
            where = f"   with {name} = {gradient}" if len(terms) > 1 and number == 0 else ""
            weight = shown.left_of_update(parameter) + text_factor(shown.weight(parameter))
            yield f"{weight}{shown.members(term)}⟨{term.left}|{before}{update}{after}{ket}{where}"
    for bias in shown.operator.biases:
        inside = f"{shown.put('gradient of a bias', bias)}{shown.clipped(bias)}"
        update = shown.put("update", shown.step, inside)
        yield f"{shown.left_of_update(bias)}{shown.put('slope', bias)} {update}{shown.divided(bias)}"


def _rolled_terms(shown: Shown, parameter: str) -> str:
    """The terms of a parameter that many layers use, on one line."""
    divided, uses = shown.divided(parameter), list[str]()
    whole = shown.put("whole gradient", parameter)
    update = shown.put("update", shown.step, f"{whole}{shown.clipped(parameter)}")
    for term in shown.terms[parameter]:
        inside = f" {update}{divided} |{term.right}⟩" if term.right is not None else f"{update}{divided}⟩"
        uses.append(f"{shown.members(term)}⟨{term.left}|{inside}")
    weight = shown.left_of_update(parameter) + text_factor(shown.weight(parameter))
    total = rolled_sum(uses)
    total = f"({total})" if weight and not total.startswith("Σ_{ℓ") else total
    return f"{weight}{total}   with {whole} = {shown.gradient(parameter)}"


def _update(optimizer: Optimizer, whose: str, letters: Letters) -> Iterator[str]:
    """The update function as a recursion."""
    update, steps = letters.text("Q_t") + whose, letters.text("g = G_t, t = 0, 1, …")
    known = {letters[x.name]: number_text(v) for x, v in optimizer.hyperparameters.items()}
    if is_factored(optimizer):
        yield from (f"{update}: {line}" for line in factored_text(letters))
        yield f"   ({steps}; {', '.join(f'{x} = {v}' for x, v in known.items())})"
        return
    states, output = recursion(optimizer, letters)
    lines = [f"{update} = {number_text(output)}", *(f"{name} ← {number_text(value)}" for name, value in states)]
    values = ", ".join(f"{x} = {v}" for x, v in known.items() if v != "0")
    yield ",   ".join(lines) + f"   (entry by entry, {steps}{'; ' if values else ''}{values})"


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
    inside = body_text(shown.total, s.operand)
    gaussian = f"Gaussian with covariance {text_factor(of_image(shown.total, s))}⟨{inside}|{inside}′⟩"
    if not shown.operator.has_dot_part(position):
        return f",   {gaussian}: no dot part"
    return f",   its hat part {gaussian}, and a dot part"


def _axes(axes: tuple[str, ...]) -> str:
    return f"[{', '.join(axes)}]" if axes else ""


def steps(operator: TangentOperator, at_zero: bool = False) -> tuple[Step, ...]:
    """The law of the start, the kets of both passes, the operator, the evolution of the outputs."""
    return tuple(_steps(Shown(operator), at_zero))


def _steps(shown: Shown, at_zero: bool) -> Iterator[Step]:
    operator = shown.operator
    readout = shown.total[operator.whole.returns[0]].name
    start = shown.own("f_0 is Gaussian with covariance ")
    law = f"{start}⟨{readout}|{readout}′⟩: the readout is a sum of products with fresh vectors"
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
    for name, left, right in shown.norms("t"):
        yield Step("norm of an update", (name,), partial("{} = {}".format, left, right), NORM)
    if shown.is_decaying:
        weights = "(1 − λ)^t θ_0" if operator.decay is not None else _LEFT_OF_EACH
        sentence = shown.own(
            f"with weight decay the initial weights are {weights} at step t: kets outside Q are those of step t+1, "
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
    if any(o.may_vanish for o in operator.optimizers.values()):
        found.append(NOT_ZERO)
    if operator.infinite:
        found.append(f"infinitely many independent members along {', '.join(operator.infinite)}")
    taken_on = (f"taken on by the user, not established: {name}" for name in operator.assumed)
    return (*found, *taken_on, *universality.stated(operator.whole))
