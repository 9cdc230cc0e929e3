"""NNGP and tangent kernel of a network from the tables of its tangent program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx
import sympy
from sympy import DiracDelta, Expr, Integer, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.freshness import readout
from tplimits.law.hypotheses.universality import refuse_orthogonal
from tplimits.law.rules.dots import NotAFunction
from tplimits.program.network.parameters import at_rest, parameters, refuse_moved
from tplimits.program.network.preactivations import with_preactivations, written_out
from tplimits.program.network.tangent import tangent
from tplimits.program.nodes.entries import NO_NEURON, Entry, GaussMean, Kron, axis_symbol, free_indices
from tplimits.program.nodes.kinds import InitialScalar, ScalarNonlin
from tplimits.regimes.kernels.derivation.demand import Demand, demand
from tplimits.regimes.kernels.derivation.leaves import (
    ONE_SIDE,
    OTHER_SIDE,
    DrawMean,
    Given,
    NoTangentKernel,
    Of,
    TableEntry,
    second,
)
from tplimits.regimes.kernels.derivation.logits import why_moved
from tplimits.regimes.kernels.derivation.recursion import Recursion

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.derivation.nodes import KernelTable


@dataclass(frozen=True, eq=False)
class KernelTables:
    """The recursion: tables in the order they are needed, and the two kernels in terms of them."""

    network: Program
    trained: tuple[str, ...]
    tables: tuple[KernelTable, ...]
    nngp: Expr
    ntk: Expr
    axes: tuple[str, ...]
    infinite: tuple[str, ...]
    recursion: Recursion
    #: why there is no tangent kernel; empty where there is one
    no_ntk: str = ""
    #: what scalars with a value and numbers add to the output: K is a covariance
    mean: Expr = S.Zero
    #: factors of the squared gradients of parameters that have one
    rates: Mapping[str, Expr] = field(default_factory=dict)
    #: the arguments of `derive_kernels` that it came from
    made_from: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return derive_kernels, self.made_from  # tables hold functions: made again

    @cached_property
    def remembered(self) -> defaultdict[str, dict[Any, Any]]:
        """What numbers were planned for these tables, by who planned: it leans on them, and goes when they go."""
        return defaultdict(dict)

    @cached_property
    def needed(self) -> tuple[KernelTable, ...]:
        """The tables that the two kernels rest on, in order."""
        wanted, stack = set(), [self.nngp, self.ntk]
        while stack:
            for entry in stack.pop().atoms(TableEntry, DrawMean):
                if isinstance(entry, TableEntry) and entry.table not in wanted:
                    wanted.add(entry.table)
                    stack.append(self.tables[entry.table].definition)
        return tuple(t for t in self.tables if t.number in wanted)

    @cached_property
    def means(self) -> frozenset[GaussMean]:
        """The means of `tp.expect` that the kernels rest on."""
        exprs = (self.nngp, self.ntk, *(t.definition for t in self.needed))
        return frozenset().union(*(e.atoms(GaussMean) for e in exprs))

    @cached_property
    def demand(self) -> Demand:
        """Which entries of each table the kernels ask for."""
        return demand(self.recursion, self.nngp, self.ntk)

    @cached_property
    def is_mixture(self) -> bool:
        """Whether the kernels depend on logits that stay random: 1/√n logits of finitely many heads."""
        return any(e.has(Given) for e in (self.nngp, self.ntk, *(t.definition for t in self.needed)))

    @cached_property
    def is_drawn(self) -> bool:
        """Whether the kernels are means over random logits, estimated by draws."""
        return any(t.definition.has(DrawMean) for t in self.tables)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Output axes that the kernels have: all but those of independent outputs."""
        return tuple(a for a in self.axes if a not in self.alike)

    @cached_property
    def alike(self) -> tuple[str, ...]:
        """Output axes along which outputs are independent and have the same kernels."""
        return tuple(a for a in self.axes if _independent(self, a))


