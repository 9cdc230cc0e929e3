"""Means of products of powers of Gaussian variables that are given their means, node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tplimits.law.closed_forms.isserlis import by_parts

if TYPE_CHECKING:
    from tplimits.numbers.frame import Array


def monomial_mean(
    means: list[Array], covariance: list[list[float]], powers: tuple[int, ...], known: dict[tuple[int, ...], Any]
) -> Any:
    """E Π (m_i + r_i)^p_i with r ~ N(0, covariance): one factor is its mean, or integrated by parts.

    `known` holds those that were found: without it x^200 would take Fibonacci's number of them.
    """
    if powers not in known:
        known[powers] = _lowered(means, covariance, powers, known)
    return known[powers]


def _lowered(
    means: list[Array], covariance: list[list[float]], powers: tuple[int, ...], known: dict[tuple[int, ...], Any]
) -> Any:
    first = next((i for i, p in enumerate(powers) if p), None)
    if first is None:
        return 1.0
    rest = (*powers[:first], powers[first] - 1, *powers[first + 1 :])
    total = means[first] * monomial_mean(means, covariance, rest, known)
    for c, lower in by_parts(powers, covariance):
        total = total + c * monomial_mean(means, covariance, lower, known)
    return total
