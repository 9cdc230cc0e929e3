"""Source of the coefficients of one covariance SDE, as plain loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tplimits.errors import EvaluationError
from tplimits.regimes.depth.algebra.arrays import ARRAYS
from tplimits.regimes.depth.algebra.means import definition_of, held_labels
from tplimits.regimes.depth.numbers.contraction import At, ContractionPlan, Intermediate, Product
from tplimits.regimes.depth.numbers.means import Mean, function_source, planned

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.products import Factors

_MODULE = '''"""Generated: what one step of an SDE adds and what it multiplies with."""
import math

from tplimits.numbers.jit import njit
from tplimits.numbers.native import native
from tplimits.regimes.depth.numbers import tabulated


{means}@native(error_model="numpy", fastmath={{"contract", "reassoc", "nsz"}})
def assemble(m, table):
{names}{body}
    return 0
'''
#: what a step of the state alone reads and fills beside its responses and constant arrays; c are the coefficients
OF_STATE = ("c", "V", "d", "s", "N", "D", "X")


@dataclass(frozen=True)
class Output:
    """A matrix that `assemble` fills: its name and its terms, coefficients left out."""

    name: str
    terms: tuple[Factors, ...]
    symmetric: bool


@dataclass(frozen=True)
class Generated:
    """The text of a module whose `assemble` takes m and the addresses of arrays, in the order of the fields here.

    The coefficients of the covariances of the means come behind those of the outputs.
    """

    text: str
    #: what the loop over steps has, and the responses it draws
    own: tuple[str, ...]
    responses: tuple[str, ...]
    #: labels of the constant arrays; the tables of the means come behind them
    arrays: tuple[str, ...]
    means: tuple[Mean, ...]
    plan: ContractionPlan
    #: what its terms hold, in definitions too
    inside: frozenset[str]

    @property
    def between(self) -> tuple[int, ...]:
        """Numbers of indices of the arrays that are computed on the way: intermediates, then means."""
        return tuple(r for r in [*(t.rank for t in self.plan.intermediates), *(m.rank for m in self.means)] if r)


def assembly(outputs: Sequence[Output], own: Sequence[str], responses: Sequence[str]) -> Generated:
    """The loops that fill some matrices."""
    plan = ContractionPlan()
    every = [factors for output in outputs for factors in output.terms]
    used = dict.fromkeys(f[0] for factors in every for f in factors)
    labels = [label for label in used if definition_of(label)]
    inside = {label for factors in every for label in held_labels(factors)}
    arrays = sorted(label for label in inside if label[0] in ARRAYS)
    names = {label: f"P{i}" for i, label in enumerate(arrays)}
    plan.symmetric |= {names[label] for label in arrays if label[0] == "S"}
    names |= {label: f"K{i}" for i, label in enumerate(labels)}
    plan.symmetric |= {names[label] for label in labels if label[0] == "κ"}
    means = planned(labels, plan, names)
    before = len(plan.intermediates)
    products_ = [[plan.product(factors, names) for factors in output.terms] for output in outputs]
    if any(t.rank > 3 for t in plan.intermediates):
        raise EvaluationError("a term of the drift or the noise needs sums over more than four tokens at once.")
    between = [*(t.name for t in plan.intermediates if t.rank), *(mean.name for mean in means)]
    tables = [table for mean in means for table in mean.table_names]
    body = _body(plan, before, means, list(zip(outputs, products_, strict=True)))
    order = [*own, *responses, *(names[label] for label in arrays), *tables, *between]
    read = set(re.findall(r"\w+", body))
    text = _MODULE.format(
        means="".join(f"{function_source(mean)}\n\n" for mean in means),
        names="".join(f"    {name} = table[{k}]\n" for k, name in enumerate(order) if name in read),
        body=body,
    )
    return Generated(text, tuple(own), tuple(responses), tuple(arrays), tuple(means), plan, frozenset(inside))


def _body(
    plan: ContractionPlan, before: int, means: Sequence[Mean], outputs: Sequence[tuple[Output, Sequence[Product]]]
) -> str:
    """Intermediates of the means, the means, the other intermediates, the outputs."""
    lines = [line for tensor in plan.intermediates[:before] for line in _intermediate(tensor)]
    first = sum(len(terms) for _, terms in outputs)
    for mean in means:
        lines += _filled(mean, first)
        first += len(mean.coefficients)
    lines += [line for tensor in plan.intermediates[before:] for line in _intermediate(tensor)]
    first = 0
    for output, terms in outputs:
        lines += _output(output.name, terms, first, output.symmetric)
        first += len(terms)
    return "\n".join(f"    {line}" for line in lines)


def _entry(at: At, letters: Mapping[int, str]) -> str:
    """An entry of an array that lies in memory row by row."""
    name, indices = at
    if not indices:
        return name
    first, *rest = (letters[i] for i in indices)
    for i in rest:
        first = f"({first} * m + {i})"
    return f"{name}[{first}]"


def _filled(mean: Mean, first: int) -> list[str]:
    """name[a, b] = the mean at its covariances."""
    letters = {-4: "a", -3: "b"}
    given, number = [], first
    for products_ in mean.covariances:
        terms = []
        for product in products_:
            factors = [_entry(f, letters) for f in product.factors]
            terms.append(" * ".join([f"c[{number}]", *factors]))
            number += 1
        given.append(" + ".join(terms) or "0.0")
    call = f"mean_{mean.name}({', '.join([*given, *mean.table_names])})"
    own = _entry((mean.name, (-4, -3)[: mean.rank]), letters)
    if mean.rank == 1:
        return ["for a in range(m):", f"    {own} = {call}"]
    return ["for a in range(m):", "    for b in range(m):", f"        {own} = {call}"]


def _intermediate(tensor: Intermediate) -> list[str]:
    """name[i0, …] = Σ_k Π factors."""
    letters = {i: f"i{i}" for i in range(tensor.rank)} | {tensor.rank: "k"}
    product = " * ".join(_entry(f, letters) for f in tensor.factors)
    lines, indent = [], ""
    for i in range(tensor.rank):
        start = "i0, m" if tensor.symmetric and i == 1 else "m"
        lines.append(f"{indent}for i{i} in range({start}):")
        indent += "    "
    own = _entry((tensor.name, tuple(range(tensor.rank))), letters)
    lines += [f"{indent}total = 0.0", f"{indent}for k in range(m):", f"{indent}    total += {product}"]
    lines.append(f"{indent}{own} = total")
    if tensor.symmetric:
        lines.append(f"{indent}{_entry((tensor.name, (1, 0)), letters)} = total")
    return lines


def _output(name: str, products: Sequence[Product], first: int, symmetric: bool) -> list[str]:
    """name[a, b] = Σ c · Π factors: numbers and scalars once, then what depends on a, then on b."""
    if not products:
        return []
    letters = {-4: "a", -3: "b"}
    lines, inner, outer, diagonal = [], [], [], []
    for k, product in enumerate(products, start=first):
        scalars = [_entry(f, letters) for f in product.factors if not f[1]]
        lines.append(f"g{k} = {' * '.join([f'c[{k}]', *scalars])}")
        row = [_entry(f, letters) for f in product.factors if set(f[1]) == {-4}]
        rest = [_entry(f, letters) for f in product.factors if f[1] and set(f[1]) != {-4}]
        if product.diagonal:
            on_diagonal = [_entry(f, {-4: "a", -3: "a"}) for f in product.factors if f[1] and set(f[1]) != {-4}]
            diagonal.append(" * ".join([f"g{k}", *row, *on_diagonal]))
            continue
        if rest:
            outer.append(f"h{k} = {' * '.join([f'g{k}', *row])}")
            inner.append(" * ".join([f"h{k}", *rest]))
        else:
            outer.append(f"base += {' * '.join([f'g{k}', *row])}")
    lines.append("for a in range(m):")
    lines += [f"    {line}" for line in ("base = 0.0", *outer)]
    lines.append(f"    for b in range({'a, m' if symmetric else 'm'}):")
    lines.append(f"        total = {' + '.join(['base', *inner])}")
    lines.append(f"        {name}[a * m + b] = total")
    if symmetric:
        lines.append(f"        {name}[b * m + a] = total")
    lines += [f"    {name}[a * m + a] += {term}" for term in diagonal]
    return lines
