"""Source of one covariance SDE: its coefficients as plain loops, and the loop over paths and steps."""

from __future__ import annotations

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

_MODULE = '''"""Generated: the coefficients of one covariance SDE, and paths made from them."""
import math

import numpy as np
from tplimits.numbers.jit import njit

from tplimits.regimes.depth.numbers import matrices, moves, normals, products, tabulated


{means}@njit(nogil=True, error_model="numpy", fastmath={{"contract", "reassoc", "nsz"}})
def assemble(V, d, s, N, {given}c, w1, w2, w3, k1, k2, D, X):
    m = V.shape[0]
{body}


@njit(nogil=True, error_model="numpy")
def batch(V, streams, steps, halves, c, spread, low, high, {arrays}every, history, stopped, clipped):
    m = V.shape[1]
    d, s, N = np.empty(m), np.empty(m), np.empty((m, m))
    w1, w2, w3 = np.empty(({n1}, m)), np.empty(({n2}, m, m)), np.empty(({n3}, m, m, m))
    k1, k2 = np.empty(({k1}, m)), np.empty(({k2}, m, m))
    D, X, K, B = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m)), np.empty((m, m))
    Bt, spare, other, fresh = np.empty((m, m)), np.empty((m, m)), np.empty((m, m)), np.empty((m, m))
    R = np.empty(({responses}, m, m))
    noisy, centre = spread > 0.0, np.empty(m)
    moves.centres(spread, centre)
    isotropic = m * (m + 1) // 2 if noisy else 0
    gaussians = np.empty(isotropic + {counts})
    more, state = np.empty(gaussians.shape[0]), np.empty(normals.SIZE, np.uint64)
    for path in range(V.shape[0]):
        W = V[path]
        normals.start(streams[path], state)
        stopped[path] = -1
        clipped[path] = 0
        if matrices.is_outside(W, low, high, spare):
            stopped[path] = 0
        elif not matrices.root(W, B, spare):
            clipped[path] += 1
        products.transpose(B, Bt)
        if every > 0:
            products.copy(W, history[path, 0])
        for step in range(1, steps + 1):
            if stopped[path] < 0:
                normals.draw(state, halves, gaussians, more)
                if noisy:
                    moves.{noise}
{draws}
                moves.kernels(W, {rooted}, d, s, N)
                assemble(W, d, s, N, {passed}c, w1, w2, w3, k1, k2, D, X)
                clipped[path] += {move}
                if matrices.is_finite(fresh):
                    products.copy(fresh, W)
                    if matrices.is_outside(W, low, high, spare):
                        stopped[path] = step
                else:
                    stopped[path] = step
            if every > 0 and step % every == 0:
                products.copy(W, history[path, step // every])
'''


@dataclass(frozen=True)
class Outputs:
    """What a step needs: terms added to V (symmetric) and terms that multiply it, coefficients left out."""

    added: tuple[Factors, ...]
    factor: tuple[Factors, ...]


@dataclass(frozen=True)
class Output:
    """A matrix that `assemble` fills: its name and its terms, coefficients left out."""

    name: str
    terms: tuple[Factors, ...]
    symmetric: bool


@dataclass(frozen=True)
class Generated:
    """The text of a module, the labels of the arrays it takes, what is computed before, and the Gaussian means.

    The coefficients of the covariances of the means come behind those of the outputs, their tables behind the arrays.
    """

    text: str
    arrays: tuple[str, ...]
    plan: ContractionPlan
    means: tuple[Mean, ...] = ()


@dataclass(frozen=True)
class Assembly:
    """The body of `assemble` and what it takes: arrays and tables by name, means and the sizes of what is between."""

    body: str
    arrays: tuple[str, ...]
    parameters: str
    plan: ContractionPlan
    means: tuple[Mean, ...]
    #: what its terms hold, in definitions too
    inside: frozenset[str]

    @property
    def filled(self) -> dict[str, str]:
        """What the template of a module needs of it."""
        ranks = [sum(t.rank == r for t in self.plan.intermediates) for r in range(4)]
        sizes = {f"n{r}": ranks[r] for r in (1, 2, 3)}
        sizes |= {f"k{r}": sum(mean.rank == r for mean in self.means) for r in (1, 2)}
        return {
            "arrays": self.parameters,
            "means": "".join(f"{function_source(mean)}\n\n" for mean in self.means),
            "body": self.body,
            **{name: str(max(count, 1)) for name, count in sizes.items()},
        }


def assembly(outputs: Sequence[Output]) -> Assembly:
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
    tables = [table for mean in means for table in mean.table_names]
    return Assembly(
        _body(plan, before, means, list(zip(outputs, products_, strict=True))),
        tuple(arrays),
        "".join(f"{name}, " for name in [*(names[label] for label in arrays), *tables]),
        plan,
        tuple(means),
        frozenset(inside),
    )


def drawn(symmetric: Sequence[bool], size: str, line: str) -> tuple[str, str]:
    """How many normals the responses take, and a line that draws each from `size` rows."""
    counts = [f"{f'{size} * ({size} + 1) // 2' if each else f'{size} * {size}'}" for each in symmetric]
    starts = [" + ".join(["isotropic", *counts[:k]]) for k in range(len(counts))]
    lines = [
        line.format(start=start, symmetric=each, k=k)
        for k, (start, each) in enumerate(zip(starts, symmetric, strict=True))
    ]
    return " + ".join(["0", *counts]), "\n".join(lines)


