"""Paths of a covariance of two tokens whose variances layers hold: an SDE of the correlation,

    dρ = b(ρ) dt + s(ρ) dB,

b/(1 − ρ) and s/(1 − ρ²) read from polynomials in arccos ρ through their values at Chebyshev's points.  Steps are those
of Euler, of weak order 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy
from numpy.polynomial.chebyshev import Chebyshev, chebpts1

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.progress import Progress, reporting
from tplimits.regimes.depth.expanded.layers import RESOLUTIONS, Layers
from tplimits.regimes.depth.expanded.manifold import Coefficients, coefficients
from tplimits.regimes.depth.numbers.paths import Paths, ended

if TYPE_CHECKING:
    from tplimits.regimes.depth.numbers.settings import Settings

#: values that a polynomial goes through, one number after the other until it is found again between them
_POINTS = (10, 30)
#: how nearly, beside the largest value
_FOUND = 1e-4
#: places between the points where it is looked at, as parts of [0, π]
_BETWEEN = (0.23, 0.71)
#: angles from which polynomials are continued: nearer to 0 and π, tokens are nearly one
_RANGE = (0.1, numpy.pi - 0.1)
#: the first of `RESOLUTIONS` that is tried
_COARSEST = 2
#: a coefficient that is zero, beside the variances
_ZERO = 1e-6


@dataclass(frozen=True)
class Curve:
    """The fixed points with the variances of V, at given numbers."""

    layers: Layers
    V: Array

    def at(self, rho: float) -> Array:
        """V at another correlation."""
        off = rho * numpy.sqrt(self.V[0, 0] * self.V[1, 1])
        return numpy.array([[self.V[0, 0], off], [off, self.V[1, 1]]])

    def _numbers(self, angle: float, layers: Layers) -> tuple[float, float]:
        """b and s² at ρ = cos(angle)."""
        V = self.at(float(numpy.cos(angle)))
        try:
            found: Coefficients | None = coefficients(layers, V)
        except EvaluationError:
            found = None
        largest = float(V.diagonal().max())
        held = found is not None and not (
            numpy.abs(numpy.diag(found.drift)).max() > _ZERO * largest
            or numpy.abs(found.diffusion[[0, 2]]).max() > _ZERO * largest**2
        )
        if found is None or not held:
            raise EvaluationError(
                "paths are drawn where layers hold the variances of two tokens at their values, whatever the "
                f"correlation; at ρ = {float(numpy.cos(angle)):.3g} they do not. Take drift_at and diffusion_at."
            )
        scale = float(numpy.sqrt(V[0, 0] * V[1, 1]))
        return float(found.drift[0, 1]) / scale, float(found.diffusion[1, 1]) / scale**2

    @cached_property
    def _resolved(self) -> Layers:
        """At the first resolution that the next one confirms near ρ = 1, where kinks of two tokens come together."""
        angle, finest = _angles(_POINTS[0])[0], len(RESOLUTIONS) - 1
        before: Array | None = None
        for place in range(min(_COARSEST, finest), finest + 1):
            layers = Layers(self.layers.blocks, place)
            found = numpy.array(self._numbers(angle, layers))
            if before is not None and (numpy.abs(found - before) <= _FOUND).all():
                return Layers(self.layers.blocks, place - 1)
            before = found
        raise EvaluationError("b and s of the correlation are not known to 1e-4 near ρ = 1.")

    @cached_property
    def fitted(self) -> tuple[Chebyshev, Chebyshev]:
        """b/(1 − ρ) and s/(1 − ρ²) as polynomials in arccos ρ; EvaluationError where they are none."""
        layers, known = self._resolved, dict[float, tuple[float, float]]()
        between = numpy.array(_BETWEEN) * numpy.pi
        wanted = numpy.array([self._numbers(a, layers) for a in between])
        for count in _POINTS:
            angles = _angles(count)
            known |= {a: self._numbers(a, layers) for a in angles if a not in known}
            values = numpy.array([known[a] for a in angles])
            scaled = values[:, 0] / (1 - numpy.cos(angles)), numpy.sqrt(values[:, 1]) / numpy.sin(angles) ** 2
            fits = [Chebyshev.fit(angles, v, count - 1, domain=list(_RANGE)) for v in scaled]
            found = numpy.stack([*_coefficients(between, *fits)], axis=1)
            off = numpy.abs(found - wanted ** numpy.array([1, 0.5]))
            if (off <= _FOUND * numpy.abs(found).max(axis=0)).all():
                return fits[0], fits[1]
        raise EvaluationError(
            f"b and s of the correlation are not found again from {_POINTS[-1]} of their values: paths take "
            "coefficients that vanish where tokens are equal. Take drift_at and diffusion_at."
        )

    def run(self, V0: Array, settings: Settings, halves: int, progress: Progress) -> Paths:
        """The paths from a V0 on the curve; `halves` is 2 for the coarse run of a pair with the same noise."""
        steps, every, h = settings.grid(halves)
        fits = self.fitted
        start = float(V0[0, 1] / numpy.sqrt(V0[0, 0] * V0[1, 1]))
        rho = numpy.full(settings.paths, start)
        clipped = numpy.zeros(settings.paths, dtype=numpy.int64)
        noise = numpy.random.default_rng(settings.seed)
        drawn = noise.standard_normal((settings.paths, halves * steps)).reshape(settings.paths, steps, halves)
        kept = [rho]
        with reporting(progress) as report:
            report.plan(steps, "steps")
            for k in range(steps):
                drift, spread = _coefficients(numpy.arccos(rho), *fits)
                moved = rho + h * drift + numpy.sqrt(h / halves) * spread * drawn[:, k].sum(axis=1)
                rho = numpy.clip(moved, -1.0, 1.0)
                clipped += moved != rho
                if every and (k + 1) % every == 0:
                    kept.append(rho)
                report.advance(1)
        history = self._covariances(numpy.stack(kept, axis=1)) if every else numpy.empty((settings.paths, 0, 2, 2))
        never = numpy.full(settings.paths, -1)
        return ended(self._covariances(rho), settings.T, h, "euler", never, clipped, settings.seed, history, every)

    def _covariances(self, rho: Array) -> Array:
        found = numpy.empty((*rho.shape, 2, 2))
        found[..., :, :] = numpy.diag(numpy.diag(self.V))
        found[..., 0, 1] = found[..., 1, 0] = rho * numpy.sqrt(self.V[0, 0] * self.V[1, 1])
        return found


def _angles(count: int) -> Array:
    low, high = _RANGE
    return (low + (high - low) * (chebpts1(count) + 1) / 2).round(12)


def _coefficients(angle: Array, drift: Chebyshev, spread: Chebyshev) -> tuple[Array, Array]:
    """b and s from what they are multiples of."""
    return drift(angle) * (1 - numpy.cos(angle)), spread(angle) * numpy.sin(angle) ** 2
