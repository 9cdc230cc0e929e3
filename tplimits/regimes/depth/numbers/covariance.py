"""Drift and diffusion of a covariance at given matrices: each term one contraction of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers import moments
from tplimits.numbers.in_digits import in_digits, valued
from tplimits.program.nodes.entries import variable
from tplimits.program.nodes.given import real_array
from tplimits.regimes.depth.algebra import folded
from tplimits.regimes.depth.algebra.arrays import ARRAYS, at_indices
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.means import LOCAL, Deviation, GaussianMean, U, definition_of, held_symbols
from tplimits.regimes.depth.algebra.products import OPEN, SPAN, Factors

if TYPE_CHECKING:
    from tplimits.numbers.moments.function import MomentFunction

#: a negative eigenvalue is rounding below this part of the trace
_ROUNDING = 1e-10
#: what is lost of the largest term of a sum, and the part of a drift or noise that may be
_ROUNDED, _DIGITS = 1e-16, 1e-6
#: coefficients below this leave digits whatever cancels
_LARGE = 1e6
#: α, β, δ, ω
_FREE = (-4, -3, -2, -1)


def covariances(V: Any, name: str = "V") -> Array:
    """Arrays of covariance matrices, checked.

    Raises EvaluationError where they are not square, real, symmetric and finite, or a variance is negative.
    """
    array = real_array(name, V)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] == 0:
        raise EvaluationError(f"{name} has shape {array.shape}; it is an array of shape (…, m, m).")
    largest = float(numpy.abs(array).max(initial=0.0))
    # a Gram matrix from float32 or from products summed in another order is symmetric up to rounding only
    if float(numpy.abs(array - numpy.swapaxes(array, -1, -2)).max(initial=0.0)) > 1e-9 * max(largest, 1e-300):
        raise EvaluationError(f"{name} is not symmetric; a covariance is.")
    if (numpy.diagonal(array, axis1=-2, axis2=-1) < 0).any():
        raise EvaluationError(f"{name} has a negative variance.")
    return array


def positive(V: Any, name: str = "V") -> Array:
    """The same; EvaluationError also where one has a negative eigenvalue beyond rounding."""
    V = covariances(V, name)
    # entries near the ends of the doubles would overflow or vanish inside the eigensolver
    scale = numpy.maximum(numpy.abs(V).max(axis=(-2, -1), initial=0.0), 1e-300)
    values = numpy.linalg.eigvalsh(V / scale[..., None, None])
    if (values[..., 0] < -_ROUNDING * values.sum(axis=-1)).any():
        least = float((values[..., 0] * scale).min())
        raise EvaluationError(
            f"{name} is not positive semidefinite: it has the eigenvalue {least:.6g}; a covariance X Xᵀ/n has none "
            "below zero."
        )
    return V


def numbers(form: Form, values: Mapping[Expr, float]) -> list[float]:
    """The coefficients of a form as numbers.

    Raises EvaluationError for a constant without a value.
    """
    insist_on_values(held(form), values)
    found, shared = [], in_digits(values)
    for coefficient in form.terms.values():
        number = valued(coefficient, shared)
        if number.imag or not numpy.isfinite(number.real):
            raise EvaluationError(
                f"the coefficient {coefficient} is not a real number, or too large for one, at these constants."
            )
        found.append(number.real)
    return found


def held(form: Form) -> set[Symbol]:
    """The constants of a form: those inside the definitions of Gaussian means count too."""
    inside = {s for factors in form.terms for s in held_symbols(factors)}
    return inside.union(*(c.free_symbols for c in form.terms.values()))


def insist_on_values(symbols: Iterable[Expr], values: Mapping[Expr, float]) -> None:
    """EvaluationError where one of some symbols has no value."""
    missing = sorted(str(s) for s in symbols if s not in values)
    if missing:
        name = missing[0].strip("|")
        what = "constant" if name == missing[0] else "size of the axis"
        raise EvaluationError(
            f"the {what} `{name}` has no value: give {name}=…, or "
            f"constants={{'{name}': …}} where an argument is called so."
        )


def at(form: Form, V: Array, values: Mapping[Expr, float], arrays: Mapping[str, Array], free: int) -> Array:
    """A form at covariance matrices; `free` tokens are left as dimensions.

    Raises EvaluationError where a constant is missing, and where numbers become too large.
    """
    with numpy.errstate(over="ignore", invalid="ignore"):
        found, size = _with_sizes(form, V, values, arrays, _FREE[:free])
        found = numpy.broadcast_to(found, (*V.shape[:-2], *V.shape[-1:] * free)).copy()
        scale = numpy.maximum(_largest(V, 2) ** (free // 2), _largest(found, free))
        lost = _ROUNDED * _largest(size, free) > _DIGITS * scale
    if numpy.isfinite(found).all() and lost.any():
        raise EvaluationError(
            f"nothing but rounding is left of sums whose terms are {float(size.max()):.3g}: write functions of small "
            "numbers, as exp(c*x) - 1, without what cancels, or scale constants down."
        )
    if not numpy.isfinite(found).all():
        largest = float(numpy.abs(V).max(initial=0.0))
        raise EvaluationError(
            f"the coefficients overflow at this V, whose largest entry is {largest:.3g}: they are polynomials in V. "
            "Scale V down, or the constants."
        )
    return found


def insist_on_digits(form: Form, V: Array, values: Mapping[Expr, float], arrays: Mapping[str, Array]) -> None:
    """EvaluationError where rounding alone is left of a drift at the first of some V; small numbers leave more."""
    if max(map(abs, numbers(form, values)), default=0.0) > _LARGE:
        at(form, V.reshape(-1, *V.shape[-2:])[0], values, arrays, 2)


def contracted(
    form: Form,
    V: Array,
    values: Mapping[Expr, float],
    arrays: Mapping[str, Array],
    free: int,
    more: Mapping[str, Array] = MappingProxyType({}),
) -> Array:
    """The same without a look at how large the numbers are; `more` are tensors by their labels."""
    found = _with_sizes(form, V, values, arrays, _FREE[:free], more)[0]
    return numpy.broadcast_to(found, (*V.shape[:-2], *V.shape[-1:] * free)).copy()


def at_members(form: Form, V: Array, values: Mapping[Expr, float], arrays: Mapping[str, Array], free: int) -> Array:
    """The same, of size 1 along what nothing depends on: a free index that arrays alone hold may count heads."""
    return _with_sizes(form, V, values, arrays, _FREE[:free], free_are_tokens=False)[0]


def _with_sizes(
    form: Form,
    V: Array,
    values: Mapping[Expr, float],
    arrays: Mapping[str, Array],
    indices: tuple[int, ...],
    more: Mapping[str, Array] = MappingProxyType({}),
    free_are_tokens: bool = True,
) -> tuple[Array, Array]:
    """A form with some indices left as dimensions, of size 1 where nothing depends on them, and its largest term."""
    m, free = V.shape[-1], len(indices)
    total = size = numpy.zeros((*V.shape[:-2], *(1,) * free))
    known = {"V": V, **kernels(V), **arrays, **more}
    for factors, number in zip(form.terms, numbers(form, values), strict=True):
        for label, held, _ in factors:
            if label[0] in ARRAYS:
                sizes = zip(arrays[label].shape, held, strict=True)
                # einsum would say as much, but of letters that the caller has never seen
                other = next((s for s, i in sizes if _is_token(i, factors, free_are_tokens) and s != m), None)
                if other is not None:
                    raise EvaluationError(f"V is for {m} tokens, the constant arrays for {other}.")
            # kept for the other terms: a Gaussian mean stands in many
            elif label not in known:
                known[label] = gaussian_mean(label, V, values, arrays)
        term = number * at_indices(factors, known.__getitem__, indices, optimize=len(factors) > 2)
        total, size = total + term, numpy.maximum(size, abs(term))
    return total, size


def _largest(values: Array, free: int) -> Array:
    """The largest of the last dimensions."""
    return numpy.abs(values).max(axis=tuple(range(-free, 0)), initial=0.0)


def _is_token(index: int, factors: Factors, free: bool) -> bool:
    """Whether an index runs over tokens, as `free` ones may by themselves, others where a covariance has them too."""
    if not LOCAL <= index < OPEN and (free or index >= 0):
        return index < SPAN
    return any(label[0] not in ARRAYS and index in at for label, at, _ in factors)


def gaussian_mean(label: str, V: Array, values: Mapping[Expr, float], arrays: Mapping[str, Array]) -> Array:
    """A Gaussian mean or a power of a variance at covariance matrices, its tokens as dimensions."""
    definition = definition_of(label)
    assert definition is not None
    tokens = tuple(LOCAL + i for i in range(definition.rank))
    found = (_with_sizes(Form(dict(terms)), V, values, arrays, tokens)[0] for terms in definition.covariances)
    # a covariance that has no term with a token in it came back with size 1 there
    laws = list(numpy.broadcast_arrays(*found))
    if isinstance(definition, Deviation):
        with numpy.errstate(divide="ignore"):
            # a power below zero of a vanishing variance is infinite: `at` refuses it, and paths stop there
            return numpy.asarray(numpy.maximum(laws[0], 0.0) ** (float(definition.power) / 2))
    return numpy.asarray(mean_function(definition, values)(*within_bounds(laws))[0])


def within_bounds(laws: Sequence[Array]) -> list[Array]:
    """The covariances of one or two variables, of two within what their variances allow, which rounding may pass."""
    if len(laws) == 1:
        return [*laws]
    bound = numpy.sqrt(laws[0] * laws[2])
    return [laws[0], numpy.clip(laws[1], -bound, bound), laws[2]]


def mean_function(definition: GaussianMean, values: Mapping[Expr, float]) -> MomentFunction:
    """A Gaussian mean as a function of its covariances, at given constants."""
    variables = tuple(variable(f"u{i}") for i in range(len(definition.functions)))
    integrand = sympy.Mul(*(f.xreplace({U: v}) for f, v in zip(definition.functions, variables, strict=True)))
    held = {s: float(values[s]) for f in definition.functions for s in f.free_symbols - {U}}
    return moments.function.moment(integrand, variables, moments.function.with_constants(held))


def means(
    form: Form, V: Array, values: Mapping[Expr, float], known: Mapping[str, Array], counts: Array | None = None
) -> Array:
    """A form with random factors "Y|…" at one V, averaged over their draws (points, …), which may count differently."""
    m = V.shape[-1]
    total = numpy.zeros((m, m))
    fixed = {"V": V, **kernels(V), **known}
    for factors, number in zip(form.terms, numbers(form, values), strict=True):
        for label, _, _ in factors:
            if label not in fixed:
                fixed[label] = gaussian_mean(label, V, values, known)
        found = at_indices(factors, fixed.__getitem__, (-4, -3), optimize=len(factors) > 2)
        total += number * (found if counts is None else counts[:, None, None] * found).mean(axis=0)
    return total


def polar(V: Array) -> tuple[Array, Array, Array, Array]:
    """√(V_aa V_bb), the correlation, √(1 − ρ²) and arccos ρ of every pair of tokens."""
    root = numpy.sqrt(numpy.diagonal(V, axis1=-2, axis2=-1))
    scale = root[..., :, None] * root[..., None, :]
    with numpy.errstate(invalid="ignore", divide="ignore"):
        # a token of length zero counts as parallel to all: kernels vanish at ρ = 1, where they would be NaN
        rho = numpy.clip(numpy.where(scale > 0, V / scale, 1.0), -1.0, 1.0)
    # 1 − ρ² would cancel near ρ = 1, and arccos ρ lose half of its digits; the sine and arctan2 do not
    sine = numpy.sqrt((1.0 - rho) * (1.0 + rho))
    return scale, rho, sine, numpy.arctan2(sine, rho)


def kernels(V: Array) -> dict[str, Array]:
    """N and √V_aa."""
    root = numpy.sqrt(numpy.diagonal(V, axis1=-2, axis2=-1))
    kernel = folded.of(*polar(V))
    diagonal = numpy.arange(V.shape[-1])
    # ρ = 1 there but for rounding, and N is zero
    kernel[..., diagonal, diagonal] = 0.0
    return {"N": kernel, "s": root, "I": numpy.eye(V.shape[-1])}