_TWO_JUMPS = (
    "the tangent kernel holds the derivative of a jump where the mean of it is not offered: at the zeros of a function "
    "that is not linear in Gaussian vectors, or where another jump stands. Train only the parameters behind the jump "
    "(train=…), or smooth it."
)


_JUMP_OF_LOGIT = (
    "the tangent kernel holds the derivative of a jump of a scalar that stays random: given that scalar it is 0, or "
    "infinite. Train only the parameters behind the jump (train=…), or smooth it."
)


def _holds_delta(state: Recursion, kernel: Expr) -> bool:
    """Whether a delta of a random scalar is left in a kernel, or in a table that it rests on."""
    seen: set[int] = set()
    stack = [kernel]
    while stack:
        expr = stack.pop()
        if expr.has(DiracDelta):
            return True
        more = {e.table for e in expr.atoms(TableEntry)} - seen
        seen |= more
        stack += [state.tables[number].definition for number in more]
    return False


def derive_kernels(
    network: Program, train: Iterable[str] | None = None, infinite: Iterable[str] = (), assumed: Sequence[str] = ()
) -> KernelTables:
    """NNGP ⟨x|x′⟩ of the readout, and tangent kernel ⟨δx|δx′⟩ of its tangent, with the scalars added to it.

    `train` names the parameters that are trained; as a mapping it gives each the factor r of its squared gradients.
    """
    refuse_orthogonal(network)
    infinite = tuple(infinite)
    rates = dict(train) if isinstance(train, Mapping) else {}
    made_from = (network, rates or (None if train is None else tuple(train)), infinite, tuple(assumed))
    # linear arguments get names: each is one Gaussian node, and its tangent another
    network = with_preactivations(written_out(network), infinite)
    free, interior = _scalars(network)
    _refuse_conditional(network, interior, train)
    _refuse_sized(network, infinite)
    rest = at_rest(network)
    refuse_moved(network, train or (), "tp.Kernels(train=…)")
    trained = tuple(t for t in (parameters(network) if train is None else train) if t not in {*interior, *rest})
    # Θ holds δθ twice: a factor r of squared gradients is √r on δθ
    moved, network = tangent(network, trained, {n: sympy.sqrt(r) for n, r in rates.items()}), network.released
    vector = network.returns[0]
    state = Recursion(network, moved, infinite, (vector,), assumed)
    axes = network[vector].axes
    left = Of(Integer(vector), ONE_SIDE, *map(axis_symbol, axes))
    right = Of(Integer(vector), OTHER_SIDE, *(second(axis_symbol(a)) for a in axes))
    # before K is taken: ⟨x|x′⟩ is the covariance of the output for a fresh readout alone
    readout(state.program, vector)
    nngp = state.inner(left, right)
    state.refuse_unknown(nngp)
    ntk, refusal = S.Zero, ""
    if vector in moved.of:
        p = moved.of[vector]
        # the NNGP stays where Θ is infinite: training behind the jump or pole may still be asked for
        refusal = state.judged.why_infinite(p)
        try:
            ntk = S.Zero if refusal else state.inner(Of(Integer(p), *left.args[1:]), Of(Integer(p), *right.args[1:]))
            state.refuse_unknown(ntk)
        except NoTangentKernel as error:
            refusal = str(error)
        except NotAFunction:
            refusal = _TWO_JUMPS
        if not refusal and (refusal := why_moved(state)):
            ntk = S.Zero
        # a delta of a random logit is left over: no mean over draws meets it
        if not refusal and _holds_delta(state, ntk):
            ntk, refusal = S.Zero, _JUMP_OF_LOGIT
    shift = _shift(network, {t: rates.get(t, S.One) for t in trained}, free)
    state.refuse_free((vector,), nngp + ntk, {*left.args[1:], *right.args[1:]})
    return KernelTables(
        network,
        trained,
        tuple(state.tables),
        nngp + shift[0],
        ntk + shift[1],
        axes,
        tuple(infinite),
        state,
        refusal,
        shift[2],
        rates,
        made_from,
    )


