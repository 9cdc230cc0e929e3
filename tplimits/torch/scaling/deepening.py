"""Powers of the depth: what a stack of blocks adds up to, counted at three depths, and what a script sets for it.

Every block is to be added with L^(−α), α = 1 or ½.  Where a block ends with weights of its own, these take the factor:
their entries start L^(−α) times as large.  Where it does not, the factor is one to be written into the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import networkx
import sympy

from tplimits.errors import EvaluationError, NoLimitError, ProgramError
from tplimits.program.nodes.entries import NO_NEURON, AxisSum, Entry
from tplimits.program.nodes.kinds import InitialVector, MatMul, OuterNonlin
from tplimits.program.parametrization.exponents import Exponents
from tplimits.regimes.classification.derivation.branches import branches, damped, with_ends_apart
from tplimits.regimes.classification.derivation.counting import updated
from tplimits.regimes.classification.derivation.stacks import Orders, leading_power, orders
from tplimits.torch.scaling.naming import Names, containers
from tplimits.torch.scaling.optimizers import RULES
from tplimits.torch.scaling.table import Deep, Row

if TYPE_CHECKING:
    from tplimits.torch.importing import TorchProgram
    from tplimits.torch.scaling.plan import Plan

#: depths whose graphs are counted
DEPTHS = (2, 4, 8)
#: α by name: Yang et al. 2023, Dey et al. 2025
POINTS = {"depth-mup": Fraction(1, 2), "completep": Fraction(1)}


def residual_of(given: Any) -> Fraction:
    """α from a number, a text such as "1/2", or a name.

    >>> residual_of("depth-muP"), residual_of(1)
    (Fraction(1, 2), Fraction(1, 1))
    """
    try:
        found = POINTS.get(str(given).lower()) or Fraction(str(given))
    except (ValueError, ZeroDivisionError):
        found = None
    if found is None or not Fraction(1, 2) <= found <= 1:
        raise EvaluationError(
            f"residual={given!r}: give the power of 1/L on every block, from 1/2 (depth-muP) to 1 (CompleteP); below "
            "1/2 the sum of the blocks grows with their number, above 1 it vanishes."
        )
    return found


@dataclass(frozen=True)
class Stack:
    """One model at several depths."""

    nets: Mapping[int, TorchProgram]
    names: Names

    @classmethod
    def of(cls, make: Callable[[int, int], Any], read: Callable[[Callable[[int], Any]], TorchProgram]) -> Stack:
        """Models of three depths; `read` imports one."""
        read_at = {depth: read(lambda n, depth=depth: make(n, depth)) for depth in DEPTHS}  # type: ignore[misc]
        # rearranged, a program stays of its class
        nets = {depth: cast("TorchProgram", with_ends_apart(net)) for depth, net in read_at.items()}
        every = {depth: _parameters(net) for depth, net in nets.items()}
        return cls(nets, containers(every))

    @cached_property
    def repeated(self) -> frozenset[str]:
        """What is used more often at greater depth, under the names of the shallowest model."""
        first, last = (_uses(self.nets[d]) for d in (min(DEPTHS), max(DEPTHS)))
        return frozenset(n for n in first if self.names.place(n)[1] is not None or last.get(n, 0) > first[n])

    def ends(self, depth: int) -> dict[int, tuple[str, ...] | None]:
        """The ends of repeated blocks, and the weights that take their factor; None where there are none."""
        net = self.nets[depth]
        found = branches(net)
        cut = {b.end for b in found} | {b.stream for b in found}
        repeated = {self.names.template(n) for n in self.repeated}
        ends = {}
        for end in dict.fromkeys(b.end for b in found):
            # what a branch is made of, up to the stream it starts from and other branches
            inside = networkx.ancestors(net.graph.subgraph(set(net.graph) - (cut - {end})), end)
            own = [n for n, p in net.initial_names.items() if p in inside and self.names.template(n) in repeated]
            if own:
                ends[end] = _closing(net, end)
        # a weight that is read elsewhere too cannot take a factor that is meant for the end of a block
        shared = [end for end, closing in ends.items() if closing and not _alone(net, closing, set(ends))]
        return ends | dict.fromkeys(shared)

    def written(self, depth: int) -> dict[str, float]:
        """The numbers that blocks are multiplied by where they are added, by what closes them."""
        net = self.nets[depth]
        found: dict[str, list[float]] = {}
        for end, closing in self.ends(depth).items():
            number = _coefficient(net, end)
            for name in closing or (net[end].name,):
                inner = float(net.built.factors.get(name, 1)) if closing else 1.0
                own = _own_coefficient(net, end, name) / inner if closing else 1.0
                found.setdefault(self.names.template(name), []).append(abs(number * own))
        for name, numbers in found.items():
            # within rounding of what a model writes, as 1/√(2L)
            if max(numbers) > 1.01 * min(numbers):
                raise ProgramError(
                    f"blocks that end with `{name}` are added with different factors, {min(numbers):.3g} to "
                    f"{max(numbers):.3g}: give all the same."
                )
        return {name: numbers[0] for name, numbers in found.items()}

    def counted(self, α: Fraction) -> dict[int, Orders]:
        """The sizes at all depths, with blocks multiplied by L^(−α)."""
        return {
            depth: orders(damped(net.gaussian(), set(self.ends(depth))), depth ** -float(α))
            for depth, net in self.nets.items()
        }


def deepened(plan: Plan, stack: Stack, depth: int, α: Fraction) -> Plan:
    """A plan of the shallowest model with powers of the depth."""
    if not stack.ends(min(DEPTHS)):
        raise NoLimitError(
            f"`{plan.model}` has no blocks that are added to what they read: there are no powers of the depth for it."
        )
    counted = stack.counted(α)
    sums = (
        [order.start for order in many] for many in zip(*((c.still, c.first) for c in counted.values()), strict=True)
    )
    if leading_power(f"the sum of the blocks of `{plan.model}`", *sums) > 0:
        raise NoLimitError(
            f"what the blocks of `{plan.model}` add at the start is aligned, for they share weights or end with a "
            f"function whose mean is not zero: with L^(-{α}) their sum grows with the depth. Take residual=1."
        )
    shallow, deep = min(DEPTHS), max(DEPTHS)
    written = {d: stack.written(d) for d in (shallow, deep)}
    factors = {
        name: _quarter(name, written[deep][name] / first, deep / shallow) for name, first in written[shallow].items()
    }
    closing = {
        stack.names.template(n): factors[stack.names.template(n)]
        for ends in (stack.ends(shallow),) for names in ends.values() for n in names or ()
    }  # fmt: skip
    net = stack.nets[shallow]
    blocks = {
        net[end].name: -α - factors[stack.names.template(net[end].name)]
        for end, names in stack.ends(shallow).items() if names is None
    }  # fmt: skip
    rows = []
    for row in plan.rows:
        template = stack.names.template(row.name)
        own = -α - closing[template] if template in closing else Fraction(0)
        rows.append(replace(row, **_deep(stack, row, counted, own, depth)))
    blocks = {name: p for name, p in blocks.items() if p}
    return replace(
        plan, rows=tuple(rows), depth=depth, residual=α, names=stack.names, norm_deep=_norm(stack, rows), blocks=blocks
    )


def _deep(stack: Stack, row: Row, counted: Mapping[int, Orders], own: Fraction, depth: int) -> dict[str, Any]:
    """The powers of L of a row, and its std at the base's depth.

    own: the power that its entries take.  All updates of a family together move the output by Σ_l g_l Δw_l.
    """
    template = stack.names.template(row.name)
    still, first = (
        {
            d: [g for n, g in order(c).gradients.items() if stack.names.template(n) == template]
            for d, c in counted.items()
        }
        for order in (attrgetter("still"), attrgetter("first"))
    )
    if not all(still.values()):
        return {}
    whole = leading_power(
        f"what updates of `{template}` do", *([sum(many) for many in order.values()] for order in (still, first))
    )
    single = leading_power(
        f"the gradient of `{template}`", *([sum(m) / len(m) for m in order.values()] for order in (still, first))
    )
    started = _started(stack, row)
    gradient, moved = single - own, own - max(whole, Fraction(0))
    rule = RULES[row.optimizer]
    frozen = row.role in ("frozen", "unused")
    extra = rule.of(row.std is None).extra_power("vector", Exponents.of((0, -own, 0, 0)))
    rate = Fraction(0) if frozen else moved - Fraction(updated(rule.update, gradient)) + Fraction(str(extra))
    coupled = not (rule.decoupled or (rule.update.degree == 1 and rule.eps is None))
    eps = Fraction(0) if row.eps is None else rule.eps_power * gradient
    deep = Deep(started, own, rate, eps, gradient - own if coupled else -rate, gradient, moved)
    std = None if row.std is None else row.std * (depth / min(DEPTHS)) ** float(started)
    return {"deep": deep, "std": std}


def _started(stack: Stack, row: Row) -> Fraction:
    """The power of L that the model's own entries have."""
    if row.std is None:
        return Fraction(0)
    stds = []
    for depth in (min(DEPTHS), max(DEPTHS)):
        net, template = stack.nets[depth], stack.names.template(row.name)
        found = [float(e.std) for n, e in net.entries.items() if stack.names.template(n) == template]
        # geometric: blocks may start with different sizes, as long as all change alike
        stds.append(math.prod(found) ** (1 / len(found)))
    return _quarter(row.name, stds[1] / stds[0], max(DEPTHS) / min(DEPTHS))


