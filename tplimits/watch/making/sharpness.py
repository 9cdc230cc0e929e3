"""The largest eigenvalue of the Hessian of the loss, by Lanczos on differences of gradients.

In a parametrization by widths a step of plain gradient descent moves each parameter W by η p ∂L/∂W, p a power of the
width.  The Hessian is that of the coordinates W/√p, in which it moves all parameters by η ∂L: its largest eigenvalue λ
means the same at every width, gradient descent being stable as long as η λ < 2.

Where functions have kinks the Hessian is that between them, and a difference of gradients that steps over one is wrong
by a jump over the length of the step.  Shorter steps pass fewer kinks, and are wronger by each: what two lengths agree
on passed none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy
import scipy.sparse.linalg
from numpy.typing import NDArray

from tplimits.errors import EvaluationError

Array = NDArray[numpy.float64]
#: differences of gradients are taken over this part of the length of all parameters, over shorter ones at kinks
_STEP, _SHORTER = 1e-6, (1e-7, 1e-8, 1e-9, 1e-10)
#: how near two lengths come to one another
_NEAR = 2e-3
#: with so few parameters the whole matrix is made
_FEW = 24


def sharpness(
    gradients: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    parameters: Mapping[str, Array],
    speeds: Mapping[str, float],
    where: str,
    kinks: bool = False,
) -> float:
    """λ at some parameters; `speeds` are the powers p of each, `kinks` says whether gradients may jump.

    `where` is said in the EvaluationError of Lanczos, and where every step passes a kink.
    """
    roots = {name: math.sqrt(speeds[name]) for name in parameters}
    center = numpy.concatenate([(w / roots[name]).ravel() for name, w in parameters.items()])

    def gradient(u: Array) -> Array:
        at, found = 0, {}
        for name, w in parameters.items():
            found[name] = roots[name] * u[at : at + w.size].reshape(w.shape)
            at += w.size
        g = gradients(found)
        return numpy.concatenate([(roots[name] * g[name]).ravel() for name in parameters])

    before = _largest(gradient, center, _STEP, where)
    for step in _SHORTER if kinks else ():
        found = _largest(gradient, center, step, where)
        if abs(found - before) <= _NEAR * abs(found):
            return found
        before = found
    if kinks:
        raise EvaluationError(
            f"the largest eigenvalue of the Hessian was not found {where}: every step around the parameters passes a "
            "kink. Give sharpness=False, or smooth functions such as tp.gelu and tp.softplus."
        )
    return before


def _largest(gradient: Callable[[Array], Array], center: Array, step: float, where: str) -> float:
    """The largest eigenvalue of the matrix of differences of gradients."""
    length = step * (1 + float(numpy.linalg.norm(center)))

    def times(v: Array) -> Array:
        v = numpy.ravel(v)
        size = float(numpy.linalg.norm(v))
        if size == 0:
            return v
        h = length / size
        found: Array = (gradient(center + h * v) - gradient(center - h * v)) / (2 * h)
        return found

    if len(center) <= _FEW:
        matrix = numpy.array([times(e) for e in numpy.eye(len(center))])
        return float(numpy.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
    start = numpy.random.default_rng(0).standard_normal(len(center))
    operator = scipy.sparse.linalg.LinearOperator((len(center),) * 2, matvec=times, dtype=numpy.float64)
    try:
        found = scipy.sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)
    except scipy.sparse.linalg.ArpackError:  # with it, no convergence
        raise EvaluationError(
            f"the largest eigenvalue of the Hessian was not found {where}: give sharpness=False."
        ) from None
    return float(found[0])
