"""What every worked derivation does: print, compare, check; and fail when anything disagrees.

The scripts beside this file are run one by one (`python derivations/03_transpose.py`, or `make derivations`).
Each states a result by hand, derives it, compares the two, lets networks of finite width judge the true value and
a wrong one, and exits with 1 when a comparison fails, when the true value is rejected or the wrong one accepted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

import tplimits as tp
from tplimits.regimes.depth.finite.ends import end_claims, end_values, statistic_labels, statistics
from tplimits.regimes.depth.numbers.paths import Paths
from tplimits.regimes.kernels.finite.judged import check_kernels
from tplimits.regimes.width.derivation import derive_width
from tplimits.sampling.sampling import Given, Sampling
from tplimits.sampling.verdict import Verdict

#: agreement asked of numbers, relative to max(1, |value|)
TOLERANCE = 1e-8
#: a check rejects a true limit with this probability: under 1 % over all scripts together
LEVEL = 1e-3
#: every script draws with this seed
SEED = 0
WIDTHS = (32, 64, 128, 256)
DRAWS = (12000, 6000, 3000, 1500)
#: wrong twins are far off
FEW_DRAWS = (3000, 1500, 800, 400)
#: one layer of a block: widths, draws, and the covariance it starts from
LAYER_WIDTHS, LAYER_DRAWS = (100, 300, 1000), (1500, 1000, 600)
V0 = np.array([[1.0, 0.3, -0.2], [0.3, 1.2, 0.4], [-0.2, 0.4, 0.8]])
#: numbers of tokens at which coefficients are compared, and the agreement asked of them
SIZES, EXACT = (2, 3, 5, 8), 1e-12
#: networks with their gradients: a claim on a kernel is about one mean, so that small widths say enough
KERNEL_WIDTHS, KERNEL_DRAWS = (16, 32, 64, 96), (3000, 2000, 1200, 800)
#: standard errors at which networks and paths of an SDE differ
APART = 4.0


class Worked:
    """One worked derivation: what it says, what it has compared, and what did not agree."""

    def __init__(self, text: str) -> None:
        self.failures: list[str] = []
        print(text.strip())

    def derived(self, program: tp.Program, steps: bool = True) -> tp.WidthLimit:
        """The width limit, printed with its program, its steps and its LaTeX."""
        limit = tp.derive(program)
        parts = [repr(program)]
        if steps:
            parts += ["derivation", *(f"  {line}" for step in limit.steps for line in str(step).splitlines())]
        print("", *parts, "", limit, "", limit.latex(), "", sep="\n")
        return limit

    def equation(self, block: tp.Program) -> tp.CovarianceSDE:
        """The covariance SDE of a block, printed with its program, its steps and its LaTeX."""
        sde = tp.derive(block, tp.Proportional())
        steps = [f"  {line}" for step in sde.steps for line in str(step).splitlines()]
        print("", repr(block), "derivation", *steps, "", sde, "", sde.latex(), "", sep="\n")
        return sde

    def coefficients(
        self,
        sde: tp.CovarianceSDE,
        drift: Callable,
        diffusion: Callable,
        sizes: Sequence[int] = SIZES,
        **constants: float,
    ) -> None:
        """b and Σ are the published ones at random covariances of several sizes."""
        for m in sizes:
            V = random_covariance(m)
            b, sigma = sde.drift_at(V, **constants), sde.diffusion_at(V, **constants)
            for what, found, wanted in (("b", b, drift(V)), ("Σ", sigma, packed(diffusion(V)))):
                off = float(np.abs(found - wanted).max())
                self._report(off <= EXACT * max(1.0, float(np.abs(wanted).max())), f"{what}, m = {m}: {off:.1e} apart")

    def kernels(self, network: tp.Program, train: Sequence[str] | None = None, **regime: Any) -> tp.KernelLimit:
        """The kernels of a network, printed with their tables."""
        limit = tp.derive(network, tp.Kernels(train=None if train is None else tuple(train), **regime))
        lines = [f"  {t.name}: {t.definition}" for t in limit.tables]
        print("", repr(network), "tables", *lines, "", sep="\n")
        return limit

    def matrices(self, what: str, found: Any, by_hand: Any) -> None:
        """Two arrays agree to 1e-12 of the largest entry."""
        a, b = np.asarray(found), np.asarray(by_hand)
        off = float(np.abs(a - b).max() / np.abs(b).max()) if a.shape == b.shape else np.inf
        self._report(off <= EXACT, f"{what}: {off:.1e} apart")

    def networks(
        self,
        limit: tp.KernelLimit,
        why: str,
        X: Any,
        claims: Mapping[str, Any] | None = None,
        accepted: bool = True,
        **options: Any,
    ) -> None:
        """Networks of finite width accept the kernels derived, or judge what is claimed in their place."""
        print(f"\n{why}")
        stated = limit.evaluate(X) if claims is None else None
        judged = dict(claims or {})
        if stated is not None:
            judged = {"nngp": stated.nngp} | ({"ntk": stated.ntk} if limit.trained else {})
        asked: dict[str, Any] = {
            "train": limit.trained,
            **options,
            "given": Given(options.get("given", {}), options.get("ratios", {})),
        }
        asked.pop("ratios", None)
        widths, draws = asked.pop("widths", KERNEL_WIDTHS), asked.pop("draws", KERNEL_DRAWS)
        sampling = Sampling(widths, draws, SEED, LEVEL, progress=False)
        verdict = check_kernels(limit.program, X, stated=judged, sampling=sampling, **asked)
        self.judged(verdict, accepted)

    def layers(
        self,
        sde: tp.CovarianceSDE,
        why: str,
        claims: Mapping[str, Any] | None = None,
        accepted: bool = True,
        **options: Any,
    ) -> None:
        """One layer of finite width accepts the derived coefficients, or what is claimed in their place."""
        print(f"\n{why}")
        settings: dict[str, Any] = {"widths": LAYER_WIDTHS, "draws": LAYER_DRAWS, "V0": V0, **options}
        verdict = tp.check(sde, seed=SEED, level=LEVEL, claims=claims, progress=False, **settings)
        self.judged(verdict, accepted)

    def laws(self, what: str, networks: np.ndarray, paths: Paths, same: bool = True) -> None:
        """V of networks, (networks, m, m), has the law of where paths end; or has not, with `same=False`.

        Quantiles of the variances and mean, deviation and quantiles of the correlations, each in standard errors of
        both sides; those of paths hold what `simulate(…, halve=True)` finds for the size of the step.
        """
        m = networks.shape[-1]
        labels = statistic_labels(m)
        values, _ = statistics(end_values(networks), m)
        found = dict(zip(labels, values.T, strict=True))
        print(f"  {what}: {len(networks)} networks, {len(paths.V)} paths")
        scores = []
        for claim in end_claims(paths):
            own = found[claim.label]
            error = own.std(ddof=1) / len(own) ** 0.5
            z = (own.mean() - claim.value) / np.hypot(error, claim.error)
            scores.append(abs(z))
            if "[0,0]" in claim.label or "[0,1]" in claim.label:  # the other tokens have the same law
                pair = f"networks {own.mean():.4f} ± {error:.4f}, SDE {claim.value:.4f} ± {claim.error:.4f}"
                print(f"    {claim.label:<11} {pair}, z = {z:+.2f}".replace("-", "−"))
        asked = f"{'below' if same else 'above'} {APART:g} was asked"
        worst = float(np.max(scores))  # NaN, if there is one
        self._report(np.isfinite(worst) and (worst < APART) == same, f"{what}: the largest |z| is {worst:.2f}, {asked}")

    def means(self, what: str, networks: np.ndarray, paths: np.ndarray, same: bool = True) -> None:
        """One number of networks has the mean that paths have; or has not, with `same=False`."""
        values, errors = zip(*((x.mean(), x.std() / len(x) ** 0.5) for x in (networks, paths)), strict=True)
        z = (values[0] - values[1]) / np.hypot(*errors)
        pair = f"networks {values[0]:.4f} ± {errors[0]:.4f}, SDE {values[1]:.4f} ± {errors[1]:.4f}"
        asked = f"{'below' if same else 'above'} {APART:g} was asked"
        self._report((abs(z) < APART) == same, f"{what}: {pair}, |z| = {abs(z):.2f}, {asked}")

    def same(self, what: str, found: sympy.Expr, by_hand: sympy.Expr) -> None:
        """Two expressions are one: their difference simplifies to zero."""
        self._report(sympy.simplify(found - by_hand) == 0, f"{what} = {found}, by hand {by_hand}")

    def close(self, what: str, found: Any, by_hand: Any) -> None:
        """Two numbers agree to 1e-8."""
        a, b = float(found), float(by_hand)
        self._report(abs(a - b) <= TOLERANCE * max(1.0, abs(b)), f"{what} = {a:.10g}, by hand {b:.10g}")

    def holds(self, what: str, condition: bool) -> None:
        """A statement is true."""
        self._report(bool(condition), what)

    def accepts(self, limit: tp.WidthLimit, widths: Sequence[int] = WIDTHS, draws: Sequence[int] = DRAWS) -> None:
        """Finite widths point at the derived limit."""
        print("\nThe derived limit.")
        verdict = tp.check(limit, widths=widths, draws=draws, seed=SEED, level=LEVEL, progress=False)
        self.judged(verdict, accepted=True)

    def rejects(
        self,
        limit: tp.WidthLimit,
        claims: Mapping[str, float],
        why: str,
        widths: Sequence[int] = WIDTHS,
        draws: Sequence[int] = FEW_DRAWS,
    ) -> None:
        """Finite widths refute a wrong value."""
        print(f"\nThe wrong twin: {why}.")
        verdict = tp.check(limit, widths=widths, draws=draws, seed=SEED, level=LEVEL, claims=claims, progress=False)
        self.judged(verdict, accepted=False)

    def judged(self, verdict: Verdict, accepted: bool) -> None:
        """A verdict is as it should be."""
        print(verdict)
        self._report(verdict.accepted == accepted, f"finite widths {'accept' if accepted else 'reject'} it")

    def finish(self) -> None:
        """Say how it went and leave."""
        if self.failures:
            print("", f"{len(self.failures)} of the statements above do not hold:", *self.failures, sep="\n  ")
            sys.exit(1)
        print("\nEverything agrees.")

    def _report(self, holds: bool, text: str) -> None:
        print(f"  [{'agrees' if holds else 'DISAGREES'}] {text}")
        if not holds:
            self.failures.append(text)


def without_dots(program: tp.Program) -> dict[str, float]:
    """The values that follow when W and Wᵀ are taken as independent: no dot-kets."""
    wrong = tp.WidthLimit(program, derive_width(program, with_dots=False))
    return {label: number.value for label, number in wrong.evaluate().items()}


def random_covariance(m: int) -> np.ndarray:
    """A covariance of m tokens, the same whenever it is asked for."""
    X = np.random.default_rng(m).standard_normal((m, m + 2))
    return X @ X.T / (m + 2)


def packed(full: np.ndarray) -> np.ndarray:
    """Σ^(αβ,δω) as (P, P) over the pairs α ≤ β."""
    a, b = np.triu_indices(len(full))
    return full[a[:, None], b[:, None], a[None, :], b[None, :]]


def sigma_lin(V: np.ndarray) -> np.ndarray:
    """V^αδ V^βω + V^αω V^βδ."""
    return np.einsum("ad,bw->abdw", V, V) + np.einsum("aw,bd->abdw", V, V)
