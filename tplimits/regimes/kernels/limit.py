"""The kernels of a network at infinite width as a user sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from sympy import Expr

from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.law.at_constants import at_zeros
from tplimits.program.language.tracing import exact
from tplimits.program.network.parameters import infinite_axes, refuse_others
from tplimits.program.nodes.given import named_once, names_of, whole_number
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes.kernels import first_order, report
from tplimits.regimes.kernels import numbers as kernels
from tplimits.regimes.kernels.claims import kernel_verdict
from tplimits.regimes.kernels.derivation.closing import closed_form
from tplimits.regimes.kernels.derivation.derivation import KernelTables, derive_kernels
from tplimits.regimes.kernels.inference import OfData
from tplimits.regimes.kernels.mixture import Mixture
from tplimits.regimes.kernels.stored import StoredKernels
from tplimits.regimes.protocol import CheckAsked, Shown, refuse_unknown_doubts
from tplimits.report.written import KERNELS, Written

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.program.nodes.program import Program
    from tplimits.progress import Progress
    from tplimits.regimes.kernels.derivation.nodes import KernelTable
    from tplimits.regimes.kernels.first_order.evaluation import FirstOrder
    from tplimits.regimes.kernels.first_order.perceptron import Perceptron
    from tplimits.regimes.kernels.numbers.request import GramRequest, KernelPair, NNGPAlone
    from tplimits.regimes.kernels.report.outline import Outline
    from tplimits.report.latex_formulas import Formula
    from tplimits.sampling.verdict import Verdict


@dataclass(frozen=True)
class Kernels:
    """The regime of the kernels at initialisation: NNGP, and NTK of the parameters in `train` (None: of all).

    `train` may give each a rate: with {"W": r, "v": s} the tangent kernel is r Θ_W + s Θ_v: the scale of gradients is
    apart from that of entries.  In the standard parametrization the weights σ W with entries N(0, σ²/N) are trained
    themselves, at a base width N, and biases σ b: their rates are N/σ² and 1/σ².

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.relu(tp.sum(U * ξ, over="d"))
    >>> tp.derive(net, tp.Kernels(train={"U": 1, "v": 64})).evaluate([[1.0]]).ntk.item()
    32.5

    Axes in `infinite` have infinitely many independent members, such as attention heads.  Scalar parameters that are
    added to the output are trained like others; those that stand inside the network are held at their values.

    With `order=1` kernels come with the coefficients of 1/n in their means and variances over networks of width n, for
    perceptrons; NoLimitError for other networks.

    >>> K = tp.derive(net, tp.Kernels(order=1)).evaluate([[1.0]])
    >>> K.nngp.item(), K.nngp_bias.item(), round(K.nngp_variance.item(), 9)  # relu(g)⁴ has the mean 3/2
    (0.5, 0.0, 1.25)
    """

    train: tuple[str, ...] | Mapping[str, Any] | None = None
    infinite: tuple[str, ...] = ()
    order: int = 0
    word: ClassVar[str] = "kernels"
    formerly: ClassVar[str | None] = None
    takes: ClassVar[str] = "network"
    options: ClassVar[tuple[str, ...]] = ("train", "infinite")
    inputs: ClassVar[tuple[str, ...] | None] = ("X1", "X2", "replicates")

    def derive(self, program: Program) -> KernelLimit:
        """The recursion; ProgramError for names that the network does not have."""
        return derive_kernel_limit(program, self)


def _rate(name: str, value: Any) -> Expr:
    """The factor of the squared gradient of a parameter."""
    try:
        rate = exact(value)
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"tp.Kernels(train={{{name!r}: {value!r}}}): {error}; a rate is a positive number."
        ) from None
    if not (rate.is_number and rate.is_positive):
        raise ProgramError(f"tp.Kernels(train={{{name!r}: {value!r}}}): a rate is a positive number.")
    return rate


def derive_kernel_limit(network: Program, regime: Kernels, assumed: tuple[str, ...] = ()) -> KernelLimit:
    """NNGP and NTK of a network."""
    train: Any = regime.train
    if train is not None:
        names = names_of("train", tuple(train) if isinstance(train, Mapping) else train, ProgramError)
        refuse_others(network, names, "tp.Kernels(train=…)", ProgramError)
        train = {n: _rate(n, train[n]) for n in names} if isinstance(train, Mapping) else tuple(dict.fromkeys(names))
    infinite = infinite_axes(network, regime.infinite)
    if whole_number(regime.order) not in (0, 1):
        raise ProgramError(
            f"tp.Kernels(order={shown(regime.order)}): order=0 is the limit, order=1 adds terms of order 1/n."
        )
    derived = derive_kernels(network, train, infinite, assumed)
    layers = first_order.perceptron.perceptron(derived.network) if regime.order else None
    return KernelLimit(network, Kernels(train, infinite, regime.order), derived, assumed, layers)


@dataclass(frozen=True)
class KernelLimit(OfData, Mixture, Written):
    """NNGP K(ξ, ξ′) and tangent kernel Θ(ξ, ξ′) of a network as recursions over tables of pairs of inputs."""

    program: Program
    regime: Kernels
    derivation: KernelTables = field(repr=False, compare=False)
    #: names of doubts that the user has taken on himself
    assumed: tuple[str, ...] = ()
    #: the layers of a perceptron whose kernels are asked for to order 1/n
    layers: Perceptron | None = field(default=None, repr=False, compare=False)
    check_keywords: ClassVar[tuple[str, ...]] = ("X1", "X2")
    _format: ClassVar[str] = KERNELS
    _template: ClassVar[str] = "kernel_limit.html"

    @property
    def tables(self) -> tuple[KernelTable, ...]:
        """The recursion: every table with its definition, in the order of evaluation."""
        return self.derivation.needed

    @property
    def demand(self) -> tuple[str, ...]:
        """Which entries of each table between two inputs the kernels ask for; nothing else is computed.

        >>> import tplimits as tp
        >>> @tp.network
        ... def net(ξ: tp.Input["d", "at"], U: tp.Vector["d"], v: tp.Vector["at"]):
        ...     x = tp.relu(tp.sum(U * ξ, over="d"))
        ...     return tp.sum(v * x, over="at")
        >>> print(*tp.derive(net, tp.Kernels()).demand, sep="\\n")
        K_{x argument} at equal at
        K_x at equal at
        Θ_x at equal at
        """
        return report.text.demand(self.outline, self.derivation)

    @property
    def trained(self) -> tuple[str, ...]:
        """The parameters whose training the NTK describes; scalars inside the network are held fixed, never trained."""
        return self.derivation.trained

    @property
    def is_drawn(self) -> bool:
        """Whether numbers come from draws of random logits, with standard errors."""
        return self.derivation.is_drawn

    def contribution(self, *names: str) -> KernelLimit:
        """The same kernels with only some parameters trained: their part of the NTK."""
        rates = {n: r for n, r in self.derivation.rates.items() if n in names}
        for name in names if self.derivation.rates else ():
            if name not in rates:
                raise ProgramError(f"contribution({name!r}): it is not trained, tp.Kernels(train={set(self.trained)}).")
        return derive_kernel_limit(self.program, replace(self.regime, train=rates or names), self.assumed)

    def assuming(self, names: Sequence[str]) -> KernelLimit:
        """The same limit, with doubts that are named taken on by the user; ProgramError for a name that is no doubt."""
        refuse_unknown_doubts(self.program, names, self.derivation.recursion.judged.doubtful())
        return derive_kernel_limit(self.program, self.regime, tuple(dict.fromkeys((*self.assumed, *names))))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the kernels rest on."""
        return report.steps.assumptions(self.outline)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule; repeated layers once."""
        return report.steps.steps(self.outline)

    def closed_form(self, name: str) -> Expr | None:
        """The closed form of a mean that the print-out names, such as "κ_relu", in c11, c12, …; None without one.

        >>> import tplimits as tp
        >>> @tp.network
        ... def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        ...     return v * tp.relu(tp.sum(U * ξ, over="d"))
        >>> tp.derive(net, tp.Kernels()).closed_form("κ_relu′")
        asin(c12/(sqrt(c11)*sqrt(c22)))/(2*pi) + 1/4

        Raises ProgramError for a name that does not stand in the print-out.
        """
        means = {m.name: m.function for m in self.outline.named_means}
        if not isinstance(name, str) or name not in means:
            known = ", ".join(means) or "none"
            raise ProgramError(f"closed_form({shown(name)}): the means of `{self.program.name}` are {known}.")
        found = closed_form(means[name])
        return None if found is None else found[0]

    @cached_property
    def outline(self) -> Outline:
        """What the reports show: equations, repeated layers once, means by name."""
        return report.outline.Outline(self.derivation)

    def __repr__(self) -> str:
        shown = report.text.kernel_limit(self.outline)
        return shown if self.layers is None else f"{shown}\n{first_order.formulas.text()}"

    def _formulas(self) -> list[Formula]:
        return [*report.latex.formulas(self.outline), *(first_order.formulas.formulas() if self.layers else ())]

    def _picture(self) -> str:
        return report.picture.angles(self)

    def _rows_used(self) -> Iterable[str]:
        return self.outline.rows_used()

    def _on_page(self) -> Mapping[str, Any]:
        return report.document.kernel_page(self.outline)

    def _in_document(self) -> Mapping[str, Any]:
        return report.document.kernel_limit(self.outline)

    def shown(self, numbers: KernelPair | NNGPAlone) -> Shown:
        """Both Gram matrices."""
        reason = self.derivation.no_ntk
        return Shown(texts=(f"NNGP\n{numbers.nngp}", f"no NTK: {reason}" if reason else f"NTK\n{numbers.ntk}"))

    def numbers_document(self, numbers: KernelPair | NNGPAlone) -> str:
        """JSON of the Gram matrices with their errors."""
        return report.document.kernel_numbers(self.program, numbers)

    def judged(self, asked: CheckAsked) -> Verdict:
        """K and Θ between the inputs X1 and X2, or the user's claims, against networks of finite width."""
        return kernel_verdict(self, asked)

    def __reduce__(self) -> tuple[Any, ...]:
        return derive_kernel_limit, (self.program, self.regime, self.assumed)  # tables hold functions: made again

    @constants_apart
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
        executor: Executor | None = None,
        **named: Any,
    ) -> KernelPair | NNGPAlone | StoredKernels:
        """Gram matrices of two batches of inputs: (N1, N2, *axes, *axes), without axes of independent outputs.

        `X2=None` means X1.  Data is an array (N, *axes), or a dictionary of them where the network takes several;
        constants go by name.  `draws`, `replicates` and `seed` matter where logits are random, and
        where a mean over four and more correlated variables does not separate (a gate that shares its variables with
        what it multiplies) and quadrature would take long: errors are standard errors there, arrays.
        `executor` is any executor of `concurrent.futures`: its workers compute tiles of pairs.  `out="gram"` keeps them
        in the folder gram as they are finished, and goes on where an earlier call was interrupted, bit for bit as if it
        had not been; the arrays, float32 where the data is, are mapped to memory (`StoredKernels`).

        Raises EvaluationError for a wrong shape, NaN, no input, a missing constant, kernels that are not finite; for a
        folder of another computation, one that another process writes to, or that cannot be written to.
        """
        given = named_once(constants, named, "evaluate()", EvaluationError)

        def derived(bound: Program) -> KernelTables:
            return derive_kernels(bound, self.regime.train, self.regime.infinite, self.assumed)

        derivation, given = at_zeros(self.program, given, self.derivation.remembered["zeros"], derived, self.derivation)
        asked = kernels.request.request(derivation, X1, X2, given, ratios)
        sampling = kernels.request.sampling_of(draws, replicates, seed)
        if self.layers is not None:
            return self._to_first_order(asked, sampling, progress, out is not None or executor is not None)
        if out is None and executor is None:  # processes and folders need not be loaded
            return kernels.evaluation.evaluate(asked, **sampling, progress=progress)
        if out is None:
            return kernels.grams.evaluated(asked, sampling, progress, executor)
        return StoredKernels(kernels.grams.stored(asked, sampling, progress, out, executor))

    def _to_first_order(self, asked: GramRequest, sampling: Any, progress: Progress, apart: bool) -> FirstOrder:
        if apart:
            raise EvaluationError("tp.Kernels(order=1): out=… and executor=… are for kernels of order 0.")
        pair = kernels.evaluation.evaluate(asked, **sampling, progress=progress)
        rates = {name: float(self.derivation.rates.get(name, 1)) for name in self.trained}
        assert self.layers is not None
        return first_order.evaluation.first_order(self.layers, asked, pair, rates)
