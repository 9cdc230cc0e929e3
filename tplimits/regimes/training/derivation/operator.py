"""The operator 𝒦_Q of a network in the NTP (Yang & Littwin, Thms 2.4.7, 2.9.19, 2.9.23), derived anew.

With |x⟩ the forward kets, |dx⟩ those of the backpropagation program and χ_s the error signals, let

    G_s = Σ_{uses z = W x} Σ_a χ_s^a |dz^a⟩⟨x^a| + Σ_{uses z = Wᵀ x} Σ_a χ_s^a |x^a⟩⟨dz^a|

be the gradient of a matrix at step s: all its uses stand inside one update.  Then

    f_{t+1} = f_t − η 𝒦(χ_0, …, χ_t)
    𝒦^a = Σ_W Σ_uses ⟨dz^a| Q_t(G_0, …, G_t) |x^a⟩ + Σ_v ⟨dv^a| Q_t(…, Σ_b χ_s^b |dv^b⟩)⟩,

and an output bias σ b adds σ Q_t(…, σ Σ_b χ_s^b).  Kets do not move; f_0 is Gaussian with covariance ⟨x|x⟩.

Normalised and clipped updates are Q_t/ν_t (Sec. 2.10.2): each parameter has its own norm ν_t, of Q_t or of the weights,
which are (1 − λ)^t times those at the start.  For linear Q it is the norm of error signals in the parameter's kernel.

With weight decay λ kets are those of the weights (1 − λ)^t θ_0, and with f^dec the outputs of that network

    f_{t+1} = f^dec_{t+1} − η Σ_{s≤t} (1 − λ)^(t−s) Σ ⟨dz_{t+1}| Q_s |x_{t+1}⟩,

where every parameter may have a λ of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.universality import refuse_orthogonal
from tplimits.program.network.backward import Backward, backpropagation
from tplimits.program.network.decayed import Decayed, decayed
from tplimits.program.network.parameters import refuse_laws_of_biases
from tplimits.program.network.tangent import Tangent
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar
from tplimits.regimes.kernels.derivation.derivation import KernelTables, derive_kernels
from tplimits.regimes.kernels.derivation.recursion import Recursion
from tplimits.regimes.training.derivation import by_parameter
from tplimits.regimes.training.derivation.jumps import held_behind, refuse_jumps

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer


@dataclass(frozen=True, eq=False)
class TangentOperator:
    """What the operator of a network rests on.

    `network` is the readout without scalars, `kernels` its NNGP and NTK; `held` are scalar parameters inside it, which
    keep their values, `biases` those that are added to the output; `decayed` is the network on multiples of its
    weights.
    """

    whole: Program
    network: Program
    optimizers: Mapping[str, Optimizer]
    weight_decay: Mapping[str, float]
    infinite: tuple[str, ...]
    kernels: KernelTables
    trained: tuple[str, ...]
    biases: tuple[str, ...]
    held: tuple[str, ...]
    #: names of doubts that the user has taken on himself
    assumed: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        decays = dict(self.weight_decay)
        return derive_tangent, (self.whole, dict(self.optimizers), decays, self.infinite, self.assumed)

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer of all parameters, None if they have several."""
        first, *rest = self.optimizers.values()
        return first if all(o == first for o in rest) else None

    @property
    def is_linear(self) -> bool:
        """Whether all updates are linear in the gradients."""
        return all(o.is_linear for o in self.optimizers.values())

    @property
    def is_by_kernel(self) -> bool:
        """Whether tangent kernels give the outputs: all updates linear in the gradients, but for norms that divide.

        The norm of each member of a family of matrices, and that of biases in training, are not in a kernel.
        """
        return all(self._is_by_kernel(name, optimizer) for name, optimizer in self.optimizers.items())

    def _is_by_kernel(self, name: str, optimizer: Optimizer) -> bool:
        s = self.whole[self.whole.initial_names[name]]
        inner = optimizer.entry_by_entry("matrix")
        if inner is None or not inner.is_linear:
            return False
        if optimizer.divides_by is None:
            return True
        # a kernel sums over the members of a family, of which each has a norm of its own
        return not (isinstance(s, InitialMatrix) and s.axes) and not (
            name in self.biases and optimizer.divides_by == "weight"
        )

    @property
    def lost(self) -> tuple[str, ...]:
        """Hypotheses that the optimizers lose."""
        return tuple(dict.fromkeys(f"{o}: {o.lost_hypothesis}" for o in self.optimizers.values() if o.lost_hypothesis))

    def kernels_of(self, names: tuple[str, ...], static: bool) -> KernelTables:
        """Kernels with some of the parameters trained, of the network or of multiples of its weights."""
        names = tuple(n for n in names if n in self.trained)
        # the kernels of the derivation itself: no second one for what is asked most
        if names == self.trained:
            return self.kernels if static else self.decayed_kernels
        return derive_kernels(self.network if static else self.decayed.program, names, self.infinite, self.assumed)

    @cached_property
    def backward(self) -> Backward:
        """The network with its gradients, the scalars added to its output included."""
        return backpropagation(self.whole)

    @cached_property
    def kets(self) -> Recursion | None:
        """The kets of both passes, None where a mean they need is not offered."""
        program = self.backward.program
        try:
            return Recursion(program, Tangent(program, {}, len(program)), self.infinite, assumed=self.assumed)
        except NoLimitError:
            return None

    def has_dot_part(self, position: int) -> bool:
        """Whether an image of the total program is more than a Gaussian vector, as far as is known."""
        return self.kets is None or self.kets.nodes[position].body is not None

    @cached_property
    def decayed(self) -> Decayed:
        """The network on multiples of its trained weights."""
        return decayed(self.network, list(self.shrinking.values()))

    @cached_property
    def shrinking(self) -> dict[float, tuple[str, ...]]:
        """Parameters of the network by their decays, without those that do not decay."""
        found: dict[float, tuple[str, ...]] = {}
        for name in self.trained:
            # one multiple for all that shrink alike: each is one more input of the decayed network
            if λ := self.weight_decay[name]:
                found[λ] = (*found.get(λ, ()), name)
        return found

    @property
    def decay(self) -> float | None:
        """The decay of all parameters, None if they have several."""
        first, *rest = self.weight_decay.values()
        return first if all(λ == first for λ in rest) else None

    @cached_property
    def decayed_kernels(self) -> KernelTables:
        """Its kernels, between any two multiples."""
        return derive_kernels(self.decayed.program, self.trained, self.infinite, self.assumed)


