"""The inequalities between exponents that decide which limit there is (Yang & Littwin, Thms 2.8.12, 2.8.15, 2.8.19).

With a_out counted into readouts, A = a_out + a + b of the readout that is largest, and for each parameter

    r = a + c − 1 for matrices,    a + c for vectors and scalars,    a_out + a + c − 1 for readouts:

stable at the start     a + b = ½ (matrices) or 0, A ≥ ½        faithful    d = a + A, for readouts d = a_out + a, b ≤ c
                        (A ≥ 1 of a sum whose mean is not zero; a + b ≥ 0 of what is added to others, as biases)
stable in training      r ≥ 0 for all,  A + r ≥ 1               nontrivial  r = 0 of a readout, or A + r = 1
features are learned    r = 0 of a parameter before the readout, otherwise there is an operator limit

A scalar before the readout has a gradient of n^(½ − A) at the start and of n^(1 − A − r′) once a parameter with power
r′ has moved: where the others are stable it is at most of order 1, and there is no condition but r ≥ 0.  At the start
it moves f if A + r = ½.

An optimizer of degree 1, such as SGD, does not see d: c counts as c − d + (d that would be faithful), where readouts
that move beyond their start (b > c) set A, too.  One of degree 0, such as the sign, has no condition on d.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.program.parametrization.exponents import Exponents

HALF = sympy.S.Half


@dataclass(frozen=True)
class Inequality:
    """`left relation right`, what it is about, and what happens where it fails."""

    group: str
    about: str
    text: str
    left: Expr
    relation: str
    right: Expr
    breaks: str = ""

    @property
    def condition(self) -> sympy.Basic:
        """As a SymPy condition."""
        if self.relation == "=":
            return sympy.Eq(self.left, self.right)
        return sympy.Ge(self.left, self.right) if self.relation == "≥" else sympy.Le(self.left, self.right)

    @property
    def margin(self) -> Expr:
        """How far it holds: left − right, or right − left for ≤."""
        return self.right - self.left if self.relation == "≤" else self.left - self.right

    @property
    def holds(self) -> bool | None:
        """True, False, or None where symbols decide."""
        found = self.condition
        return None if found not in (sympy.true, sympy.false) else bool(found)

    def __str__(self) -> str:
        mark = {True: "✓", False: "✗", None: "?"}[self.holds]
        value = self.left if self.relation == "=" and self.holds else f"{self.left} {self.relation} {self.right}"
        if self.relation == "=" and not self.holds:
            value = f"{self.left}, wanted {self.right}"
        return f"{mark} {self.about}: {self.text} = {value}"


@dataclass(frozen=True)
class Parameter:
    """What the inequalities know of a parameter: its name, its kind, its exponents and its optimizer."""

    name: str
    kind: str
    exponents: Exponents
    optimizer: Optimizer
    inner: bool = True

    @property
    def moves(self) -> bool:
        """Whether it is trained at all."""
        return not self.optimizer.is_still

    @property
    def linear(self) -> bool:
        """Whether the optimizer sees the size of the gradient in proportion."""
        return self.optimizer.degree == 1

    @property
    def faithful_needed(self) -> bool:
        """Whether d has to fit."""
        return self.optimizer.degree is None

    @property
    def c(self) -> Expr:
        """c, with the powers that normalised and clipped updates add."""
        return self.exponents.c + self.optimizer.extra_power(self.kind, self.exponents)


@dataclass(frozen=True)
class InequalityTable:
    """All inequalities of a network: its parameters, a_out, and the least A of what is summed to the output.

    `readout_start` is that of terms that hold a readout: ½ where their mean is zero, 1 where it is not.  `other_start`
    is that of the other terms, None where there are none.  `needed` are sets of vectors and scalars of which one
    has to be of order 1 at the start: those alone in one cannot start smaller, and None stands for all of these.
    """

    parameters: tuple[Parameter, ...]
    a_out: Expr
    readout_start: Expr = HALF
    other_start: Expr | None = None
    needed: tuple[frozenset[str], ...] | None = None

    @cached_property
    def readouts(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind == "readout")

    @cached_property
    def moving(self) -> tuple[Parameter, ...]:
        """Those that are trained; what does not move breaks nothing in training, and makes nothing move."""
        return tuple(p for p in self.parameters if p.moves)

    @cached_property
    def others(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind != "readout")

    @cached_property
    def scales(self) -> tuple[tuple[str, Expr], ...]:
        """Powers A of 1/n of what reads the features, at the start and in training, each with a name."""
        found = {f"a + b of {p.name}": self.start_of(p) for p in self.readouts}
        for p in self.readouts:
            if p.linear and p.moves:
                # what a readout has learned reads the features too, and may be larger than what it started with
                found[f"a + c of {p.name}"] = self.a_out + p.exponents.a + self._c(p, sympy.S.Zero)
        if self.other_start is not None:
            found["a_out"] = self.a_out
        # with symbols no scale is known to be the least: each has its conditions
        if all(not A.free_symbols for A in found.values()):  # numbers: the smallest alone matters
            least = min(found, key=lambda k: found[k])
            return ((least, found[least]),)
        return tuple(found.items())

    def _c(self, p: Parameter, A: Expr) -> Expr:
        """c, or for an optimizer of degree 1 the c that it acts with."""
        return p.c - p.exponents.d + self.faithful_d(p, A) if p.linear else p.c

    def faithful_d(self, p: Parameter, A: Expr) -> Expr:
        """The d at which n^d g is of order 1."""
        if p.kind == "readout":
            return p.exponents.a + self.a_out
        if p.kind == "scalar":
            return p.exponents.a
        return p.exponents.a + A

    def r(self, p: Parameter, A: Expr) -> Expr:
        """The power of 1/n by which updates of a parameter change what it is applied to."""
        if p.kind == "readout":
            return self.a_out + p.exponents.a + self._c(p, A) - 1
        return p.exponents.a + self._c(p, A) - (1 if p.kind == "matrix" else 0)

    def initial(self) -> Iterator[Inequality]:
        """Stable at the start."""
        for p in self.others:
            natural = HALF if p.kind == "matrix" else sympy.S.Zero
            start = p.exponents.a + p.exponents.b
            yield Inequality(
                "start",
                p.name,
                "a + b",
                start,
                "≥" if self._may_be_small(p) else "=",
                natural,
                f"starts like n^({sympy.nsimplify(natural - start)})",
            )
        starts = {p.name: p.exponents.a + p.exponents.b for p in self.others}
        for names in self.needed or ():
            if len(names) > 1:
                least = sympy.Min(*(starts[k] for k in names))
                about = " or ".join(k for k in starts if k in names)
                yield Inequality("start", about, "least a + b", least, "≤", sympy.S.Zero, f"starts like n^({-least})")
        for name, A, least in self._start_scales():
            yield Inequality("start", "f", f"A = {name}", A, "≥", least, f"starts like n^({least - A})")

    def _may_be_small(self, p: Parameter) -> bool:
        return p.kind != "matrix" and self.needed is not None and frozenset({p.name}) not in self.needed

    def start_of(self, readout: Parameter) -> Expr:
        """A of a readout at the start."""
        return self.a_out + readout.exponents.a + readout.exponents.b

    def _start_scales(self) -> Iterator[tuple[str, Expr, Expr]]:
        for p in self.readouts:
            yield f"a_out + a + b of {p.name}", self.start_of(p), self.readout_start
        if self.other_start is not None:
            yield "a_out", self.a_out, self.other_start

    def faithful(self) -> Iterator[Inequality]:
        """Scaled gradients of order 1, now and later; for optimizers that see their size."""
        A = sympy.Min(*(a for _, a in self.scales))
        for p in self.moving:
            if not p.faithful_needed or (p.kind == "scalar" and p.inner):
                continue
            # the largest gradient comes from the readout with the least A
            d, fit = p.exponents.d, self.faithful_d(p, A)
            yield Inequality(
                "gradients", p.name, "d", d, "=", fit, f"has scaled gradients of size n^({d - fit}) at the start"
            )
            if p.kind == "readout":
                e = p.exponents
                yield Inequality(
                    "gradients", p.name, "b", e.b, "≤", p.c, "moves beyond its start, and gradients with it"
                )

    def stability(self) -> Iterator[Inequality]:
        """Stable in training."""
        for p in self.moving:
            for name, A in self._scales_of(p):
                r = self.r(p, A)
                what = "f" if p.kind == "readout" else "features"
                yield Inequality("training", p.name, f"r{name}", r, "≥", sympy.S.Zero, f"moves {what} like n^({-r})")
        for p in self.moving:
            for name, A in self.scales if p.kind not in ("scalar", "readout") else ():
                total = A + self.r(p, A)
                label = f"A + r [A = {name}]" if len(self.scales) > 1 else "A + r"
                yield Inequality(
                    "training",
                    p.name,
                    label,
                    total,
                    "≥",
                    sympy.S.One,
                    f"moves f through the features like n^({1 - total})",
                )

    def _scales_of(self, p: Parameter) -> list[tuple[str, Expr]]:
        """The scales that r of a parameter depends on."""
        # only a linear update sees the size of its gradient, which the readouts behind a parameter set
        if not p.linear or p.kind == "readout" or (p.kind == "scalar" and not p.inner) or len(self.scales) == 1:
            return [("", self.scales[0][1])]
        return [(f" [A = {name}]", A) for name, A in self.scales]

    def movement(self) -> Iterator[Inequality]:
        """Nontrivial if one of these holds."""
        for p in self.moving:
            if p.kind == "readout" or not p.inner:
                yield Inequality("output", p.name, "r", self.r(p, sympy.S.Zero), "=", sympy.S.Zero)
        for p in self.moving:
            for name, A in self.scales if p.inner and p.kind != "readout" else ():
                label = f"A + r [A = {name}]" if len(self.scales) > 1 else "A + r"
                # a scalar moves f by a centred sum over neurons, n^(−½) of an aligned one
                once = HALF if p.kind == "scalar" else sympy.S.One
                yield Inequality("output", p.name, label, A + self.r(p, A), "=", once)

    def features(self) -> Iterator[Inequality]:
        """Features are learned if one of these holds."""
        for p in self.moving:
            for name, A in self._scales_of(p) if p.inner and p.kind != "readout" else ():
                yield Inequality("features", p.name, f"r{name}", self.r(p, A), "=", sympy.S.Zero)


def real_symbols(exponents: Mapping[str, Exponents], a_out: Expr) -> dict[sympy.Symbol, sympy.Symbol]:
    """Twins of all symbols that are real, so that inequalities between them make sense."""
    found = set().union(a_out.free_symbols, *(e.symbols for e in exponents.values()))
    return {s: sympy.Symbol(s.name, real=True) for s in found}


def simplified(condition: sympy.Basic) -> sympy.Basic:
    """A condition in as few words as SymPy finds: an interval where it is about one symbol."""
    if condition in (sympy.true, sympy.false):
        return condition
    symbols = sorted(condition.free_symbols, key=str)
    if len(symbols) == 1:
        found = condition.as_set()
        if found == sympy.S.Reals:
            return sympy.true
        return sympy.false if found == sympy.S.EmptySet else found.as_relational(symbols[0])
    return condition
