"""The recursion of training in the feature-learning limit, equation by equation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, Integer

from tplimits.law.kets import MASTER, Reference
from tplimits.program.network.gradient_rows import pinned
from tplimits.program.nodes.entries import Entry, axis_symbol
from tplimits.program.nodes.kinds import Avg, Initial, InitialMatrix, InitialVector, Instruction, MatMul, Nonlin
from tplimits.regimes.training.derivation.norms import norm_of, whole_norms
from tplimits.regimes.training.report.notation import of_kets
from tplimits.regimes.training.report.ratios import of_image
from tplimits.report.rolled import rolled_sum

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.regimes.training.derivation.feature_learning import MaximalRecursion
    from tplimits.regimes.training.report.notation import Notation

FORWARD = Reference(f"{MASTER}, Thm 2.9.25, Eqs. (2.42)–(2.43)", "yang2023tensor")
BACKWARD = Reference(f"{MASTER}, Def. 2.9.14", "yang2023tensor")
UPDATE = Reference(f"{MASTER}, Thm 2.9.25, Eqs. (2.44)–(2.49), transposed uses added", "yang2023tensor")
DECAY = Reference(f"{MASTER}, Eqs. (2.51)–(2.53)", "yang2023tensor")
NORM = Reference(f"{MASTER}, Eqs. (2.54)–(2.58), Defs 2.10.4–2.10.9, norms of Q", "yang2023tensor")
FACTORED = Reference(f"{MASTER}, Sec. 2.10.3", "yang2023tensor")
UNROLLED = Reference(f"{MASTER}, Thm 2.7.1", "yang2023tensor")


@dataclass(frozen=True)
class Equation:
    """One line, `left = right`; sections are "forward", "backward", "update", "divisor" and "unrolled"."""

    section: str
    left: str
    right: str
    premises: tuple[str, ...]
    reference: Reference


class Outline:
    """All equations of a recursion in one notation; sums over layers once if they are `sums_rolled`."""

    def __init__(self, recursion: MaximalRecursion, notation: Notation, sums_rolled: bool = False) -> None:
        self.recursion, self.write = recursion, notation
        self._sum = rolled_sum if sums_rolled else " + ".join
        self.program = of_kets(recursion.total.backward.program)
        self.size = len(recursion.network)
        self.data = frozenset(recursion.network.inputs)

    def equations(self) -> Iterator[Equation]:
        """Forward, backward, update, norms that divide it, and images with W_0 unrolled."""
        for position in range(self.size):
            yield from self._instruction(position, "forward", FORWARD)
        yield from self._output()
        for position in range(self.size, len(self.program)):
            yield from self._instruction(position, "backward", BACKWARD)
        for name in self.recursion.optimizers:
            yield self._update(name)
        for name in self.recursion.optimizers:
            yield from self._divisor(name)
        for norm in whole_norms(self.recursion.network, self.recursion.optimizers):
            gradients = {name: self.gradient(name, "t") for name in norm.parts}
            right = self.write.whole_norm(gradients, norm)
            yield Equation("divisor", self.write.whole_divisor("t"), right, tuple(norm.parts), NORM)
        for s in self.program:
            if isinstance(s, MatMul):
                yield self._unrolled(s)

    def _instruction(self, position: int, section: str, reference: Reference) -> Iterator[Equation]:
        s, write = self.program[position], self.write
        if isinstance(s, Initial):
            return
        label = write.timed(s.name, "t")
        left = write.ket(label) if s.width is not None else label
        if isinstance(s, MatMul):
            right = write.ket(self._image(s, "t"))
        elif isinstance(s, Avg):
            right = write.mean(self._label(s.operand, "t"))
        else:
            assert isinstance(s, Nonlin)
            right = write.body(self.program, s.body, self.data)
        yield Equation(section, left, right, tuple(self.program[p].name for p in s.operands), reference)

    def _label(self, entry: Entry, t: str) -> str:
        """A vector at a time, with the entries that are selected."""
        s = self.program[entry.source]
        label = s.name
        chosen = [(a, i) for a, i in zip(s.axes, entry.indices, strict=True) if i != axis_symbol(a)]
        if chosen:
            label += "[" + ",".join(f"{a}={i}" for a, i in chosen if isinstance(i, Integer)) + "]"
        return self.write.timed(label.replace("[]", ""), t)

    def _image(self, s: MatMul, t: str) -> str:
        at = ",".join(f"{a}={i}" for a, i in self._member(s).items())
        matrix = self.write.timed(self.program[s.matrix].name + (f"[{at}]" if at else ""), t)
        return f"{matrix}{self.write.transpose if s.transposed else ''} {self._label(s.operand, 't')}"

    def _member(self, s: MatMul) -> dict[str, Expr]:
        """Which one of a family of matrices a product is with, as far as that is a number."""
        chosen = zip(self.program[s.matrix].axes, s.matrix_indices, strict=True)
        return {a: i for a, i in chosen if isinstance(i, Integer)}

    def _output(self) -> Iterator[Equation]:
        write, network = self.write, self.recursion.network
        readout = self.program[network.returns[0]].name
        right = write.mean(write.timed(readout, "t"))
        if len(network.returns) > 1:
            right += f" + {write.timed(self.program[network.returns[1]].name, 't')}"
        f, χ, ε = (write.letter(letter, "t") for letter in "fχε")
        yield Equation("forward", f, right, (readout,), FORWARD)
        yield Equation("forward", χ, f"{ε}({f})", ("f",), FORWARD)

    def larger_transposes(self) -> dict[str, Expr]:
        """Matrices between two widths whose transposes are applied, and rows/columns."""
        images = [s for s in self.program if isinstance(s, MatMul)]
        found = {self.program[s.matrix].name: of_image(self.program, s) for s in images if s.transposed}
        return {name: ratio for name, ratio in found.items() if ratio != 1}

    def _kept(self, λ: Expr, old: str) -> str:
        """What decay leaves of the old value."""
        return old if λ == 0 else f"{self.write.number(1 - λ)} {old}"

    def _update(self, name: str) -> Equation:
        s, λ, write = self._parameter(name), self.recursion.weight_decay[name], self.write
        old, new = write.timed(name, "t"), write.timed(name, "t+1")
        if isinstance(s, InitialMatrix):
            old, new = f"|{old}|", f"|{new}|"
        elif isinstance(s, InitialVector):
            old, new = write.ket(old), write.ket(new)
        bar = self._bar(name, "t")
        reference = self._reference(name)
        return Equation("update", new, f"{self._kept(λ, old)} − {write.rate} {bar}", (name,), reference)

    def _bar(self, name: str, t: str, transpose: str = "", member: Mapping[str, Expr] | None = None) -> str:
        """The update of a parameter, or of one member, at a time, divided by its norm if it is."""
        optimizer, gradient = self.recursion.optimizers[name], self.gradient(name, t, member)
        if optimizer.clips_gradient is not None:
            gradient = self.write.clipped(gradient, t)
        bar = self.write.bar(gradient, t) + transpose
        divides = optimizer.divides_by is not None
        return self.write.divided(bar, name, t) if divides else bar

    def _reference(self, name: str) -> Reference:
        optimizer = self.recursion.optimizers[name]
        if optimizer.divides_by is not None or optimizer.clips_gradient is not None:
            return NORM
        if not optimizer.is_entrywise:
            return FACTORED
        return UPDATE if self.recursion.weight_decay[name] == 0 else DECAY

    def _divisor(self, name: str) -> Iterator[Equation]:
        """ν_t of a parameter."""
        norm = norm_of(self.recursion.network, name, self.recursion.optimizers[name])
        if norm is None:
            return
        write, λ = self.write, self.recursion.weight_decay[name]
        if norm.of == "update":
            inside = write.bar(self.gradient(name, "t"), "t")
        elif norm.is_of_start:
            inside = "" if λ == 0 else write.power(write.number(1 - λ), "t")
        else:
            inside = write.timed(name, "t")
            inside = write.ket(inside) if isinstance(self._parameter(name), InitialVector) else inside
        yield Equation("divisor", write.divisor(name, "t"), write.norm(inside, norm), (name,), NORM)

    def _parameter(self, name: str) -> Instruction:
        return self.program[self.program.initial_names[name]]

    def gradient(self, name: str, t: str, member: Mapping[str, Expr] | None = None) -> str:
        """The gradient of a parameter at a time, contracted with the error signals; the sum over all its uses.

        `member` chooses one of a family, by axis.
        """
        uses = self.recursion.total.backward.uses(name)
        terms = (self._term(name, use, outputs, t, member or {}) for use, outputs in uses)
        return self._sum(list(filter(None, terms))) or "0"

    def _term(self, name: str, use: Use, outputs: Mapping[str, str], t: str, member: Mapping[str, Expr]) -> str:
        """One use: the entries that it moves, χ of the outputs that they belong to, and its gradient."""
        write, s = self.write, self._parameter(name)
        to_output, others = pinned(use, s.axes, outputs).shown(outputs)
        if any(isinstance(i, Integer) and member.get(a, i) != i for a, i in others):
            return ""
        δ = "".join(write.kronecker(a, write.body(self.program, i, self.data)) for a, i in others if member.get(a) != i)
        at = write.indices([(o, a) for a, o in to_output])
        gradient = self._label(use.gradient, t)
        if use.operand is None:
            shown = write.ket(gradient) if isinstance(s, InitialVector) else gradient
            return f"{δ}{write.signal(t, at)}·{shown}"
        operand = self._label(use.operand, t)
        left, right = (operand, gradient) if use.transposed else (gradient, operand)
        return δ + write.product(left, right, t, at)

    def _unrolled(self, s: MatMul) -> Equation:
        write, name = self.write, self.program[s.matrix].name
        λ = self.recursion.weight_decay[name]
        base = "" if λ == 0 else self.write.number(1 - λ)
        first = write.ket(self._image(s, "0"))
        if base:
            first = f"{write.power(base, 't')} {first}"
        bar = self._bar(name, "s", write.transpose if s.transposed else "", self._member(s))
        ratio = of_image(self.program, s)
        more = "" if ratio == 1 else f"{write.number(ratio)} "
        action = f"{more}{bar} {write.ket(self._label(s.operand, 't'))}"
        past = write.past(f"{write.power(base, 't−1−s')} " if base else "", action)
        return Equation("unrolled", write.ket(write.timed(s.name, "t")), f"{first} {past}", (name, s.name), UNROLLED)
