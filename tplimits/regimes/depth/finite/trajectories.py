"""Networks of finite width and depth: the covariance along the layers of a block, for many networks at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import CheckError
from tplimits.program.nodes.given import seed_number, whole_number
from tplimits.regimes.depth.finite.chains import ChainSampler
from tplimits.regimes.depth.finite.request import bound_block, layer_count, start

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.finite.layer import Weights


def covariances_of_networks(
    program: Program,
    V0: Any,
    n: int,
    layers: int,
    draws: int,
    seed: int = 0,
    record: bool = False,
    weights: Weights = "law",
    ratios: Mapping[str, float] | None = None,
    fixed: Mapping[str, int] | None = None,
    **given: Any,
) -> Array:
    """V after `layers` layers of width n, (draws, m, m); with `record` along them, (layers + 1, draws, m, m).

    Constants and sizes go by name, `fixed` gives widths that do not grow.  A network whose states overflow holds
    infinities or NaN from there on.

    >>> import numpy, tplimits as tp
    >>> @tp.block
    ... def linear(x: tp.State["token"], W: tp.Matrix):
    ...     return W @ x
    >>> V = covariances_of_networks(linear, numpy.eye(2), n=50, layers=10, draws=3, record=True)
    >>> V.shape, V[0, 0].round(12).tolist()
    ((11, 3, 2, 2), [[1.0, 0.0], [0.0, 1.0]])

    Raises CheckError for a V0 that is no covariance, or a number out of range.
    """
    begin, depth, count = start(V0, program), layer_count(layers), whole_number(draws)
    width = whole_number(n)
    if count is None or count < 1:
        raise CheckError(f"draws={draws!r}: a whole number of networks, 1 or more.")
    if width is None or width < begin.tokens:
        raise CheckError(f"n={n!r}: the width is a whole number, {begin.tokens} or more for as many tokens.")
    bound, values = bound_block(program, begin.tokens, given)
    sampler = ChainSampler(
        bound, begin, None, seed_number(seed, CheckError), weights, ratios, values, dict(fixed or {})
    )
    found = numpy.empty(((depth + 1) if record else 1, count, begin.tokens, begin.tokens))
    size = sampler.batch(width)
    for index, first in enumerate(range(0, count, size)):
        some = slice(first, min(first + size, count))
        for layer, V in enumerate(sampler.along(width, index, some.stop - some.start, depth)):
            found[layer if record else 0, some] = V
    return found if record else found[0]