def generated(outputs: Outputs, method: str, symmetric: Sequence[bool]) -> Generated:
    """The module of one SDE and method; `symmetric` tells the law of each response R0, R1, …"""
    made = assembly([Output("D", outputs.added, True), Output("X", outputs.factor, False)])
    responses = [f"R{k}" for k in range(len(symmetric))]
    draw = "                moves.response(B, Bt, m, gaussians[{start} :], {symmetric}, R[{k}], spare, other)"
    counts, draws = drawn(symmetric, "m", draw)
    added, factor = bool(outputs.added), bool(outputs.factor)
    move = (
        "moves.add(W, D, K, noisy, B, Bt, spare, other, fresh)"
        if method == "euler"
        else f"moves.multiply_and_add(W, D, {added}, X, {factor}, K, noisy, B, Bt, m, spare, other, fresh)"
    )
    text = _MODULE.format(
        given="".join(f"{r}, " for r in responses) + made.parameters,
        passed="".join(f"R[{k}], " for k in range(len(responses))) + made.parameters,
        **made.filled,
        responses=max(len(responses), 1),
        counts=counts,
        draws=draws,
        rooted=bool(made.inside & {"N", "s"}),
        move=move,
        noise="symmetric_noise(gaussians, spread, K)"
        if method == "euler"
        else "triangular_noise(gaussians, spread, centre, K)",
    )
    return Generated(text, made.arrays, made.plan, made.means)


def _body(
    plan: ContractionPlan, before: int, means: Sequence[Mean], outputs: Sequence[tuple[Output, Sequence[Product]]]
) -> str:
    """Intermediates of the means, the means, the other intermediates, the outputs."""
    place: dict[str, str] = {}
    count = [0, 0, 0, 0]
    for tensor in plan.intermediates:
        place[tensor.name] = f"w{tensor.rank}[{count[tensor.rank]}" if tensor.rank else tensor.name
        count[tensor.rank] += 1
    ranks = [0, 0, 0]
    for mean in means:
        place[mean.name] = f"k{mean.rank}[{ranks[mean.rank]}"
        ranks[mean.rank] += 1
    lines = [line for tensor in plan.intermediates[:before] for line in _intermediate(tensor, place)]
    first = sum(len(terms) for _, terms in outputs)
    for mean in means:
        lines += _filled(mean, first, place)
        first += len(mean.coefficients)
    lines += [line for tensor in plan.intermediates[before:] for line in _intermediate(tensor, place)]
    first = 0
    for output, terms in outputs:
        lines += _output(output.name, terms, first, place, output.symmetric)
        first += len(terms)
    return "\n".join(f"    {line}" for line in lines or ["pass"])


def _entry(at: At, letters: Mapping[int, str], place: Mapping[str, str]) -> str:
    name, indices = at
    inside = ", ".join(letters[i] for i in indices)
    known = place.get(name, name)
    if not inside:
        return known
    return f"{known}, {inside}]" if name in place else f"{known}[{inside}]"


def _filled(mean: Mean, first: int, place: Mapping[str, str]) -> list[str]:
    """name[a, b] = the mean at its covariances."""
    letters = {-4: "a", -3: "b"}
    given, number = [], first
    for products_ in mean.covariances:
        terms = []
        for product in products_:
            factors = [_entry(f, letters, place) for f in product.factors]
            terms.append(" * ".join([f"c[{number}]", *factors]))
            number += 1
        given.append(" + ".join(terms) or "0.0")
    call = f"mean_{mean.name}({', '.join([*given, *mean.table_names])})"
    own = _entry((mean.name, (-4, -3)[: mean.rank]), letters, place)
    if mean.rank == 1:
        return ["for a in range(m):", f"    {own} = {call}"]
    return ["for a in range(m):", "    for b in range(m):", f"        {own} = {call}"]


def _intermediate(tensor: Intermediate, place: Mapping[str, str]) -> list[str]:
    """name[i0, …] = Σ_k Π factors."""
    letters = {i: f"i{i}" for i in range(tensor.rank)} | {tensor.rank: "k"}
    product = " * ".join(_entry(f, letters, place) for f in tensor.factors)
    lines, indent = [], ""
    for i in range(tensor.rank):
        start = "i0, m" if tensor.symmetric and i == 1 else "m"
        lines.append(f"{indent}for i{i} in range({start}):")
        indent += "    "
    own = _entry((tensor.name, tuple(range(tensor.rank))), letters, place)
    lines += [f"{indent}total = 0.0", f"{indent}for k in range(m):", f"{indent}    total += {product}"]
    lines.append(f"{indent}{own} = total")
    if tensor.symmetric:
        lines.append(f"{indent}{_entry((tensor.name, (1, 0)), letters, place)} = total")
    return lines


def _output(name: str, products: Sequence[Product], first: int, place: Mapping[str, str], symmetric: bool) -> list[str]:
    """name[a, b] = Σ c · Π factors: numbers and scalars once, then what depends on a, then on b."""
    if not products:
        return []
    letters = {-4: "a", -3: "b"}
    lines, inner, outer, diagonal = [], [], [], []
    for k, product in enumerate(products, start=first):
        scalars = [_entry(f, letters, place) for f in product.factors if not f[1]]
        lines.append(f"g{k} = {' * '.join([f'c[{k}]', *scalars])}")
        row = [_entry(f, letters, place) for f in product.factors if set(f[1]) == {-4}]
        rest = [_entry(f, letters, place) for f in product.factors if f[1] and set(f[1]) != {-4}]
        if product.diagonal:
            on_diagonal = [_entry(f, {-4: "a", -3: "a"}, place) for f in product.factors if f[1] and set(f[1]) != {-4}]
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
    lines.append(f"        {name}[a, b] = total")
    if symmetric:
        lines.append(f"        {name}[b, a] = total")
    lines += [f"    {name}[a, a] += {term}" for term in diagonal]
    return lines
