"""Scalars from outside that are random by 1/√n."""

from __future__ import annotations

from dataclasses import dataclass

from tplimits.arrays import Array


@dataclass(frozen=True)
class Given:
    """Scalars θ at width n: E θ = value + root/√n + shift/n, Cov(θ, θ′) = covariance/n."""

    value: Array
    root: Array
    shift: Array
    covariance: Array
