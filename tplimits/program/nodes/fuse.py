"""From recorded values to instructions: name what the user named, inline the rest, merge equals.

A value becomes an instruction when it has a name, when a matrix multiplies it, when it is averaged, or when it is
returned; everything else is written into the bodies that use it.  So is a named 1/h, which has no moments where
tanh(h) · (1/h) has all, and what `written_out` tells, which is an instruction by its name, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Expr, Integer, S, Symbol

from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.display_names import display_names
from tplimits.program.nodes.domains import singular_places, where_chosen
from tplimits.program.nodes.entries import NO_NEURON, OWN, DataIndex, Entry, Lookup, N, entries, width_symbol
from tplimits.program.nodes.hidden_domains import HiddenDomains
from tplimits.program.nodes.identities import without_identities
from tplimits.program.nodes.jump_signs import with_plain_signs, with_scaled_signs
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
    ordered_slots,
    place_of,
    standing,
)
from tplimits.program.nodes.spellings import in_heads
from tplimits.program.nodes.written_out import beside_singular, with_poles
from tplimits.program.parts import found, longer, put_in, remembered

if TYPE_CHECKING:
    from tplimits.program.language.tracing import Trace
    from tplimits.program.language.values import Value

#: operations of a body above which a map without a name becomes an instruction of its own
_LONGEST = 1000
#: nodes of a function that is read through its name where a sum may be 0
_SHORT = 40


class _Builder:
    """Turns the values of one trace into a list of instructions."""

    def __init__(self, trace: Trace, returned: Iterable[int]) -> None:
        self.trace = trace
        self.poles = with_poles(trace.values)
        self.domains = HiddenDomains(trace.values)
        # what stands in its readers as it is defined, and is an instruction for its name alone
        named = (*(u for _, u in trace.bindings), *trace.inherited.values())
        self.written_out = beside_singular(trace.values, named, set(trace.forced))
        self.roots = self._find_roots(list(returned), named)
        self.hidden: list[tuple[int, int]] = []

    def _find_roots(self, returned: list[int], named: tuple[int, ...]) -> set[int]:
        """Which values become instructions: what has a name or is returned, and what those need."""
        values = self.trace.values
        roots = {u for u, v in enumerate(values) if v.origin.kind in ("matrix", "vector", "scalar")}
        alone = (u for u in named if u not in self.poles and not self.domains.may_be_unreal(u))
        stack = [*returned, *(u for u in (*alone, *self.trace.forced) if not values[u].neurons)]
        roots.update(stack)
        seen: set[int] = set()
        while stack:
            uid = stack.pop()
            if uid in seen:
                continue
            seen.add(uid)
            value = values[uid]
            if value.origin.kind != "map":
                roots.add(uid)
            for entry in _reads(value):
                stack.append(entry.source)
                # an index read from a table may say "no entry": then the whole value read there is zero
                looks_up = any(isinstance(i, (Lookup, DataIndex)) for i in entry.indices)
                is_operand = value.origin.kind in ("matmul", "avg")
                # matrices and averages take one entry of an instruction as operand, no expression
                if (looks_up or is_operand) and not self._is_entry(entry.source, roots, whole=looks_up):
                    roots.add(entry.source)
                if looks_up:
                    self.written_out.discard(entry.source)
        self._split(roots, sorted(seen))
        roots = {u for u in roots if u in seen or values[u].origin.kind in ("matrix", "vector", "scalar")}
        return roots

    def _split(self, roots: set[int], uids: list[int]) -> None:
        """Make instructions of maps that would be too long to write out in their users."""
        lengths: dict[int, int] = {}
        apart = roots - self.written_out
        for uid in uids:
            value = self.trace.values[uid]
            read = [0 if e.source in apart else lengths[e.source] for e in _occurrences(value.expr)]
            # what it would be with all maps written out, each as often as it is read: sharing does not help a written
            # body
            lengths[uid] = sum(read) + _operations(value.expr) + len(read)
            if lengths[uid] > _LONGEST and not value.neurons:
                roots.add(uid)
                apart.add(uid)
                self.written_out.discard(uid)

    def _is_entry(self, uid: int, roots: set[int], whole: bool) -> bool:
        """Whether a value is nothing but an entry of an instruction (a selection or a renaming).

        `whole` asks that this entry exists at every index, so that it can itself be looked up.
        """
        value = self.trace.values[uid]
        if uid in roots or value.origin.kind != "map":
            return True
        entry = value.expr
        if not isinstance(entry, Entry) or (entry.neuron == NO_NEURON) != (value.width is None):
            return False
        looks_up = any(isinstance(i, (Lookup, DataIndex)) for i in entry.indices)
        return not (whole and looks_up) and self._is_entry(entry.source, roots, whole or looks_up)

    def build(self) -> None:
        """The instructions, those of maps included whose domains would be lost in their users."""
        self._build()
        if scaled := self._scaled_below_poles():
            self.roots |= scaled
            self._build()
        # sums of the same are one in a body, whatever their bound axes are called
        while new := list(
            self.domains.found(
                self.roots, self.roots - self.written_out, lambda e: canonical_bound_axes(self._resolve(e))
            )
        ):
            for user, part in new:
                if part == user or self.trace.values[part].neurons:
                    self.domains.refuse(user, part)
            self.hidden += new
            self.roots |= {part for _, part in new}
            self.written_out -= {part for _, part in new}
            self._build()
        for user, part in self.hidden:
            # what is read twice may cancel: log x − log x
            if self.where[part] not in self.instructions[self.where[user]].operands:
                self.domains.refuse(user, part)

    def _scaled_below_poles(self) -> set[int]:
        """Scalars times powers of a width that a quotient loses: |√n s|/(√n s) is |s|/s, and S/T a pole at s/t."""
        widths = set(map(width_symbol, self.trace.widths))
        values = ((uid, self.trace.values[uid]) for uid in self.inlined)
        scaled = [u for u, v in values if not v.width and not v.neurons and widths & found(v.expr, Symbol)]
        if not scaled:
            return set()
        sources = {e.source for u in scaled for e in entries(self.inlined[u])}
        bodies = (s.body for s in self.instructions if isinstance(s, Nonlin))
        # a quotient of two widths is a number
        as_one = (body.xreplace(dict.fromkeys(widths, N)) for body in bodies)
        lost = (body for body in as_one if N not in found(body, Symbol))
        divisors = (a for body in lost for node, a in singular_places(body) if node.is_Pow)
        reads = ((a, {e: S.Zero for e in entries(a) if e.source in sources}) for a in divisors)
        # 0 with them: 1/(eˢ + eᵗ) has no pole
        bare = {e.source for a, read in reads if a.xreplace(read) == 0 for e in read}
        return {u for u in scaled if not bare.isdisjoint(e.source for e in entries(self.inlined[u]))}

    def _build(self) -> None:
        self.instructions: list[Instruction] = []
        self.spread: dict[Entry, Expr] = {}
        self.where: dict[int, int] = {}  # value -> instruction
        self.known: dict[Instruction, int] = {}  # instruction without name -> position
        self.inlined: dict[int, Expr] = {}
        for uid in sorted(self.roots):
            instruction = self._instruction(self.trace.values[uid])
            position = self._same_as(instruction)
            if position is None:
                position = self.known.get(instruction)
            if position is None:
                position = len(self.instructions)
                self.known[instruction] = position
                self.instructions.append(replace(instruction, line=self.trace.values[uid].line))
            self.where[uid] = position

    def _same_as(self, instruction: Instruction) -> int | None:
        """The instruction this one merely repeats: y = x."""
        if isinstance(instruction, Nonlin) and isinstance(instruction.body, Entry):
            source = instruction.body.source
            own = OWN if instruction.width else NO_NEURON
            # a transposition or a selection reads other indices, and is an instruction of its own
            same = Entry(Integer(source), own, *self.trace.indices(instruction.axes))
            if instruction.body == same and self.instructions[source].axes == instruction.axes:
                return source
        return None

    def _instruction(self, value: Value) -> Instruction:
        kind, data, axes = value.origin.kind, value.origin.data, value.axes
        if kind == "matrix":
            name, rows, columns, law = data
            return InitialMatrix(name, axes, rows=rows, columns=columns, law=law)
        if kind == "vector":
            name, law = data
            return InitialVector(name, axes, over=value.width or "n", law=law)
        if kind == "scalar":
            name, number, of, law = data
            return InitialScalar(name, axes, value=number, of=of, law=law)
        if kind == "matmul":
            matrix, transposed, indices, operand = data
            return MatMul(
                "",
                axes,
                matrix=self.where[matrix],
                transposed=transposed,
                matrix_indices=indices,
                operand=self._operand(operand),
                over=value.width or "n",
            )
        if kind == "avg":
            operand, over = data
            return Avg("", axes, operand=self._operand(operand), over=over)
        if kind == "outer":
            integrand, slots, names, widths = data
            body, order = ordered_slots(self._body(integrand), slots)
            names, widths = tuple(names[i] for i in order), tuple(widths[i] for i in order)
            return OuterNonlin(
                "", axes, body=body, slots=slots, slot_names=names, slot_widths=widths, over=value.width or "n"
            )
        body = self._body(value.expr)
        over = value.width
        return ScalarNonlin("", axes, body=body) if over is None else OuterNonlin("", axes, body=body, over=over)

    def _body(self, expr: Expr) -> Expr:
        """The same function, in a form that is real in all branches, whose jumps numbers see, without hidden zeros."""
        # sums that are one stand by one name, in a condition and in what it chooses
        real = where_chosen(with_plain_signs(in_heads(canonical_bound_axes(self._written(expr)))))
        return canonical_bound_axes(without_identities(real, self._through_names))

    def _through_names(self, entry: Entry) -> Expr:
        """A vector that is a function of one other as that function."""
        if entry not in self.spread:
            self.spread[entry] = self._read_through(entry)
        return self.spread[entry]

    def _read_through(self, entry: Entry) -> Expr:
        s = self.instructions[entry.source]
        kept = any(self.where.get(part) == entry.source for _, part in self.hidden)  # for its domain: √x of √x − √x
        if kept or not isinstance(s, Nonlin) or entry.neuron not in (OWN, NO_NEURON):
            return entry
        # y = tanh(y) + σ(y) over and over is twice as long each time; max(y, z) with z = −y is a function of y
        if getattr(s, "slots", 0) or longer(s.body, _SHORT):
            return entry
        body = standing(s, entry)
        spread = {e: self._through_names(e) for e in entries(body)}
        of_one = len(frozenset().union(*map(entries, spread.values()))) == 1
        return put_in(body, spread, {}) if of_one and not any(longer(w, _SHORT) for w in spread.values()) else entry

    def _operand(self, entry: Entry) -> Entry:
        # matrices and averages take an instruction, written out elsewhere or not
        while entry.source not in self.where:
            value = self.trace.values[entry.source]
            read = value.expr.xreplace(place_of(entry, value.axes))
            assert isinstance(read, Entry), read
            entry = read
        operand = self._with_data(Entry(Integer(self.where[entry.source]), *entry.args[1:]))
        assert isinstance(operand, Entry), operand
        return operand

    def _written(self, expr: Expr) -> Expr:
        """An expression of values as one of instructions, the data that are indices included."""
        return self._with_data(self._resolve(expr))

    def _with_data(self, resolved: Expr) -> Expr:
        data = {d: DataIndex(Integer(self.where[d.source]), *d.indices) for d in found(resolved, DataIndex)}
        return resolved.xreplace(data)

    def _resolve(self, expr: Expr) -> Expr:
        """Entries of values rewritten as entries of instructions, values without one written out."""
        swap: dict[Expr, Expr] = {}
        for entry in entries(expr):
            uid, value = entry.source, self.trace.values[entry.source]
            if uid in self.where and uid not in self.written_out:
                swap[entry] = Entry(Integer(self.where[uid]), *entry.args[1:])
                continue
            if uid not in self.inlined:
                self.inlined[uid] = self._resolve(value.expr)
            swap[entry] = self.inlined[uid].xreplace(place_of(entry, value.axes))
        return with_scaled_signs(expr, swap).xreplace(swap)


@remembered(1 << 12)
def _operations(expr: Expr) -> int:
    return int(expr.count_ops())


def _occurrences(expr: Expr) -> Iterator[Entry]:
    """The entries of an expression, each as often as it stands there."""
    if isinstance(expr, Entry):
        yield expr
    else:
        for argument in expr.args:
            yield from _occurrences(argument)


def _reads(value: Value) -> list[Entry]:
    kind, data = value.origin.kind, value.origin.data
    if kind in ("matmul", "avg"):
        return [data[3] if kind == "matmul" else data[0]]
    if kind == "outer":
        return list(entries(data[0]))
    return list(entries(value.expr))


def instructions_of(
    trace: Trace, returned: Mapping[str, int]
) -> tuple[tuple[Instruction, ...], dict[str, int], dict[int, int]]:
    """The instructions of a finished trace, the names, and where each value went.

    `returned` gives the returned values, under names used where the user gave none.
    """
    builder = _Builder(trace, returned.values())
    builder.build()
    names, printed = display_names(trace, builder.instructions, builder.where, returned)
    named = tuple(replace(s, name=printed[i]) for i, s in enumerate(builder.instructions))
    return named, names, builder.where
