"""Scalars that are zero in disguise as instructions of their own, so that powers of n are counted for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer

from tplimits.program.network.cancelling import sums_to_zero
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, Entry, axis_symbol, entries, relocated
from tplimits.program.nodes.functions import KINKS, maximum, minimum, relu, where
from tplimits.program.nodes.kinds import Avg, Instruction, MatMul, Nonlin, OuterNonlin, ScalarNonlin, moved, standing
from tplimits.regimes.classification.derivation.disguise import (
    elsewhere,
    is_difference,
    number_at_generic_data,
    subtracts,
    vanishes_at_generic_data,
)
from tplimits.regimes.classification.derivation.near_limits import JUMPS, as_bend
from tplimits.regimes.classification.derivation.recentred import recentred

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


#: rounding of sums of numbers of order 1
_NOTHING = 1e-14
#: denominators of fractions that nobody writes
_FINE = 10**9


def with_zeros_apart(network: Program, limits: Mapping[int, Expr]) -> Program:
    """The network with what is zero in disguise among its scalars as scalars of their own, for their powers.

    Differences of scalars are asked, beside numbers and vectors, too, and functions of scalars with a zero elsewhere
    than at 0.  Those that are 0 at every width are left out.  limits: of scalars where they are known by algebra.

    >>> import tplimits as tp
    >>> @tp.network
    ... def gated(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     x = tp.sum(U * ξ, over="d")
    ...     return v * x * tp.sin(tp.avg(tp.sigmoid(x)) - 0.5)
    >>> with_zeros_apart(gated, {}).instructions[-2].body, with_zeros_apart(gated, {}).instructions[-1].body
    (Entry(5, ·) - 1/2, sin(Entry(6, ·))*Entry(2, α)*Entry(3, α))
    """
    places: list[int] = []
    instructions: list[Instruction] = []
    zeros: set[int] = set()
    for position, written in enumerate(network):
        if isinstance(written, Nonlin):
            # powers of n beside what is 0 multiply nothing
            none = {e: sympy.S.Zero for e in written.body.atoms(Entry) if e.source in zeros}
            none |= _cancelled(network, position, written)
            written = replace(written, body=written.body.xreplace(none)) if none else written
            zeros |= {position} if written.body == 0 else set()
        s = moved(written, places.__getitem__)
        if isinstance(s, (Avg, ScalarNonlin)) and subtracts(network, written) and sums_to_zero(network, position):
            zeros.add(position)
            s = ScalarNonlin(s.name, s.axes, s.line, body=sympy.S.Zero)
        elif isinstance(written, Nonlin):
            apart = _Apart(network, position, replace(written, body=_collected(network, written.body)), limits)
            known: dict[Expr, Expr] = {}
            for name, (difference, is_nothing) in apart.found.items():
                body, known[name] = relocated(difference.body, places.__getitem__).xreplace(known), sympy.S.Zero
                if not is_nothing:
                    indices = map(axis_symbol, difference.axes)
                    known[name] = Entry(Integer(len(instructions)), NO_NEURON, *indices)
                    instructions.append(replace(difference, name=f"{s.name}_{len(instructions)}", body=body))
            if known:
                s = moved(replace(written, body=apart.body), places.__getitem__)
                assert isinstance(s, Nonlin)
                s = replace(s, body=s.body.xreplace(known))
        places.append(len(instructions))
        instructions.append(s)
    if tuple(instructions) == network.instructions:
        return network
    return network.rearranged(instructions, places.__getitem__)


class _Apart:
    """A body in which a name stands for each part that is zero in disguise; inner parts are asked first.

    found: by name the scalar, whose body holds the names of parts in it, and whether it is 0 at every width.
    """

    def __init__(self, network: Program, position: int, s: Nonlin, limits: Mapping[int, Expr]) -> None:
        self.network, self.position, self.whole, self.limits = network, position, s, limits
        self.found: dict[Expr, tuple[ScalarNonlin, bool]] = {}
        self.written: dict[Expr, Expr] = {}
        self.free = {*map(axis_symbol, s.axes), NO_NEURON}
        self.read: dict[Expr, Expr] = {}
        self.equal: dict[Expr, Expr] = {}
        for total in sorted(s.body.atoms(sympy.Add), key=lambda t: (t.count_ops(), sympy.default_sort_key(t))):
            self.taken_apart(total)
        # what is a number and a zero, as the share in share − 1, is so in all places
        self.body = self.taken_apart(s.body.xreplace(self.equal))

    def taken_apart(self, node: Expr) -> Expr:
        if isinstance(node, Entry) or node in self.found or not node.has(Entry, *self.found):
            return node
        if node not in self.read:
            args = [self.taken_apart(a) for a in node.args]
            self.read[node] = self._named(node.func(*args) if args != list(node.args) else node)
        return self.read[node]

    def _named(self, node: Expr) -> Expr:
        """The node, or with a name for it or for the scalars of a sum that are zero together."""
        if isinstance(node, sympy.Add):
            terms = [a for a in node.args if self._is_scalar(a)]
            # 1 + s beside 1, where s is zero, and share − 1, where share is 1
            for total in (sympy.Add(*(a for a in terms if not a.is_number)), sympy.Add(*terms)):
                vanishes = self._tends_to_zero(total)
                # what cancels by names is counted by its terms, but for the rounding of decimals
                if (vanishes or _has_decimals(total)) and (flat := self._recentred(total)) is not None:
                    return node - total + flat
                if vanishes and total != self.whole.body:
                    name, number = self._name(total), sympy.Add(*(a for a in total.args if a.is_number))
                    self.equal[total - number] = name - number
                    return node - total + name
        elif isinstance(node, (maximum, minimum)) and self._is_scalar(node):
            other, sign, bend = as_bend(node)
            if self._tends_to_zero(bend):  # between two of one limit it is as small as their difference
                return other + sign * relu(self.taken_apart(bend))
        elif type(node) in elsewhere(node):
            known = all(e in self.found or e.source in self.limits for e in self._reads(node))
            if not known and self._is_scalar(node) and self._vanishes(node):
                return self._name(node)
            smooth = known and not node.has(*JUMPS, *KINKS, where)
            if smooth and self._is_at_zero(node) and (flat := self._recentred(node)) is not None:
                return flat
        return node

    def _tends_to_zero(self, total: Expr) -> bool:
        return (is_difference(total) and self._vanishes(total)) or self._is_at_zero(total)

    def _is_at_zero(self, total: Expr) -> bool:
        """Whether limits that are known make a sum 0 that is no difference, as 1 + cos(π q)."""
        at = {e: self.limits[e.source] for e in entries(total) if e.source in self.limits}
        if not at or not elsewhere(total) or total.has(*JUMPS) or any(e not in at for e in self._reads(total)):
            return False
        value = sympy.N(total.xreplace(at))
        return bool(value.is_number and value.is_finite and abs(value) < _NOTHING)

    def _recentred(self, total: Expr) -> Expr | None:
        """A sum that vanishes with its slopes, by names for what its scalars are off their limits."""

        def number(body: Expr) -> Expr | None:
            return number_at_generic_data(self.network, self.position, self._scalar(body))

        flat = recentred(self.network, total.xreplace(self.written), self.limits, number)
        return None if flat is None else flat[0].xreplace({s: self._name(part) for s, part in flat[1].items()})

    def _reads(self, node: Expr) -> list[Expr]:
        return [*(d for d in self.found if node.has(d)), *entries(node)]

    def _is_scalar(self, node: Expr) -> bool:
        widths = (self.network[e.source].width for e in entries(node))
        return node.free_symbols <= self.free | self.found.keys() and all(width is None for width in widths)

    def _vanishes(self, total: Expr) -> bool:
        """Whether it is zero in disguise, and not because its parts are: cos(s) − 1 is counted by its terms."""
        none = {e for e in self._reads(total) if e in self.found or self.limits.get(e.source) == 0}
        if not none or total.xreplace(dict.fromkeys(none, sympy.S.Zero)) != 0:
            return vanishes_at_generic_data(self.network, self.position, self._scalar(total.xreplace(self.written)))
        return False

    def _scalar(self, body: Expr) -> ScalarNonlin:
        own = tuple(a for a in self.whole.axes if axis_symbol(a) in body.free_symbols)
        return ScalarNonlin(self.whole.name, own, self.whole.line, body=body)

    def _name(self, total: Expr) -> Expr:
        scalar = self._scalar(total.xreplace(self.written))
        for name, body in self.written.items():  # 1 − q beside q − 1 is its negative, and cancels with it
            if scalar.body in (body, sympy.expand(-body)):
                return name if scalar.body == body else -name
        name = sympy.Dummy(real=True)
        self.written[name] = scalar.body
        is_nothing = sums_to_zero(self.network, self.position, scalar)
        self.found[name] = replace(scalar, body=total), is_nothing
        return name


def _has_decimals(total: Expr) -> bool:
    return any(number.q > _FINE for number in total.atoms(sympy.Rational))


def _cancelled(network: Program, position: int, s: Instruction) -> dict[Expr, Expr]:
    """Sums in a body without terms that are 0 together at every width, as W (s x) − s W x beside one power of n."""
    found: dict[Expr, Expr] = {}
    if not isinstance(s, OuterNonlin):
        return found
    widths = network.known.width_symbols
    bound = {node.bound: node.axis for node in s.body.atoms(AxisSum)}
    for total in sorted(s.body.atoms(sympy.Add), key=sympy.default_sort_key):
        parts: dict[Expr, list[Expr]] = {}
        for term in total.args:
            parts.setdefault(term.as_independent(*widths, as_Add=False)[1], []).append(term)
        for power, terms in parts.items():
            part = sympy.Add(*(term / power for term in terms))
            images = [e for e in part.atoms(Entry) if e.neuron == OWN and isinstance(network[e.source], MatMul)]
            # without images, what vanishes at every width is 0 by algebra
            # what stands in a sum over an axis is asked for at all of its indices
            inside = {i: axis_symbol(a) for i, a in bound.items() if i in part.free_symbols}
            axes = (*s.axes, *(bound[i] for i in inside))
            if not (images and part.is_Add and is_difference(part) and len({*axes}) == len(axes)):
                continue
            body = part.xreplace(inside) ** 2  # of squares: every entry is 0
            if sums_to_zero(network, position, replace(s, body=body, axes=axes)):
                found[total] = sympy.Add(found.get(total, total), *(-term for term in terms))
    return found


def _collected(network: Program, body: Expr) -> Expr:
    """A body with one product for all terms of a sum that hold the same vectors: x a − x b as x (a − b)."""
    swap: dict[Expr, Expr] = {}
    for total in body.atoms(sympy.Add):
        products: dict[Expr, list[Expr]] = {}
        for term in sympy.Add.make_args(_with_products(network, total)):
            vectors = [e for e in term.atoms(Entry) if network[e.source].width is not None]
            scalar, vector = term.as_independent(*vectors, as_Add=False) if vectors else (term, sympy.S.One)
            products.setdefault(vector, []).append(scalar)
        if any(vector != 1 and len(scalars) > 1 for vector, scalars in products.items()):
            swap[total] = sympy.Add(*(vector * sympy.Add(*scalars) for vector, scalars in products.items()))
    return body.xreplace(swap) if swap else body


def _with_products(network: Program, total: Expr) -> Expr:
    """A sum in which products of vectors with scalars stand themselves, where they were read by a name."""
    swap: dict[Expr, Expr] = {}
    for e in (f for term in total.args for f in sympy.Mul.make_args(term) if isinstance(f, Entry) and f.neuron == OWN):
        inner = network[e.source]
        factors = inner.body.args if isinstance(inner, OuterNonlin) and inner.body.is_Mul and not inner.slots else ()
        if any(isinstance(f, Entry) and f.neuron == NO_NEURON for f in factors):
            swap[e] = standing(inner, e)
    return total.xreplace(swap)
