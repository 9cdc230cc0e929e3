"""Less noise at no cost in truth: the change of a layer beside random numbers whose moments are known exactly.

To leading order √n·ΔV is a quadratic form in rows of length √n: U, the state without its covariance, and Z, the
random numbers behind each product with a matrix (`tplimits.regimes.depth.finite.layer`).  Their products

    C_ab = n^(−1/2) Σ_i (r_a,i r_b,i − E),   r_a, r_b rows of one width, not both of U,

have mean 0, variance 1 (2 for a = b) and are uncorrelated, at every width.  With y = √n·ΔV and any fixed β,

    E y = E[y − βC],   E y y′ = E[y y′ − (βC)(β′C)] + Σ_c β_c β′_c Var C_c,

and y may be replaced by its mean over the last matrices (`tplimits.regimes.depth.finite.expected`) in the first.
With β from a regression on *other* draws the right sides have a far smaller variance: y − βC is of order n^(−1/2), so
that n·E[ΔV] is known as well from a hundred draws as from 100·n without.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy

from tplimits.arrays import Array

#: draws for each control, in each half: below, the regression adds more noise than it takes away
LEAST_PER_CONTROL = 3


def controls(states: Array, noise: Mapping[str, Sequence[Array]]) -> tuple[Array, Array]:
    """The C_ab of every draw, (draws, controls), and their variances; `states` are the rows U, of width n."""
    values, variances = [], []
    for width, rows in noise.items():
        parts = [states, *rows] if width == "n" else list(rows)
        known = states.shape[1] if width == "n" else 0
        r = numpy.concatenate(parts, axis=1)
        size = r.shape[-1]
        products = r @ numpy.swapaxes(r, -1, -2)
        for a, b in itertools.combinations_with_replacement(range(r.shape[1]), 2):
            if b >= known:
                values.append((products[:, a, b] - size * (a == b)) / numpy.sqrt(size))
                variances.append(2.0 if a == b else 1.0)
    if not values:
        return numpy.zeros((len(states), 0)), numpy.zeros(0)
    return numpy.stack(values, axis=1), numpy.array(variances)


def enough(draws: int, controls: int) -> bool:
    """Whether there are controls, which a matrix that is read twice has not, and draws enough to let them take part."""
    return controls > 0 and draws // 2 >= LEAST_PER_CONTROL * controls


def moments(y: Array, expected: Array, controls: Array, variances: Array) -> tuple[Array, Array]:
    """Values with mean E y, (draws, k), and with mean Cov(y), (draws, k, k).

    A draw has one member or a mirrored pair: y and `expected`, another variable of mean E y, have shape
    (draws, members, k), the controls (draws, members, controls).  Coefficients come from the other half of the draws.
    """
    draws, _, k = y.shape
    first, fitted, exact = expected.copy(), numpy.zeros_like(y), numpy.zeros((draws, k, k))
    if enough(draws, controls.shape[2]):
        half = numpy.arange(draws) % 2 == 1
        for mine in (half, ~half):
            beta = _coefficients(y[~mine], controls[~mine])
            fitted[mine] = controls[mine] @ beta
            exact[mine] = (beta * variances[:, None]).T @ beta
            first[mine] -= controls[mine] @ _coefficients(expected[~mine], controls[~mine])
    mean = first.mean(axis=1)
    products = y[..., :, None] * y[..., None, :] - fitted[..., :, None] * fitted[..., None, :]
    level = mean.mean(axis=0)
    return mean, products.mean(axis=1) + exact - numpy.outer(level, level)


def _coefficients(y: Array, controls: Array) -> Array:
    """Least squares of y on the controls and a constant; (controls, k)."""
    c, y = controls.reshape(-1, controls.shape[-1]), y.reshape(-1, y.shape[-1])
    return numpy.linalg.lstsq(c - c.mean(axis=0), y - y.mean(axis=0), rcond=None)[0]
