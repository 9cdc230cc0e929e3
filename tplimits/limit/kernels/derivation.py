"""NNGP and tangent kernel of a network from the tables of its tangent program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import networkx
import sympy
from sympy import Expr, Integer, S

from tplimits.errors import NoLimitError, ProgramError
from tplimits.limit.kernels.leaves import Of, TableEntry, second
from tplimits.limit.kernels.nodes import Table
from tplimits.limit.kernels.recursion import ONE_SIDE, OTHER_SIDE, Recursion
from tplimits.limit.kernels.safety import is_safe
from tplimits.program.entries import Entry, axis_symbol
from tplimits.program.network import parameters
from tplimits.program.nodes import InitialScalar
from tplimits.program.program import Program
from tplimits.program.tangent import tangent


@dataclass(frozen=True)
class KernelTables:
    """The recursion: tables in the order they are needed, and the two kernels in terms of them."""

    network: Program
    trained: tuple[str, ...]
    tables: tuple[Table, ...]
    nngp: Expr
    ntk: Expr
    axes: tuple[str, ...]
    infinite: tuple[str, ...]
    recursion: Recursion


def derive_kernels(network: Program, train: Iterable[str] | None = None, infinite: Iterable[str] = ()) -> KernelTables:
    """NNGP ⟨x|x′⟩ of the readout, and tangent kernel ⟨δx|δx′⟩ of its tangent, with the scalars added to it."""
    free, interior = _scalars(network)
    trained = tuple(parameters(network)) if train is None else tuple(train)
    trained = tuple(t for t in trained if t not in interior)
    moved = tangent(network, trained)
    state = Recursion(network, moved, infinite)
    vector = network.returns[0]
    nodes = state.nodes
    axes = network[vector].axes
    left = Of(Integer(vector), ONE_SIDE, *map(axis_symbol, axes))
    right = Of(Integer(vector), OTHER_SIDE, *(second(axis_symbol(a)) for a in axes))
    if not is_safe(state, left, vector):
        raise NoLimitError(
            f"{network.where(vector)}: the output n^(−1/2) Σ x is Gaussian with covariance ⟨x|x′⟩ only for x = Σ v·y with fresh "
            "readout vectors v (or images W y with W used there alone). Multiply what is read out by a fresh vector."
        )
    nngp = state.inner(left, right)
    ntk = S.Zero
    if vector in moved.of:
        p = moved.of[vector]
        ntk = state.inner(Of(Integer(p), *left.args[1:]), Of(Integer(p), *right.args[1:]))
    shift = _shift(network, trained, free)
    return KernelTables(
        network, trained, tuple(state.tables), nngp + shift[0], ntk + shift[1], axes, tuple(infinite), state
    )


def _scalars(network: Program) -> tuple[set[int], set[str]]:
    """Scalar parameters that are only added to the output, and the names of all others."""
    scalars = {p for p, s in enumerate(network) if isinstance(s, InitialScalar) and p not in network.inputs}
    readout = networkx.ancestors(network.graph, network.returns[0])
    return scalars - readout, {network[p].name for p in scalars & readout}


def _shift(network: Program, trained: tuple[str, ...], free: set[int]) -> tuple[Expr, Expr]:
    """What the scalar added to the output brings: Var Σ c_b b and Σ c_b² over trained b."""
    if len(network.returns) == 1:
        return S.Zero, S.Zero
    shift = network[network.returns[1]]
    position = network.returns[1]
    body: Expr = shift.body if hasattr(shift, "body") else Entry(Integer(position), *())
    if position in free:
        own = Entry(Integer(position), sympy.Symbol("·", integer=True), *map(axis_symbol, shift.axes))
        body = own
    nngp = ntk = S.Zero
    from tplimits.limit.kernels.leaves import Kron  # noqa: PLC0415

    for entry in body.atoms(Entry):
        if entry.source not in free:
            raise ProgramError(f"{network.where(position)}: only scalar parameters may be added to a readout.")
        slope = body.diff(sympy.Symbol("x")) if False else _slope(body, entry, network, position)
        same = sympy.Mul(*(Kron(i, second(i)) for i in entry.indices))
        scalar = network[entry.source]
        assert isinstance(scalar, InitialScalar)
        if scalar.value is None:
            nngp += slope**2 * same
        if scalar.name in trained:
            ntk += slope**2 * same
    return nngp, ntk


def _slope(body: Expr, entry: Entry, network: Program, position: int) -> Expr:
    dummy = sympy.Dummy()
    slope = body.xreplace({entry: dummy}).diff(dummy)
    if slope.has(dummy) or slope.atoms(Entry):
        raise ProgramError(f"{network.where(position)}: scalars added to a readout enter linearly.")
    return slope


__all__ = ["KernelTables", "TableEntry", "derive_kernels"]