def _scalars(network: Program) -> tuple[set[int], set[str]]:
    """Scalar parameters that are only added to the output, and the names of all others."""
    scalars = {p for p, s in enumerate(network) if isinstance(s, InitialScalar) and p not in network.inputs}
    readout = networkx.ancestors(network.graph, network.returns[0])
    # below the readout a scalar moves the law of everything after it; added to the output it shifts a covariance
    return scalars - readout, {network[p].name for p in scalars & readout}


def _refuse_sized(network: Program, infinite: Iterable[str]) -> None:
    for axis in infinite:
        size = network.size(axis) if axis in network.all_axes else None
        if size is not None and size.is_number:
            raise NoLimitError(
                f"infinite=({axis!r},): the axis `{axis}` of `{network.name}` has the size {size}; leave it "
                "open to send it to infinity."
            )


def _refuse_conditional(network: Program, interior: set[str], train: Iterable[str] | None) -> None:
    """A scalar inside the network stays random at infinite width, and its gradient is not of the order of the rest."""
    for s in network:
        if isinstance(s, InitialScalar) and s.name in interior and s.value is None:
            raise NoLimitError(
                f"the scalar parameter `{s.name}` stands inside `{network.name}`: given its draw alone the kernels "
                f"have a limit (hypothesis: scalar parameters are added to the output). Give it a value, "
                f"{s.name}: tp.Scalar = 1."
            )
    for name in interior & set(train or ()):
        raise NoLimitError(
            f"`{name}` cannot be trained: a scalar inside `{network.name}` is held at its value in the limit "
            "(hypothesis: scalar parameters that are trained are added to the output)."
        )


def _shift(network: Program, trained: Mapping[str, Expr], free: set[int]) -> tuple[Expr, Expr, Expr]:
    """What the scalar added to the output brings: Var Σ c_b b, Σ r_b c_b² over trained b of rates r_b, and its mean."""
    if len(network.returns) == 1:
        return S.Zero, S.Zero, S.Zero
    position = network.returns[1]
    shift = network[position]
    body = (
        shift.body
        if isinstance(shift, ScalarNonlin)
        else Entry(Integer(position), NO_NEURON, *map(axis_symbol, shift.axes))
    )
    nngp, ntk, constant = S.Zero, S.Zero, body
    for entry in body.atoms(Entry):
        scalar = network[entry.source]
        # such a scalar would correlate the shift with the readout
        if entry.source not in free:
            raise NoLimitError(
                f"{network.where(position)}: `{scalar.name}` is added to the readout, but only scalar parameters that "
                "stand nowhere else may be."
            )
        assert isinstance(scalar, InitialScalar)
        slope = _slope(body, entry, network, position)
        constant = constant.xreplace({entry: scalar.value if scalar.value is not None else scalar.law.mean})
        same = sympy.Mul(*(Kron(i, second(i)) for i in entry.indices))
        # a scalar with a value is no random variable, but its gradient is there all the same
        nngp += (slope * scalar.law.std) ** 2 * same if scalar.value is None else S.Zero
        ntk += slope**2 * same * trained.get(scalar.name, S.Zero)
    return nngp, ntk, constant


def _slope(body: Expr, entry: Entry, network: Program, position: int) -> Expr:
    dummy = sympy.Dummy()
    slope = body.xreplace({entry: dummy}).diff(dummy)
    if slope.has(dummy) or slope.atoms(Entry):
        raise NoLimitError(f"{network.where(position)}: scalars added to a readout enter linearly.")
    return slope


def _independent(kernels: KernelTables, axis: str) -> bool:
    i = axis_symbol(axis)
    same = Kron(i, second(i))
    for kernel in (kernels.nngp, kernels.ntk):
        # a kernel that is δ times something without the index: outputs are alike and independent
        without = kernel.xreplace({same: S.Zero})
        if without != 0 or {i, second(i)} & free_indices(kernel.xreplace({same: S.One})):
            return False
    return True
