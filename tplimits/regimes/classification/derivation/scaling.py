"""Powers of n that a program holds, read as part of the exponents a of its parameters.

A program with √n · (W x), W in (a, b, c, d), is the program with W x, W in (a − ½, b, c, d).  Where all powers of n can
be moved into parameters like this, a value is n^s times that of the program without powers, with one s a position,
and s = 0 for arguments of nonlinear functions and for what is returned: linear equations for the s of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program import parts
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.entries import NO_NEURON, AxisSum, Entry, entries
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import Avg, MatMul, Nonlin, ScalarNonlin
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import roles
from tplimits.regimes.classification.derivation.factors import as_power, multiplied_by_powers, powers_in
from tplimits.regimes.classification.derivation.means import Means, means_of
from tplimits.regimes.classification.derivation.near_limits import left_of
from tplimits.regimes.classification.derivation.sizes import HALF, HOMOGENEOUS, Size, exponent_of, size_of

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.table import Parametrization


@dataclass(frozen=True)
class Scaling:
    """For each position and each parameter the power s; whether there are any powers, and whether equations have them.

    `readable` is False where powers stand where no parameter takes them: then inequalities between exponents do not
    hold.  `unique` is False where several parameters could take one.  `fluctuations` are those of `Equations`.
    """

    positions: Mapping[int, Expr]
    parameters: Mapping[str, Expr]
    readable: bool = True
    unique: bool = True
    fluctuations: Mapping[int, Expr] = field(default_factory=FrozenDict)

    def moved(self, exponents: Mapping[str, Exponents]) -> dict[str, Exponents]:
        """The exponents of the program without powers of n."""
        return {k: Exponents(e.a + self.parameters[k], e.b, e.c, e.d) for k, e in exponents.items()}

    @property
    def shifts(self) -> dict[str, Expr]:
        """The powers that are not 0."""
        return {k: s for k, s in self.parameters.items() if s != 0}


@dataclass(frozen=True)
class Equations:
    """The power of every position in terms of those of parameters, and what has to be 0.

    `fluctuations` are scalars that powers multiply and whose limit is zero, as averages of order n^(−½), and k where
    they are of order n^(−k).
    """

    unknowns: Mapping[str, sympy.Symbol]
    positions: Mapping[int, Expr]
    zero: tuple[Expr, ...]
    fluctuations: Mapping[int, Expr]

    def holds(self, values: Mapping[str, Expr]) -> bool:
        """Whether all equations hold."""
        at = {self.unknowns[k]: v for k, v in values.items()}
        return all(z.xreplace(at) == 0 for z in self.zero)

    def solved(self, known: Mapping[str, Expr]) -> dict[str, Expr] | None:
        """All powers, with those that are known and 0 where there is a choice; None if nothing fits."""
        left = [s for k, s in self.unknowns.items() if k not in known]
        at = {self.unknowns[k]: v for k, v in known.items()}
        equations = [z for z in (z.xreplace(at) for z in self.zero) if z != 0]
        # without equations every choice fits, with nothing to choose there must be none left
        found = sympy.linsolve(equations, left) if equations and left else sympy.FiniteSet(tuple(left))
        if any(not z.free_symbols for z in equations) or not found:
            return None
        chosen = dict(zip(left, next(iter(found)), strict=True))
        none = dict.fromkeys(left, sympy.S.Zero)
        return {k: known[k] if k in known else chosen[s].xreplace(none) for k, s in self.unknowns.items()}

    @property
    def unique(self) -> bool:
        """Whether one solution fits alone."""
        found = sympy.linsolve(list(self.zero), list(self.unknowns.values()))
        return bool(found) and not next(iter(found)).free_symbols

    def scaling(self, values: Mapping[str, Expr], readable: bool = True, unique: bool = True) -> Scaling:
        """The powers of all positions."""
        at = {symbol: values[k] for k, symbol in self.unknowns.items()}
        positions = {p: s.xreplace(at) - self.fluctuations.get(p, 0) for p, s in self.positions.items()}
        return Scaling(positions, dict(values), readable, unique, self.fluctuations)


def scaling_of(network: Program, parametrization: Parametrization | None = None) -> Scaling:
    """Where the powers of n of a program go.

    Where several parameters could take one, those that make the start natural in the parametrization do; where all is
    of order 1 as it is, but for small terms of sums, none does.
    """
    strict, as_it_is, kinds = equations(network), equations(network, "small terms"), roles(network).kinds
    none = dict.fromkeys(strict.unknowns, sympy.S.Zero)
    # no powers, or powers that cancel: nothing has to be moved
    if strict.holds(none):
        return strict.scaling(none, readable=not strict.fluctuations)
    small = as_it_is.holds({})
    readable, unique = not strict.fluctuations, strict.unique and not small
    if parametrization is not None and not parametrization.symbols:
        # the s with which a + s + b is natural
        wanted = {
            name: (sympy.S.Half if kinds[name] == "matrix" else sympy.S.Zero) - e.a - e.b
            for name, e in parametrization.of(network).items()
        }
        starts = {k: s for k, s in wanted.items() if kinds[k] != "readout"}
        fixed = starts | {k: sympy.S.Zero for k in wanted if kinds[k] == "readout"}
        for found, known in ((strict, starts), (equations(network, "homogeneous"), fixed)):
            values = found.solved(known)
            if values is not None:
                return found.scaling(values, readable, unique)
    if small:
        whole = as_it_is.scaling(none, readable=False)
        return replace(whole, positions={**whole.positions, **_felt(network)})
    matrices_first = sorted(none, key=lambda k: kinds[k] != "matrix")
    for name in matrices_first:
        values = strict.solved({k: sympy.S.Zero for k in none if k != name})
        if values is not None:
            return strict.scaling(values, readable, unique)
    values = strict.solved({})
    return as_it_is.scaling(none, readable=False) if values is None else strict.scaling(values, readable, unique)


def _felt(network: Program) -> dict[int, Expr]:
    """The power of n at which each scalar is of order 1 where it is read, behind the powers that multiply it there."""
    found: dict[int, Expr] = {}
    for position, s in reversed(list(enumerate(network))):
        if isinstance(s, (Avg, ScalarNonlin)):
            found.setdefault(position, sympy.S.Zero)
        if isinstance(s, Nonlin):
            grown = multiplied_by_powers(s.body, network.known.width_symbols)
            for e in s.body.atoms(Entry):
                if e.neuron == NO_NEURON and isinstance(network[e.source], (Avg, ScalarNonlin)):
                    here = found.get(position, sympy.S.Zero) - sympy.Rational(grown.get(e, 0))
                    found[e.source] = min(here, found.get(e.source, sympy.S.Zero))
    return found


@lru_cache(maxsize=32)
def equations(network: Program, reading: str = "strict") -> Equations:
    """The equations of a network: all terms of a sum have one power, and what functions are applied to has none.

    "homogeneous" lets powers pass through relu and its like; "small terms" has no unknowns, and lets terms of sums be
    smaller than others, and what is inside of gates smaller than what these need.  "aligned" takes no average for
    small, as none is late in training.
    """
    known = parameters(network) if reading != "small terms" else ()
    unknowns = {name: sympy.Symbol(f"s{i}") for i, name in enumerate(known)}
    reader = _Reader(network, reading, means_of(network, ()))
    for position, s in enumerate(network):
        if isinstance(s, MatMul):
            reader.positions[position] = reader.positions[s.matrix] + reader.positions[s.operand.source]
        elif isinstance(s, Avg):
            reader.positions[position] = reader.positions[s.operand.source]
        elif isinstance(s, Nonlin):
            # the same scalar may be multiplied by √n in one body and be small in another
            reader.taking = reader.fluctuations_in(s.body)
            reader.powers = {}  # what the body multiplies by powers of n is its own
            reader.positions[position] = sympy.expand(reader.power(s.body))
        else:
            reader.positions[position] = unknowns.get(s.name, sympy.S.Zero)
    # the power of the output is the parametrization's, a_out
    zero = (*reader.zero, *(reader.positions[p] for p in network.returns))
    return Equations(unknowns, reader.positions, tuple(sympy.expand(z) for z in zero), FrozenDict(reader.fluctuations))


class _Reader:
    """Collects equations from bodies."""

    def __init__(self, network: Program, reading: str, means: Means) -> None:
        self.network, self.reading = network, reading
        self.fluctuating = frozenset() if reading == "aligned" else means.centred | means.zeros
        self.taking: frozenset[Entry] = frozenset()
        self.widths = network.known.width_symbols
        self.positions: dict[int, Expr] = {}
        self.zero: list[Expr] = []
        self.powers: dict[Expr, Expr] = {}
        self.orders: dict[int, Expr] = {}
        self.fluctuations: dict[int, Expr] = {}

    def fluctuations_in(self, body: Expr) -> frozenset[Entry]:
        """Scalars whose limit is zero that powers of n make of order 1: of several in a product as many as it takes."""
        found: set[Entry] = set()
        for node in parts.found(body, sympy.Mul):
            powers = powers_in(node, self.widths)
            left = sum(powers.values()) if max(powers.values(), default=0) > 0 else 0
            small = [(f, e) for f in node.args if f not in powers for e in self._vanishing(f)]
            # averages first: others are zero because of these
            for f, e in sorted(
                small, key=lambda pair: (not isinstance(self.network[pair[1].source], Avg), pair[1].source)
            ):
                if left > 0:
                    found.add(e)
                    left -= as_power(f) * Fraction(self.order(e.source))
        return frozenset(found)

    def _vanishing(self, node: Expr) -> frozenset[Entry]:
        """The scalars in an expression whose limit is zero."""
        return frozenset(e for e in entries(node) if e.neuron == NO_NEURON and e.source in self.fluctuating)

    def order(self, position: int) -> Expr:
        """k of a scalar of order n^(−k): ½, or more where it is made of several such, as s² and cos(s) − 1."""
        if position not in self.fluctuating:
            return sympy.S.Zero
        if position not in self.orders:
            s, found = self.network[position], HALF
            if isinstance(s, ScalarNonlin) and not s.body.free_symbols & self.widths:
                size = size_of(s.body, lambda e: Size(-Fraction(self.order(e.source))), self.widths).start
                found = max(HALF, -size) if isinstance(size, Fraction) else HALF
            self.orders[position] = sympy.Rational(found)
        return self.orders[position]

    def power(self, node: Expr) -> Expr:
        """The power s of an expression."""
        if node not in self.powers:
            self.powers[node] = self._power(node)
        return self.powers[node]

    def _power(self, node: Expr) -> Expr:
        if isinstance(node, Entry):
            s = self.positions[node.source]
            if node in self.taking:
                self.fluctuations[node.source] = self.order(node.source)
                return s - self.order(node.source)
            return s
        if not node.has(Entry):
            start = exponent_of(node, self.widths)
            return sympy.Rational(start) if start > float("-inf") else sympy.S.Zero
        if isinstance(node, AxisSum):
            return self.power(node.summand)
        if isinstance(node, sympy.Add) and (left := left_of(node, self._vanishing(node))) is not None:
            return self.power(left.first)
        parts = [self.power(a) for a in node.args]
        if isinstance(node, sympy.Mul):
            return sympy.Add(*parts)
        if isinstance(node, sympy.Pow) and node.exp.is_Rational:
            return node.exp * parts[0]
        if isinstance(node, sympy.Add) and self.reading == "small terms":
            return sympy.Max(*parts)
        if isinstance(node, sympy.Add) or (self.reading == "homogeneous" and isinstance(node, HOMOGENEOUS)):
            self.zero += [p - parts[0] for p in parts[1:]]
            return parts[0]
        if self.reading == "small terms" and _is_gate(node):
            parts = [sympy.Max(p, 0) for p in parts]  # a gate of something small is a constant and something small
        self.zero += parts
        return sympy.S.Zero


def _is_gate(node: Expr) -> bool:
    """Whether a function is of order 1 also where what it is of is small: of scalars, or no 0 at vectors that are 0."""
    vectors = {e: sympy.S.Zero for e in node.atoms(Entry) if e.neuron != NO_NEURON}
    there = node.xreplace(vectors)
    return not vectors or bool(there.is_number and there.is_finite and there.is_nonzero)