def derive_tangent(
    network: Program,
    optimizer: Any,
    weight_decay: Any = 0,
    infinite: tuple[str, ...] = (),
    assumed: tuple[str, ...] = (),
) -> TangentOperator:
    """The operator of a network, its hypotheses checked; optimizer and decay are one for all parameters, or by name.

    Raises ProgramError for what is no optimizer or decay, and NoLimitError, with the hypothesis that fails, for scalar
    parameters inside the network without a value, for jumps that gradients would have to pass, for a readout that is no
    sum of products with fresh vectors, for random logits of finitely many heads, and for nonlinear updates with axes of
    infinitely many members.
    """
    held = _held(network)
    refuse_orthogonal(network, trained=True)
    # of all that is returned first: its refusals are those of the whole network
    kernels = derive_kernels(network, None, infinite, assumed)
    biases = _biases(network)
    # what is added to the output without vectors has gradients of its own, and no part in the kernel of the readout
    names = (*(t for t in kernels.trained if t not in biases), *biases)
    optimizers = FrozenDict(by_parameter.optimizers(network, names, optimizer, "tp.NeuralTangent"))
    exact = by_parameter.decays(network, optimizers, weight_decay, "tp.NeuralTangent")
    decays = FrozenDict({name: float(λ) for name, λ in exact.items()})
    train = None
    if kernels.no_ntk:
        optimizers = FrozenDict(held_behind(network, optimizers, decays))
        train = tuple(name for name in names if decays[name] or not optimizers[name].is_still)
        refuse_jumps(network, train, "2.9.23")
        kernels = derive_kernels(network, train, infinite, assumed)
        if kernels.no_ntk:
            raise NoLimitError(f"`{network.name}` has no tangent kernel and no operator: {kernels.no_ntk}")
    if kernels.is_mixture:
        raise NoLimitError(
            f"`{network.name}`: with a fixed number of heads, logits q·k/√n stay random and move by a finite amount in "
            "every step, as scalar parameters do (hypothesis: no fluctuation inside the forward pass): no operator "
            "describes the training. Divide logits by n, or send the heads to infinity: infinite=(…)."
        )
    bare = network.replace(returns=network.returns[:1])
    if len(network.returns) > 1:
        _same_axes(network)
        kernels = derive_kernels(bare, train and tuple(t for t in train if t not in biases), infinite, assumed)
    trained = tuple(t for t in kernels.trained if t not in biases)
    found = TangentOperator(network, bare, optimizers, decays, infinite, kernels, trained, biases, held, assumed)
    if infinite and not found.is_linear:
        raise NoLimitError(
            f"`{network.name}`: with infinitely many members along {', '.join(infinite)} the operator is offered for "
            "updates that are linear in the gradients, tp.SGD with or without momentum."
        )
    return found


def _held(network: Program) -> tuple[str, ...]:
    """Scalar parameters inside the network, which have to have values."""
    behind = networkx.ancestors(network.graph, network.returns[0])
    found = []
    for position, s in enumerate(network):
        if isinstance(s, InitialScalar) and position not in network.inputs and position in behind:
            if s.value is None:
                raise NoLimitError(
                    f"{network.where(position)}: the scalar parameter `{s.name}` stands inside the network. Its "
                    "gradient is a fluctuation of order 1, so that training moves it by a finite amount (hypothesis: "
                    "scalar parameters are output biases alone). Give it a value, at which it is held: "
                    f"`{s.name}: tp.Scalar = 1`."
                )
            found.append(s.name)
    return tuple(found)


def _biases(network: Program) -> tuple[str, ...]:
    """Scalar parameters that are added to the output."""
    if len(network.returns) == 1:
        return ()
    behind = sorted(network.behind(network.returns[1:]))
    found = [p for p in behind if isinstance(network[p], InitialScalar) and p not in network.inputs]
    refuse_laws_of_biases(network, found)
    return tuple(network[p].name for p in found)


def _same_axes(network: Program) -> None:
    vector, shift = (network[p] for p in network.returns)
    more = [a for a in shift.axes if a not in vector.axes]
    if more:
        raise NoLimitError(
            f"{network.where(network.returns[1])}: what is added to the readout has the axis `{more[0]}`, which the "
            "readout lacks; give the readout vector this axis."
        )
