"""Factors of forms that stand for a function of V with a definition of its own: Gaussian means and powers of variances.

A label is a string, equal where the definitions are equal, that carries what it stands for; its factor stands at the
tokens of the definition, which calls them LOCAL, LOCAL + 1, …  Covariances are kept as the terms of forms in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import sympy
from sympy import Expr, S, Symbol

from tplimits.program.nodes.entries import variable
from tplimits.regimes.depth.algebra.products import Factor, Factors, renamed

#: tokens of a definition
LOCAL = -1000
#: the argument of the functions of a mean
U = variable("u")
#: the terms of a form
Terms = tuple[tuple[Factors, Expr], ...]


@dataclass(frozen=True)
class GaussianMean:
    """E Π f_i(u_i) for (u_1, …) of mean zero with covariances C_11, C_12, …, C_22, …: κ(C_11, C_12, …)."""

    functions: tuple[Expr, ...]
    covariances: tuple[Terms, ...]
    rank: int


@dataclass(frozen=True)
class Deviation:
    """C^(power/2) for a variance C."""

    variance: Terms
    power: Expr
    rank: int

    @property
    def covariances(self) -> tuple[Terms, ...]:
        """The variance alone."""
        return (self.variance,)


Definition = GaussianMean | Deviation


class MeanLabel(str):
    """The label of a factor with a definition."""

    definition: Definition


def mean_label(definition: Definition) -> MeanLabel:
    """The label of a definition: "κ|…" where exchanging its two tokens changes nothing, else "K|…"."""
    text = _written(definition)
    # the canonical form of products may then exchange its indices
    symmetric = definition.rank == 2 and _written(_turned(definition)) == text
    found = MeanLabel(f"{'κ' if symmetric else 'K'}|{hashlib.sha256(text.encode()).hexdigest()[:12]}")
    found.definition = definition
    return found


def definition_of(factor_label: str) -> Definition | None:
    """What a label stands for; None for labels without a definition."""
    return factor_label.definition if isinstance(factor_label, MeanLabel) else None


def _written(definition: Definition) -> str:
    functions = definition.functions if isinstance(definition, GaussianMean) else (definition.power,)
    forms = [sorted((str(f), sympy.srepr(c)) for f, c in terms) for terms in definition.covariances]
    return str(([sympy.srepr(f) for f in functions], forms, definition.rank))


def _turned(definition: Definition) -> Definition:
    """The definition with its two tokens exchanged, and with them its two functions."""
    change = {LOCAL: LOCAL + 1, LOCAL + 1: LOCAL}
    turned = tuple(tuple((_sorted(renamed(f, change)), c) for f, c in terms) for terms in definition.covariances)
    if isinstance(definition, Deviation):
        return replace(definition, variance=turned[0])
    return replace(definition, functions=definition.functions[::-1], covariances=turned[::-1])


def _sorted(factors: Factors) -> Factors:
    return tuple(sorted((name, tuple(sorted(at)) if name in ("V", "N") else at, copy) for name, at, copy in factors))


def of_columns(functions: tuple[Expr, ...], tokens: tuple[int, ...]) -> Factor:
    """E Π f_i(h_i) of one neuron of a dense layer at one or two tokens, as a factor."""
    # one order for E f(u) g(u′) and E g(u) f(u′) at exchanged tokens
    if len(functions) == 2 and sympy.srepr(functions[1]) < sympy.srepr(functions[0]):
        functions, tokens = functions[::-1], tokens[::-1]
    own = [LOCAL + i for i in range(len(tokens))]
    pairs = [(a, b) for i, a in enumerate(own) for b in own[i:]]
    covariances = tuple((((("V", tuple(sorted(pair)), 0),), S.One),) for pair in pairs)
    return mean_label(GaussianMean(functions, covariances, len(own))), tokens, 0


def scaled(definition: Definition, scale: Expr, degree: Mapping[str, Expr]) -> Definition:
    """The definition at scale·V."""

    def grown(terms: Terms) -> Terms:
        return tuple((f, c * scale ** sympy.Add(*(degree.get(name[0], S.Zero) for name, _, _ in f))) for f, c in terms)

    if isinstance(definition, Deviation):
        return replace(definition, variance=grown(definition.variance))
    return replace(definition, covariances=tuple(map(grown, definition.covariances)))


def held_labels(factors: Iterable[Factor]) -> set[str]:
    """The labels in a product, with those in the definitions of its factors."""
    found: set[str] = set()
    for name, _, _ in factors:
        found.add(name)
        definition = definition_of(name)
        for terms in definition.covariances if definition else ():
            for inner, _ in terms:
                found |= held_labels(inner)
    return found


def held_symbols(factors: Iterable[Factor]) -> set[Symbol]:
    """The constants in the definitions of the factors of a product."""
    found: set[Symbol] = set()
    for name, _, _ in factors:
        definition = definition_of(name)
        if definition is not None:
            found |= {s for terms in definition.covariances for _, c in terms for s in c.free_symbols}
            if isinstance(definition, GaussianMean):
                found |= {s for f in definition.functions for s in f.free_symbols} - {U}
    return found
