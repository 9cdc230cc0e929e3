"""Drift and diffusion of a covariance at given matrices: each term one contraction of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.limit.depth.arrays import ARRAYS
from tplimits.limit.depth.forms import Form

Array = NDArray[numpy.float64]


def pairs(m: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The pairs α ≤ β in row order.

    >>> [p.tolist() for p in pairs(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return numpy.triu_indices(m)


def covariances(V: Any) -> Array:
    """Arrays of covariance matrices, checked.

    Raises EvaluationError where they are not square, symmetric and finite, or a variance is negative.
    """
    try:
        array = numpy.asarray(V, dtype=numpy.float64)
    except (TypeError, ValueError):
        raise EvaluationError(f"V is a value of type {type(V).__name__}; it is an array of shape (…, m, m).") from None
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] == 0:
        raise EvaluationError(f"V has shape {array.shape}; it is an array of shape (…, m, m).")
    if not numpy.isfinite(array).all():
        raise EvaluationError("V has NaN or infinite entries.")
    largest = float(numpy.abs(array).max())
    if float(numpy.abs(array - numpy.swapaxes(array, -1, -2)).max()) > 1e-9 * max(largest, 1e-300):
        raise EvaluationError("V is not symmetric; a covariance is.")
    if (numpy.diagonal(array, axis1=-2, axis2=-1) < 0).any():
        raise EvaluationError("V has a negative variance.")
    return array


def numbers(form: Form, values: Mapping[Expr, float]) -> list[float]:
    """The coefficients of a form as numbers.

    Raises EvaluationError for a constant without a value.
    """
    missing = sorted({s.name for c in form.terms.values() for s in c.free_symbols - values.keys()})
    if missing:
        raise EvaluationError(f"the constant `{missing[0]}` has no value: give {missing[0]}=….")
    found = []
    for coefficient in form.terms.values():
        number = complex(sympy.N(coefficient.xreplace({s: sympy.Float(v, 17) for s, v in values.items()})))
        if number.imag or not numpy.isfinite(number.real):
            raise EvaluationError(f"the coefficient {coefficient} is not a real number at these constants.")
        found.append(number.real)
    return found


def at(form: Form, V: Array, values: Mapping[Expr, float], arrays: Mapping[str, Array], free: int) -> Array:
    """A form at covariance matrices; `free` tokens are left as dimensions."""
    m = V.shape[-1]
    total = numpy.zeros((*V.shape[:-2], *(m,) * free))
    known = {"V": V, **_kernels(V)}
    for factors, number in zip(form.terms, numbers(form, values), strict=True):
        place = {-4 + i: i for i in range(free)}  # α, β, δ, ω
        operands: list[Any] = [] if factors else [numpy.ones(()), [Ellipsis]]
        for label, held, _ in factors:
            inside = [place.setdefault(i, len(place)) for i in held]
            if label[0] in ARRAYS:
                if set(arrays[label].shape) != {m}:
                    raise EvaluationError(f"V is for {m} tokens, the constant arrays for {arrays[label].shape[0]}.")
                operands += [arrays[label], inside]
            else:
                operands += [known[label], [Ellipsis, *inside]]
        present = sorted({i for f in factors for i in (place[j] for j in f[1]) if i < free})
        value = numpy.einsum(*operands, [Ellipsis, *present], optimize=len(factors) > 2)
        shape = iter(value.shape[value.ndim - len(present) :])
        lead = value.shape[: value.ndim - len(present)]
        total += number * value.reshape((*lead, *(next(shape) if i in present else 1 for i in range(free))))
    return total


def _kernels(V: Array) -> dict[str, Array]:
    """N and √V_aa (see tplimits.limit.depth.activations)."""
    root = numpy.sqrt(numpy.diagonal(V, axis1=-2, axis2=-1))
    scale = root[..., :, None] * root[..., None, :]
    with numpy.errstate(invalid="ignore", divide="ignore"):
        rho = numpy.clip(numpy.where(scale > 0, V / scale, 1.0), -1.0, 1.0)
    # √(1 − ρ²) from the factors: 1 − ρ² loses half of the digits near ρ = 1
    sine = numpy.sqrt((1.0 - rho) * (1.0 + rho))
    kernel = scale * (sine - rho * numpy.arctan2(sine, rho))
    diagonal = numpy.arange(V.shape[-1])
    kernel[..., diagonal, diagonal] = 0.0
    return {"N": kernel, "s": root, "I": numpy.eye(V.shape[-1])}