def _quarter(name: str, ratio: float, depths: float) -> Fraction:
    """A power of the depth that the model has itself."""
    found = math.log(ratio) / math.log(depths)
    nearest = Fraction(round(4 * found), 4)
    if abs(found - nearest) > 0.08:
        raise ProgramError(f"`{name}` goes like L^{found:.2f} with the depth in the model itself: by no power of it.")
    return nearest


def _norm(stack: Stack, rows: Sequence[Row]) -> Fraction:
    """The power of L of the norm of the whole gradient, of those parameters whose share is the largest in n."""
    found = []
    for row in rows:
        if row.role not in ("frozen", "unused"):
            many = Fraction(1, 2) if stack.names.place(row.name)[1] is not None else Fraction(0)
            wide = Fraction(sum(1 for d in row.shape if d.ratio), 2)
            found.append((row.gradient + wide, row.deep.gradient + many))
    most = max((w for w, _ in found), default=Fraction(0))
    return max((d for w, d in found if w == most), default=Fraction(0))


def _parameters(net: TorchProgram) -> list[str]:
    modules = net.built.found.graph.modules
    return [name for name, _ in modules[0].named_parameters()]


def _uses(net: TorchProgram) -> dict[str, int]:
    return {name: net.graph.out_degree(p) for name, p in net.initial_names.items()}


