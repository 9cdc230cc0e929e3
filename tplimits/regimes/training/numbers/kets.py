"""Kets of the operator regime on particles: drawn once, with the Gram matrices that they have in the limit.

Kets do not move, so that nothing has to be known of a matrix but the law of its images.  Where an image is Gaussian,
its covariance is a kernel between inputs, a number: drawn with that covariance, images do not inherit the noise of
what they are images of, layer after layer.  Other images are drawn as in `execution`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.numbers.columns import AntitheticPopulation, Array, Population
from tplimits.numbers.roots import root
from tplimits.numbers.steep.looking import Looking
from tplimits.program.network.schedules import at_step
from tplimits.program.network.tangent import Tangent
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.evaluate import stream
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, MatMul
from tplimits.program.nodes.parity import signs
from tplimits.program.optimizers.linear import SGD
from tplimits.regimes.kernels.derivation.recursion import Recursion
from tplimits.regimes.kernels.numbers.evaluation import evaluate
from tplimits.regimes.kernels.numbers.request import request
from tplimits.regimes.training.derivation.operand_grams import operand_grams
from tplimits.regimes.training.numbers.averages import shares
from tplimits.regimes.training.numbers.continued import continued
from tplimits.regimes.training.numbers.execution import TrainingExecution, limits_of_widths, particles_by_width

if TYPE_CHECKING:
    from tplimits.numbers.steep.readers import Readers
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.numbers.operator_request import TangentRequest

#: above this share of one particle, and kurtosis, orthogonality to a vector biases means more than their spread shows
_LARGEST_SHARE, _KURTOSIS = 0.01, 8.0


def total_of(asked: TangentRequest) -> tuple[TotalProgram, dict[str, Array]]:
    """The network with its gradients, on multiples of its weights where they decay, and its data at all times."""
    network, X = asked.bound, dict(asked.X)
    if asked.times > 1:
        network, X = (
            asked.operator.decayed.program.sized({a: asked.bound.size(a) for a in asked.bound.all_axes}),
            asked.at_all_times(),
        )
    return TotalProgram(_smooth(network, asked.operator.infinite)), X


@lru_cache(maxsize=8)
def _smooth(network: Program, infinite: tuple[str, ...]) -> Program:
    """The network with a line in place of each removable pole: scalars do not move, and one derivative is asked for."""
    try:
        state = Recursion(network, Tangent(network, {}, len(network)), infinite)
    except NoLimitError:
        return network
    return state.smooth(network, order=1)


def roots(asked: TangentRequest) -> dict[int, Array]:
    """Roots of the exact Gram matrices, by the position of the products whose operands have them."""
    if not asked.white:
        return {}
    total, X = total_of(asked)
    grams = operand_grams(total.backward.program, asked.operator.infinite, asked.operator.assumed)
    found = {}
    for position, tables in grams.items():
        try:
            gram = evaluate(request(tables, X, None, asked.without_biases(asked.values), asked.ratios)).nngp
        except (EvaluationError, NoLimitError):  # no route to the number: these images are drawn as others are
            continue
        found[position] = root(gram)
    return found


class KetExecution(TrainingExecution):
    """Both passes at the start, images drawn from their covariances where these are known."""

    def __init__(self, roots: Mapping[int, Array], *args: Any) -> None:
        self._roots, self._images = roots, dict[int, Array]()
        super().__init__(*args)

    def run_some(self, count: int) -> KetExecution:
        """Only what outputs and gradients rest on: what nobody uses may have no kets, as logits of order √n."""
        with numpy.errstate(all="ignore"):
            for position in range(len(self.arrays), count):
                used = position in self.total.needed
                self.arrays.append(self.read(self.program[position]) if used else numpy.empty(0))
        return self

    def matmul(self, s: MatMul) -> Array:
        position = next((p for p in self._roots if self.program[p] is s), None)
        if position is None:
            return super().matmul(s)
        # a product that is read twice is one Gaussian vector, not two
        if position not in self._images:
            self._images[position] = self._image(s, self._roots[position])
        return self._images[position]

    def _image(self, s: MatMul, root: Array) -> Array:
        """√κ root·z, κ = 1 for W and rows/columns for Wᵀ."""
        matrix = self.program[s.matrix]
        assert isinstance(matrix, InitialMatrix)
        source, target = (matrix.rows, matrix.columns) if s.transposed else (matrix.columns, matrix.rows)
        # fresh columns are orthogonal to all that were seen: what is drawn later is independent of this operand too
        self.see(source, self._vector(s))
        # entries of W have variance 1/columns, so that an image of Wᵀ, a sum over rows, has rows/columns
        scale = (self.width[source] / self.width[matrix.columns]) ** 0.5
        found: Array = scale * (root @ self.columns[target].fresh(len(root)))
        return found[None]

    def see(self, width: str, x: Array) -> None:
        """Vectors that few particles make are left out: what is orthogonal to them is small at these few."""
        flat = x.reshape(-1, x.shape[-1])
        super().see(width, flat[shares(flat) < max(_LARGEST_SHARE, _KURTOSIS / flat.shape[-1])])


class HalvedExecution(KetExecution):
    """Kets whose Gaussian vectors have the other sign in the second half of the particles."""

    population: ClassVar[type[Population]] = AntitheticPopulation


def drawn(
    asked: TangentRequest, roots: Mapping[int, Array], number: int, held: Mapping[int, Array] | None = None
) -> TrainingExecution:
    """Both passes on the particles of one replicate, with some scalars held."""
    total, X = total_of(asked)
    # two blocks at least: left factors are moved on by one
    block = min(asked.block, asked.particles // 2)
    execution = HalvedExecution if _gains_from_halves(asked, total, block) else KetExecution
    rng = stream(asked.seed, 1, number)
    names = [s.name for s in asked.bound if isinstance(s, (InitialMatrix, InitialVector))]
    run = execution(
        roots,
        total,
        # kets do not move; the optimizers of the request act on the operator
        dict.fromkeys(names, SGD()),
        X,
        asked.particles,
        block,
        rng,
        asked.white,
        asked.ratios,
        asked.without_biases(asked.values),
    )
    run.arrays = []
    if held:
        run.held, run.rounding_at = held, 0
    run.run_some(len(total.program))
    return run


def looking(asked: TangentRequest, t: int, readers: Readers, vectors: Mapping[int, Array]) -> Looking:
    """What functions of the kets are looked at with; they are the same at all times."""
    total, X = total_of(asked)
    given = {**at_step(asked.without_biases(asked.values), 0), **X}
    return Looking(continued(total.sized(X)), readers, vectors, limits_of_widths(asked.ratios), asked.ratios, given)


def _gains_from_halves(asked: TangentRequest, total: TotalProgram, block: int) -> bool:
    """Whether some function is neither odd nor even, such as relu; where all are, both halves would say the same."""
    _, particles = particles_by_width({"n": 1.0, **asked.ratios}, asked.particles, block)
    # a half of an odd number is none
    halves = asked.white and all(size % 2 == 0 for size in particles.values())
    return halves and None in signs(total.backward.program, -1, lambda s, sign: -1, {})
