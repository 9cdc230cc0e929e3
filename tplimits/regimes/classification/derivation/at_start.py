"""Whether a network has the limit at its start that its powers of n are counted for: the hypotheses, asked of it.

Powers say how large entries are, and not whether they settle: sign(θ) with θ → 0 is of order 1 and has no limit, and
1/h has entries of order 1 without a second moment.  The recursion of kernels asks jumps, poles, roots, moments and
fluctuations, training moments of gradients; what data decide there is open here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from tplimits.errors import NoLimitError, TplimitsError
from tplimits.law.hypotheses.tails import InfiniteMoment
from tplimits.numbers.budget import operations
from tplimits.program.language.without_names import without_names
from tplimits.program.network.tangent import Tangent
from tplimits.program.network.zeros import total_of
from tplimits.program.nodes.kinds import Nonlin
from tplimits.regimes.kernels.derivation.recursion import Recursion
from tplimits.regimes.training.derivation.square_integrable import after_a_step, judged

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.kernels.derivation.derivation import KernelTables

#: instructions forward and backward, and operations in their bodies beyond so many instructions: a minute and less
LARGEST, _LONGEST, _FEW = 400, 1500, 60


@dataclass(frozen=True)
class AtStart:
    """The hypothesis that fails, in the words of the error; why else nothing is derived; the names of open doubts.

    kets: those of both passes, where functions are such that their moments are asked for.
    """

    failing: str = ""
    underived: str = ""
    doubts: tuple[str, ...] = ()
    kets: KernelTables | None = field(default=None, repr=False, compare=False)

    def lines(self) -> list[str]:
        """What a classification prints of it: nothing where all hypotheses hold."""
        if self.failing or self.underived:
            return [f"no limit at the start is derived: {self.failing or self.underived}"]
        return [f"not established at the start without data: {', '.join(self.doubts)}"] if self.doubts else []

    def refuse_exponentials(self, optimizers: Mapping[str, Optimizer]) -> None:
        """NoLimitError where what features are of moves by order 1, and their moments are lost."""
        for doubt in after_a_step(self.kets, optimizers) if self.kets is not None else ():
            raise NoLimitError(f"features move, and powers of n are not those of entries. {doubt}.")


@lru_cache(maxsize=32)
def at_start(network: Program, trained: tuple[str, ...]) -> AtStart:
    """The hypotheses of a network before training, and of its gradients.

    >>> import tplimits as tp
    >>> @tp.network
    ... def crossed(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
    ...     x = tp.sum(U * ξ, over="d")
    ...     return v * x * tp.sign(tp.avg(x * y))
    >>> "lands on a jump of `sign`" in at_start(crossed, ("v",)).failing
    True

    Raises InfiniteMoment: what is counted would not be the powers that averages have.
    """
    if (large := _too_large(total_of(network).program)) is not None:
        return AtStart(underived=f"jumps, poles and moments of more than {large} are not looked at.")
    found = _looked_at(network, trained)
    if (
        found.failing
    ):  # as what is derived: by a name that it is called a value may have no limit, and none is asked of it
        with suppress(TplimitsError):
            written = without_names(network)
            again = _looked_at(written, trained) if len(written) < len(network) else found
            return found if again.failing or again.underived else again
    return found


def _looked_at(network: Program, trained: tuple[str, ...]) -> AtStart:
    tangent = Tangent(network, {}, len(network))
    recursion = Recursion(network, tangent, outputs=())
    try:
        for position in range(len(network)):
            recursion.walk(position)
        kets = judged(network, trained)
    except InfiniteMoment:
        raise
    except NoLimitError as error:
        return AtStart(str(error)) if recursion.judged.failed else AtStart(underived=str(error))
    return AtStart(doubts=tuple(recursion.judged.doubtful()), kets=kets)


def _too_large(program: Program) -> str | None:
    """What there is too much of."""
    if len(program) > LARGEST:
        return f"{LARGEST} instructions"
    bodies = (s.body for s in program if isinstance(s, Nonlin))
    # derivatives of a body of many terms are as long, one for each
    return f"{_LONGEST} operations" if len(program) > _FEW and sum(map(operations, bodies)) > _LONGEST else None