def _terms(net: TorchProgram, end: int) -> list[list[Entry]]:
    """The vectors that each term of what stands at the end of a block is a product of; none of those in functions."""
    s = net[end]
    body = s.body if isinstance(s, OuterNonlin) else sympy.S.Zero
    return [list(_factors(term)) for term in sympy.Add.make_args(body)]


def _factors(term: sympy.Expr) -> Iterator[Entry]:
    for f in sympy.Mul.make_args(term):
        if isinstance(f, AxisSum):
            yield from _factors(f.summand)
        elif isinstance(f, Entry) and f.neuron != NO_NEURON:
            yield f


def _closing(net: TorchProgram, end: int) -> tuple[str, ...] | None:
    """The weights that the end of a block is linear in, one for each of its terms."""
    names = {p: n for n, p in net.initial_names.items()}
    last = net[end]
    if isinstance(last, MatMul):
        return (names[last.matrix],)
    found = []
    for vectors in _terms(net, end):
        made = [net[e.source] for e in vectors]
        own = [names[e.source] for e, s in zip(vectors, made, strict=True) if isinstance(s, InitialVector)]
        own += [names[s.matrix] for s in made if isinstance(s, MatMul)]
        if len(own) != 1 or own[0] in net.frozen:
            return None
        found.append(own[0])
    return tuple(found)


def _alone(net: TorchProgram, closing: Sequence[str], ends: set[int]) -> bool:
    """Whether weights are used at the ends of blocks and nowhere else."""
    for name in closing:
        position = net.initial_names[name]
        for reader in net.graph.successors(position):
            last = (
                set(net.graph.successors(reader))
                if isinstance(net[reader], MatMul) and reader not in ends
                else {reader}
            )
            if not last <= ends:
                return False
    return True


def _coefficient(net: TorchProgram, end: int) -> float:
    """The number that the end of a block is multiplied by where it is added."""
    for s in net:
        if isinstance(s, OuterNonlin):
            for node in sympy.preorder_traversal(s.body):
                for term in node.args if isinstance(node, sympy.Add) else ():
                    if any(e.source == end for e in term.atoms(Entry)):
                        return _number(term)
    return 1.0


def _own_coefficient(net: TorchProgram, end: int, name: str) -> float:
    """The number that a weight is multiplied by at the end of a block."""
    s, position = net[end], net.initial_names[name]
    if not isinstance(s, OuterNonlin):
        return 1.0
    for term in sympy.Add.make_args(s.body):
        for e in term.atoms(Entry):
            made = net[e.source]
            if e.source == position or (isinstance(made, MatMul) and made.matrix == position):
                return _number(term)
    return 1.0


def _number(term: sympy.Expr) -> float:
    if isinstance(term, AxisSum):
        return _number(term.summand)
    numbers = [f for f in sympy.Mul.make_args(term) if f.is_number]
    inner = [_number(f) for f in sympy.Mul.make_args(term) if isinstance(f, AxisSum)]
    return math.prod([float(x) for x in numbers] + inner)
