"""Whether a network has the limit at its start that its powers of n are counted for: the hypotheses, asked of it.

Powers say how large entries are, and not whether they settle: sign(θ) with θ → 0 is of order 1 and has no limit, and
1/h has entries of order 1 without a second moment.  The recursion of kernels asks jumps, poles, roots, moments and
fluctuations; what data decide there is open here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tplimits.errors import NoLimitError
from tplimits.program.network.tangent import Tangent
from tplimits.regimes.classification.derivation.means import LARGEST
from tplimits.regimes.kernels.derivation.recursion import Recursion

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class AtStart:
    """The hypothesis that fails, in the words of the error; why else nothing is derived; the names of open doubts."""

    failing: str = ""
    underived: str = ""
    doubts: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What a classification prints of it: nothing where all hypotheses hold."""
        if self.failing or self.underived:
            return [f"no limit at the start is derived: {self.failing or self.underived}"]
        return [f"not established at the start without data: {', '.join(self.doubts)}"] if self.doubts else []


@lru_cache(maxsize=32)
def at_start(network: Program) -> AtStart:
    """The hypotheses of a network before training; none are asked of large ones.

    >>> import tplimits as tp
    >>> @tp.network
    ... def crossed(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
    ...     x = tp.sum(U * ξ, over="d")
    ...     return v * x * tp.sign(tp.avg(x * y))
    >>> "lands on a jump of `sign`" in at_start(crossed).failing
    True
    """
    if len(network) > LARGEST:
        return AtStart()
    tangent = Tangent(network, {}, len(network))
    recursion = Recursion(network, tangent, outputs=())
    try:
        for position in range(len(network)):
            recursion.walk(position)
    except NoLimitError as error:
        return AtStart(str(error)) if recursion.judged.failed else AtStart(underived=str(error))
    return AtStart(doubts=tuple(recursion.judged.doubtful()))
