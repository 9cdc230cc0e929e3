"""Functions of Gaussian linear forms: the forms as variables, what is deterministic as parameters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.network.preactivations import MOST
from tplimits.program.nodes import functions
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import AxisSum, free_indices
from tplimits.program.nodes.kinds import InitialVector
from tplimits.regimes.kernels.derivation.leaves import Of, Slot
from tplimits.regimes.kernels.derivation.terms import Term, is_random, products, summed, terms

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.openings import Openings


@dataclass
class Forms:
    """Maximal Gaussian linear forms inside functions, as variables z; deterministic rest as parameters p."""

    engine: Openings
    absorb: bool = True
    variables: dict[Symbol, Of] = field(default_factory=dict)
    parameters: dict[Symbol, Expr] = field(default_factory=dict)

    def collides(self) -> bool:
        """Whether one node stands in two forms with different coefficients: their law would be singular."""
        seen: dict[Of, Symbol] = {}
        for z, form in self._beside_others():
            made_of = self.engine.nodes[form.node].body
            # c·h and h are one variable up to a parameter; absorbed into a form of its own c·h would be a second one
            alone = form if made_of is None or len(self.engine.leaves(made_of)) != 1 else self.engine.alone(form)
            if seen.setdefault(alone, z) != z and self.absorb:
                return True
        return False

    def without_multiples(self, written: list[Expr]) -> list[Expr]:
        """Forms that are multiples of one another (h as it stands, and Σ W x it is made of) as one variable."""
        kept: list[tuple[Symbol, Expr, Expr]] = []
        swap: dict[Symbol, Expr] = {}
        units = [(z, *self.engine.unit(form)) for z, form in self._beside_others()]
        # h/√K is the variable, h is √K times it; what may vanish is the variable of nothing else
        for z, scale, unit in sorted(units, key=lambda u: (not _is_nonzero(u[1]), u[1].is_number)):
            for w, known_scale, known_unit in kept:
                if known_unit == unit and _is_nonzero(known_scale):
                    swap[z] = self.parameter(scale / known_scale) * w
                    break
            else:
                kept.append((z, scale, unit))
        for z in swap:
            del self.variables[z]
        sums = self._sums_of_others()
        swap = {z: other.xreplace(sums) for z, other in swap.items()} | sums
        return [f.xreplace(swap) for f in written] if swap else written

    def _sums_of_others(self) -> dict[Symbol, Expr]:
        """Forms that are sums of others, x − b beside x and b: their law would be singular; b of both inputs is one."""
        rows = [(z, row) for z, form in self.variables.items() if (row := self._numbers(form))]
        pivots: list[tuple[Expr, dict[Expr, Expr], Expr]] = []
        swap: dict[Symbol, Expr] = {}
        for z, row in sorted(rows, key=lambda r: len(r[1])):
            rest, others = dict(row), S.Zero
            for leaf, known, kept in pivots:
                factor = rest.get(leaf, S.Zero) / known[leaf]
                if factor != 0:
                    others += factor * kept
                    rest = {x: rest.get(x, S.Zero) - factor * known.get(x, S.Zero) for x in {**rest, **known}}
            rest = {x: number for x, c in rest.items() if (number := sympy.expand(c)) != 0}
            if rest:
                pivots.append((next(iter(rest)), rest, z - others))
            else:
                swap[z] = sympy.expand(others)
                del self.variables[z]
        return swap

    def _numbers(self, form: Of) -> dict[Expr, Expr]:
        """A form by the leaves it is made of, where their coefficients are numbers; else nothing."""
        scale, unit = self.engine.unit(form)
        row: dict[Expr, Expr] = {}
        for addend in sympy.Add.make_args(unit):
            number, leaf = addend.as_independent(Of, AxisSum, as_Add=False)
            if type(leaf) is Of and self.engine.nodes[leaf.node].initial and all(i.is_Integer for i in leaf.indices):
                leaf = Of(leaf.args[0], S.One, *leaf.indices)
            row[leaf] = scale * number
        return row if all(number.is_number for number in row.values()) else {}

    def _beside_others(self) -> list[tuple[Symbol, Of]]:
        """The variables of inputs that have several: those of two inputs are made of nodes of either."""
        sides = [form.args[1] for form in self.variables.values()]
        return [(z, form) for z, form in self.variables.items() if sides.count(form.args[1]) > 1]

    def variable(self, form: Of) -> Symbol:
        for z, known in self.variables.items():
            if known == form:
                return z
        z = Symbol(f"z′{len(self.variables)}", real=True)
        self.variables[z] = form
        return z

    def parameter(self, value: Expr) -> Expr:
        if value.is_number and not value.has(Slot):
            return value
        value = canonical_bound_axes(value)  # the mean of Σ U ξ is one number, however often the sum is written
        for p, known in self.parameters.items():
            if known == value:
                return p
        p = Symbol(f"p′{len(self.parameters)}", real=True)
        self.parameters[p] = value
        return p

    def factor(self, expr: Expr) -> Expr:
        """A random factor in variables and parameters."""
        expr = self._without_constants(expr)
        if not is_random(expr):
            return self.parameter(expr)
        if isinstance(expr, Of):
            node = self.engine.nodes[expr.node]
            return self.variable(expr) if node.gaussian else self.factor(self.engine.opened(expr))
        if isinstance(expr, (sympy.Add, sympy.Mul, AxisSum)):
            return self._sum(expr)
        if isinstance(expr, sympy.Pow) and not is_random(expr.exp):
            return self.factor(expr.base) ** self.parameter(expr.exp)
        return expr.func(*map(self.factor, expr.args))

    def _without_constants(self, expr: Expr) -> Expr:
        """Vectors whose entries are one number, as that number: 1·z is a Gaussian form."""
        bodies = {leaf: self.engine.nodes[leaf.node].body for leaf in self.engine.leaves(expr)}
        known = {leaf: body for leaf, body in bodies.items() if body is not None and body.is_number}
        return expr.xreplace(known) if known else expr

    def _sum(self, expr: Expr) -> Expr:
        """Linear addends joined in one form; products factor by factor."""
        linear: list[Term] = []
        parts: list[Expr] = []
        random = False
        for addend in sympy.Add.make_args(expr):
            found = self._opened(terms(addend, powers=False))
            # linear terms of a sum join in one Gaussian variable: the mean is over as many variables as there are such
            # forms
            if all(len(t.factors) == 1 and isinstance(t.factors[0], Of) for t in found):
                linear += found
            elif all(len(t.factors) < 2 and all(isinstance(f, Of) for f in t.factors) for t in found):
                linear += [t for t in found if t.factors]
                parts += [self.parameter(summed(t.coefficient, t.bounds)) for t in found if not t.factors]
            else:
                random = random or is_random(addend)
                parts.append(self._product(addend, found))
        if linear:
            parts.append(self._form(linear, alone=not random))
        return sympy.Add(*parts)

    def _opened(self, found: list[Term]) -> list[Term]:
        """Non-Gaussian nodes that stand linearly, written out."""
        done = []
        for term in found:
            leaf = term.factors[0] if len(term.factors) == 1 else None
            if isinstance(leaf, Of) and not self.engine.nodes[leaf.node].gaussian:
                inner = products([[Term(term.coefficient, term.bounds, ())], terms(self.engine.opened(leaf))])
                done += self._opened(inner)
            else:
                done.append(term)
        return done

    def _product(self, addend: Expr, found: list[Term]) -> Expr:
        """A nonlinear addend: factor by factor, or term by term where it is a node written out."""
        if isinstance(addend, sympy.Mul):
            return sympy.Mul(*map(self.factor, addend.args))
        if any(t.bounds for t in found):
            if (apart := self._with_factors_outside(found)) is not None:
                return apart
            raise NoLimitError(
                "a nonlinear function of a sum of nonlinear functions over a finite axis needs a mean over as many "
                f"variables as the axis is long, which is not offered. Put a matrix between the two{self._size(found)}."
            )
        # a function as it stands: its arguments are looked at in turn
        if not isinstance(addend, AxisSum) and len(found) == 1 and found[0].factors == (addend,):
            return addend.func(*map(self.factor, addend.args))
        return sympy.Add(*(self.parameter(t.coefficient) * sympy.Mul(*map(self.factor, t.factors)) for t in found))

    def _with_factors_outside(self, found: list[Term]) -> Expr | None:
        """Σ_m x h_m as x Σ_m h_m, where what is left is linear; None for others."""
        bounds = {i for t in found for i, _ in t.bounds}
        shared = [f for f in found[0].factors if not free_indices(f) & bounds]
        shared = [f for f in shared if all(t.factors.count(f) == 1 for t in found)]
        if not shared:
            return None
        rest = self._opened([replace(t, factors=tuple(f for f in t.factors if f not in shared)) for t in found])
        if not all(len(t.factors) == 1 and isinstance(t.factors[0], Of) for t in rest):
            return None
        return sympy.Mul(*map(self.factor, shared), self._form(rest, alone=False))

    def _size(self, found: list[Term]) -> str:
        """What the size of an axis would do: sums of vectors that are not normal are written out."""
        program = self.engine.program
        others = {a for s in program if isinstance(s, InitialVector) and s.law.shape != "normal" for a in s.axes}
        for axis in sorted({axis.name for t in found for _, axis in t.bounds} & others):
            if program.size(axis) is None:
                return f", or fix its size where it is at most {MOST}: {program.name}.bind({axis}=…)"
        return ""

    def _form(self, linear: list[Term], alone: bool) -> Expr:
        if len(linear) == 1 and not linear[0].bounds:
            coefficient, leaf = linear[0].coefficient, linear[0].factors[0]
            if coefficient.is_number:
                return coefficient * self.variable(leaf)
            # beside other random addends the leaf may stand in them too: kept as itself, with the coefficient in front
            if not self.absorb or not alone:
                return self.parameter(coefficient) * self.variable(leaf)
        merged: dict[tuple, Expr] = {}
        for t in linear:
            merged[t.bounds, t.factors] = merged.get((t.bounds, t.factors), S.Zero) + t.coefficient
        # a sum takes itself away whatever its bound axis is called
        whole = canonical_bound_axes(sympy.Add(*(summed(c * f[0], b) for (b, f), c in merged.items())))
        if whole == 0:  # max(x + s, x) steps where x + s − x does: at s
            return S.Zero
        return self.variable(self.engine.form(whole, int(linear[0].factors[0].side)))


def _is_nonzero(scale: Expr) -> bool:
    """Whether a coefficient is a product of numbers and of reciprocals: those are never zero."""
    return scale != 0 and all(
        factor.is_number or (isinstance(factor, sympy.Pow) and factor.exp.is_negative)
        for factor in sympy.Mul.make_args(scale)
    )


def scales_outside(expr: Expr, scales: Collection[Symbol]) -> Expr:
    """Homogeneous functions with the scales of their arguments in front: relu(p z) = p₊ relu(z) + p₋ relu(−z).

    Up to p = 0, where a jump may be anything: scales that are random vanish with probability 0.
    """

    def outside(node: Expr) -> Expr:
        scale, rest = node.args[0].as_independent(*(node.free_symbols - set(scales)), as_Add=False)
        if not scale.free_symbols or not rest.free_symbols or rest.free_symbols & set(scales):
            return node
        if isinstance(node, (sympy.Abs, sympy.sign)):
            return node.func(scale) * node.func(rest)
        return node.func(scale) * node.func(rest) + node.func(-scale) * node.func(-rest)

    swap = {node: outside(node) for node in expr.atoms(functions.relu, functions.step, sympy.Abs, sympy.sign)}
    return expr.xreplace({a: b for a, b in swap.items() if a != b})
