"""The kernels of a network at infinite width as a user sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from tplimits import stages
from tplimits.errors import EvaluationError, ProgramError
from tplimits.limit.kernels.derivation import KernelTables, derive_kernels
from tplimits.limit.kernels.leaves import DrawMean
from tplimits.limit.kernels.nodes import Table
from tplimits.program.given import named_once
from tplimits.program.network import parameters
from tplimits.program.program import Program
from tplimits.progress import Progress
from tplimits.results.kernel_inference import Inference
from tplimits.results.kernel_mixture import Mixture

if TYPE_CHECKING:
    from tplimits.numeric.kernels.evaluation import KernelPair


@dataclass(frozen=True)
class Kernels:
    """The regime of the kernels at initialisation: NNGP, and NTK of the parameters in `train` (None: of all).

    Axes in `infinite` have infinitely many independent members, such as attention heads.
    """

    train: tuple[str, ...] | None = None
    infinite: tuple[str, ...] = ()


def _names(value: Any, option: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else None
    if names is None or not all(isinstance(n, str) for n in names):
        raise ProgramError(f'tp.Kernels({option}={value!r}): give names, as in {option}=("W",).')
    return names


def derive_kernel_limit(network: Program, regime: Kernels) -> KernelLimit:
    """NNGP and NTK of a network."""
    known = parameters(network)
    train = None if regime.train is None else _names(regime.train, "train")
    for name in train or ():
        if name not in known:
            raise ProgramError(
                f"tp.Kernels(train=…): `{name}` is no parameter of `{network.name}`; it has {', '.join(known)}."
            )
    infinite = _names(regime.infinite, "infinite")
    for axis in infinite:
        if axis not in network.all_axes:
            has = ", ".join(network.all_axes) or "none"
            raise ProgramError(f"tp.Kernels(infinite=…): `{axis}` is no finite axis of `{network.name}`; it has {has}.")
    return KernelLimit(network, Kernels(train, infinite), derive_kernels(network, train, infinite))


@dataclass(frozen=True)
class KernelLimit(Inference, Mixture):
    """NNGP K(ξ, ξ′) and tangent kernel Θ(ξ, ξ′) of a network as recursions over tables of pairs of inputs."""

    program: Program
    regime: Kernels
    derivation: KernelTables = field(repr=False, compare=False)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The recursion: every table with its definition, in the order of evaluation."""
        return self.derivation.needed

    @property
    def trained(self) -> tuple[str, ...]:
        """The parameters whose training the NTK describes."""
        return self.derivation.trained

    @property
    def is_drawn(self) -> bool:
        """Whether numbers come from draws of random logits, with standard errors."""
        return any(t.definition.has(DrawMean) for t in self.tables)

    def contribution(self, *names: str) -> KernelLimit:
        """The same kernels with only some parameters trained: their part of the NTK."""
        return derive_kernel_limit(self.program, Kernels(names, self.regime.infinite))

    def evaluate(
        self,
        X1: Any,
        X2: Any = None,
        *,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        draws: int = 1024,
        replicates: int = 8,
        seed: int = 0,
        progress: Progress = None,
        out: str | PathLike[str] | None = None,
        **named: Any,
    ) -> KernelPair:
        """Gram matrices of two batches of inputs: (N1, N2, *axes, *axes), without axes of independent outputs.

        `X2=None` means X1.  Data is an array (N, *axes), or a dictionary of them where the network takes several;
        constants go by name.  `draws`, `replicates` and `seed` matter where logits are random.
        `out="gram"` writes gram.nngp.npy and gram.ntk.npy, which appear once they are complete, and maps them.

        Raises EvaluationError for a wrong shape, NaN, no input, a missing constant, kernels that are not finite.
        """
        given = named_once(constants, named, "evaluate()", EvaluationError)
        numbers = stages.kernels()
        asked = numbers.request(self.derivation, X1, X2, given, ratios)
        pair: KernelPair = numbers.evaluate(asked, draws, replicates, seed, progress, out)
        return pair
