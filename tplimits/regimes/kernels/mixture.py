"""Kernels that stay random: draws of them, and how far outputs are from Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import named_once
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes.kernels import numbers as kernels

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.mixture import KernelSample, Kurtosis


class Mixture:
    """The methods of a kernel limit whose outputs are Gaussian given random logits only: a fixed number of heads."""

    derivation: KernelTables

    @property
    def is_mixture(self) -> bool:
        """Whether the kernels are random: logits divided by √n, of finitely many heads."""
        return self.derivation.is_mixture

    @constants_apart
    def sample(
        self,
        X1: Any,
        X2: Any = None,
        *,
        draws: int = 256,
        seed: int = 0,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> KernelSample:
        """Kernels given draws of the logits: `.nngp` and `.ntk` of shape (draws, N1, N2, *axes, *axes).

        Given logits 𝒢 outputs are N(0, nngp); `.outputs(many)` draws them.  `ntk` is the mean of the NTK given 𝒢.

        Raises EvaluationError where kernels are not random, and for what `evaluate` refuses.

        >>> import tplimits as tp
        >>> @tp.network
        ... def head(ξ: tp.Input["token"], U: tp.Vector, Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        ...     x = U * ξ
        ...     logits = tp.avg((Q @ x) * (K @ x).rename(token="key")) * tp.sqrt(tp.n)
        ...     return v * tp.sum(logits * (V @ x).rename(token="key"), over="key")
        >>> K = tp.derive(head, tp.Kernels())
        >>> K.is_mixture, K.sample([[1.0], [2.0]], draws=5).nngp.shape
        (True, (5, 2, 2, 1, 1))
        >>> K.excess_kurtosis([[1.0]], draws=4000).value.round()  # C = G² for a Gaussian G: 3 · 2
        array([[6.]])
        """
        asked = self._asked(X1, X2, constants, named, ratios, "sample()")
        return kernels.mixture.sample(asked, draws, seed)

    @constants_apart
    def excess_kurtosis(
        self,
        X: Any,
        *,
        draws: int = 8192,
        seed: int = 0,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Kurtosis:
        """E f⁴/(E f²)² − 3 = 3 Var(C)/(E C)² of each output, C its variance given the logits.

        `.value` and `.error`, a standard error, have the shape (N, *axes).  Raises what `sample` raises.
        """
        asked = self._asked(X, None, constants, named, ratios, "excess_kurtosis()")
        return kernels.mixture.excess_kurtosis(asked, draws, seed)

    def _asked(self, X1: Any, X2: Any, constants: Any, named: dict[str, Any], ratios: Any, call: str) -> Any:
        given = named_once(constants, named, call, EvaluationError)
        return kernels.request.request(self.derivation, X1, X2, given, ratios)
