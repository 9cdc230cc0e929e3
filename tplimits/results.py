"""derive() and the results it returns: views of a derivation, with numbers on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits import stages
from tplimits.errors import CheckError, EvaluationError, NoLimitError, ProgramError
from tplimits.limit import targets
from tplimits.limit.depth import deep
from tplimits.limit.growth import Growth
from tplimits.limit.kets import Ket, Key, Step
from tplimits.limit.observables import Observable, ScalarObservable, observables
from tplimits.limit.state import State
from tplimits.limit.unroll import indices, label
from tplimits.limit.width import derive_width
from tplimits.program.nodes import InitialMatrix
from tplimits.program.program import Program
from tplimits.report import citations, latex, text

if TYPE_CHECKING:
    from tplimits.check.verdict import Verdict
    from tplimits.numeric.number import Number


@dataclass(frozen=True)
class Width:
    """The regime of the width limit: all widths to infinity together."""

    infinite: tuple[str, ...] = ()


@dataclass(frozen=True)
class WidthLimit:
    """The width limit of a program (Yang & Littwin, Def. 2.6.5 and Theorem 2.6.10).

    Kets of all vectors, limits of all scalars, brackets; each as a SymPy expression in Gaussian
    variables, with E[…] where no closed form is known.
    """

    program: Program
    state: State = field(repr=False, compare=False)

    # -- expressions --------------------------------------------------------------------------

    def ket(self, name: str, **index: int) -> Any:
        """|name⟩ as an expression; a family without indices gives an array of expressions."""
        return self._family(name, index, lambda key: self._written(self._ket(key).expr))

    def hat(self, name: str, **index: int) -> Any:
        """The hat part of an image W x; ProgramError when `name` is not one."""
        return self._family(name, index, lambda key: self._image(key).hat)

    def dot(self, name: str, **index: int) -> Any:
        """The dot part of an image W x."""
        return self._family(name, index, lambda key: self._written(self._image(key).dot_expr))

    def scalar(self, name: str, **index: int) -> Any:
        """The limit of a scalar."""
        return self._family(name, index, lambda key: self._tidied(self._scalar(key)))

    def braket(self, left: str, right: str) -> Expr:
        """⟨left|right⟩, the limit of (1/n) Σ left_α right_α; entries of families as in "x[token=0]"."""
        a, b = self._vector(left), self._vector(right)
        if a.width != b.width:
            raise ProgramError(f"⟨{left}|{right}⟩: `{left}` lives on width `{a.width}`, `{right}` on `{b.width}`.")
        with deep(self.program.name, EvaluationError):
            return self._tidied(self.state.engine.inner(a.expr, b.expr))

    @cached_property
    def gram(self) -> dict[tuple[str, str], Expr]:
        """The Gram table: ⟨x|y⟩ of all named vectors on one width."""
        kets = [k for key, k in self.state.kets.items() if not self.program[key[0]].name.startswith("_")]
        table = {}
        for i, a in enumerate(kets):
            for b in kets[i:]:
                if a.width == b.width:
                    table[a.label, b.label] = self.braket(a.label, b.label)
        return table

    def covariance(self, a: str, b: str) -> Expr:
        """Cov of two scalars that stay random in the limit (fluctuation scalars)."""
        known = {o.label: o for o in self._scalar_entries()}
        for name in (a, b):
            if name not in known:
                raise ProgramError(f"no scalar `{name}`; the scalars are {', '.join(known)}.")
        return self._tidied(targets.covariance(self.state, known[a], known[b]))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule."""
        return tuple(self.state.steps)

    # -- reports ------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return text.width_limit(self.program, self.state)

    def latex(self) -> str:
        """A compilable fragment (amsmath) in bra-ket notation."""
        return latex.width_limit(self.program, self.state)

    def _repr_latex_(self) -> str:
        return latex.notebook(self.program, self.state)

    def citation(self) -> str:
        """BibTeX of the theorems and closed forms this derivation used."""
        return citations.bibtex([s.reference.citation for s in self.steps], self.state.engine.used_rows)

    # -- numbers ------------------------------------------------------------------------------

    def evaluate(
        self,
        method: str = "auto",
        *,
        particles: int = 4096,
        replicates: int = 8,
        seed: int = 0,
        conditioning: str = "white",
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        executor: Executor | None = None,
        progress: Any = None,
        **named: Any,
    ) -> dict[str, Number]:
        """Numbers with errors: the returned scalar first (⟨return|return⟩ for a vector), then named scalars.

        `method`: "exact" (closed forms alone), "quadrature" (every mean integrated, nothing closed),
        "particles" (`replicates` runs of `particles` joint samples, conditioning "white" or "lazy"), or
        "auto": exact where closed, else quadrature, else particles.  Constants and given scalars by name or
        through `constants`; `ratios={"k": 2}` gives widths relative to n.  Replicates run on `executor`, with a
        `progress` bar in a terminal; the same seed gives the same numbers on any executor.

        Raises EvaluationError for a missing constant, a moment that is not established, too few particles.
        """
        self._unestablished()
        given = {**(constants or {}), **named}
        with deep(self.program.name, EvaluationError):
            return stages.evaluation().evaluate(
                self.program,
                self.state,
                self.observables,
                method,
                particles,
                replicates,
                seed,
                conditioning,
                ratios,
                given,
                executor,
                progress,
            )

    # -- inside -------------------------------------------------------------------------------

    @cached_property
    def observables(self) -> tuple[Observable, ...]:
        """What evaluate() and check() report, in order."""
        return observables(self.program)

    def _scalar_entries(self) -> list[ScalarObservable]:
        return [ScalarObservable(self.state.label(key), key) for key in self.state.scalars] + [
            o for o in self.observables if isinstance(o, ScalarObservable)
        ]

    def _family(self, name: str, index: Mapping[str, int], view: Any) -> Any:
        base, given = _parsed(name)
        position = self.program.position(base)
        given.update(index)
        axes = self.program[position].axes
        strange = set(given) - set(axes)
        if strange:
            raise ProgramError(f"`{base}` has no axis `{min(strange)}`; its axes are ({', '.join(axes)}).")
        free = tuple(a for a in axes if a not in given)
        cells = []
        for choice in indices(self.program, free):
            chosen = {**given, **dict(zip(free, choice, strict=True))}
            cells.append(view((position, tuple(chosen[a] for a in axes))))
        if not free:
            return cells[0]
        shape = tuple(int(self.program.size(a) or 0) for a in free)
        return sympy.ImmutableDenseNDimArray(cells, shape)

    def _ket(self, key: Key) -> Ket:
        if key not in self.state.kets:
            raise ProgramError(self._missing(key, "ket", self.state.scalars, "scalar"))
        return self.state.kets[key]

    def _image(self, key: Key) -> Ket:
        ket = self._ket(key)
        if ket.hat is None:
            raise ProgramError(f"`{ket.label}` is not an image W x: only those have a hat and a dot part.")
        return ket

    def _scalar(self, key: Key) -> Expr:
        if key not in self.state.scalars:
            raise ProgramError(self._missing(key, "scalar", self.state.kets, "ket"))
        return self.state.scalars[key]

    def _missing(self, key: Key, wanted: str, other: Mapping[Key, Any], call: str) -> str:
        instruction = self.program[key[0]]
        if isinstance(instruction, InitialMatrix):
            return f"`{instruction.name}` is a matrix; matrices have no {wanted}."
        if key in other:
            return f"`{instruction.name}` is not a {wanted}: ask for .{call}({instruction.name!r})."
        return f"`{self.state.label(key)}` is out of range."

    def _vector(self, name: str) -> Ket:
        base, given = _parsed(name)
        position = self.program.position(base)
        axes = self.program[position].axes
        if set(given) != set(axes):
            example = label(base, axes, (0,) * len(axes))
            raise ProgramError(f"`{name}` is a family over ({', '.join(axes)}): name one entry, such as {example!r}.")
        return self._ket((position, tuple(given[a] for a in axes)))

    def _written(self, expr: Expr) -> Expr:
        return self.state.engine.written_out(expr)

    def _tidied(self, expr: Expr) -> Expr:
        return text.shortest(self.state.engine.written_out(expr))

    def _unestablished(self) -> None:
        """Raise when a ket that the results rest on has no established second moment."""
        for key, growth in self.state.growths.items():
            if growth.kind is Growth.UNKNOWN:
                raise EvaluationError(
                    f"moment not established: |{self.state.label(key)}⟩ at {self.program.where(key[0])}: {growth.reason}. "
                    "Bound the function or keep it away from its pole."
                )


def _parsed(name: str) -> tuple[str, dict[str, int]]:
    """ "A[token=0,key=1]" as ("A", {"token": 0, "key": 1}); other brackets belong to the name."""
    base, bracket, rest = name.partition("[")
    if not bracket or "=" not in rest or not rest.endswith("]"):
        return name, {}
    pairs = [part.split("=") for part in rest[:-1].split(",")]
    try:
        return base, {axis.strip(): int(value) for axis, value in pairs}
    except ValueError:
        return name, {}


def derive(program: Program, regime: Width | None = None) -> WidthLimit:
    """The infinite-width limit of a program.

    >>> import tplimits as tp
    >>> @tp.program
    ... def gram(W: tp.Matrix, x: tp.Vector):
    ...     return tp.avg(x * (W.T @ (W @ x)))
    >>> derive(gram).scalar("return")
    1

    Raises ProgramError for what is not a program, NoLimitError where a hypothesis of the limit fails.
    """
    if not isinstance(program, Program):
        raise ProgramError(f"derive() takes a program made by @tp.program, not {type(program).__name__}.")
    regime = regime if regime is not None else Width()
    if not isinstance(regime, Width):
        raise ProgramError(f"derive() knows the regime tp.Width, not {regime!r}.")
    if regime.infinite:
        raise ProgramError(
            f"tp.Width(infinite={regime.infinite!r}): finite axes stay finite in the width limit so far."
        )
    with deep(program.name, NoLimitError):
        return WidthLimit(program, derive_width(program))


def check(
    result: WidthLimit,
    widths: Sequence[int] | None = None,
    draws: int | Sequence[int] | None = None,
    seed: int = 0,
    level: float = 1e-2,
    claims: Mapping[str, float] | None = None,
    *,
    ratios: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    progress: Any = None,
    method: str = "auto",
    particles: int = 4096,
    replicates: int = 8,
    **named: Any,
) -> Verdict:
    """Is the limit where the same program points at finite widths?

    Runs the program with real matrices at `widths`, fits L + b/n (odd powers of n^(-1/2) where they
    occur) to the means, and judges the intercept L against the derived limit at family-wise `level`; of a
    fluctuation scalar, its (co)variance.  Without `draws` a pilot chooses them so that a claim 2 % off is
    rejected with 95 % probability.  `claims={"return": 0.6}` judges your own values instead.  `method`,
    `particles` and `replicates` are those of `evaluate`; constants and scalars go by name.

    Raises CheckError where the check cannot be run as asked, EvaluationError where the limit has no number.
    """
    if not isinstance(result, WidthLimit):
        raise CheckError(f"check() takes the result of tp.derive(), not {type(result).__name__}.")
    given = {**(constants or {}), **named}
    stage = stages.check()
    if claims is None:
        judged = _own_claims(result, stage, given, ratios, method, particles, replicates, seed, executor, progress)
    else:
        random = {o.label for o in result.observables if targets.target(result.state, o).variance != 0}
        judged = [stage.Claim(k, v, statistic="covariance" if k in random else "mean") for k, v in claims.items()]
    return stage.run_check(result.program, judged, widths, draws, seed, level, ratios, given, executor, progress)


def _own_claims(
    result: WidthLimit,
    stage: ModuleType,
    given: Mapping[str, Any],
    ratios: Mapping[str, float] | None,
    method: str,
    particles: int,
    replicates: int,
    seed: int,
    executor: Executor | None,
    progress: Any,
) -> list[Any]:
    """What the limit itself claims: values, and variances of what stays random."""
    numbers = result.evaluate(
        method,
        ratios=ratios,
        constants=given,
        particles=particles,
        replicates=replicates,
        seed=seed,
        executor=executor,
        progress=progress,
    )
    judged = []
    for label, number in numbers.items():
        if number.variance:
            judged.append(stage.Claim(label, number.variance, number.variance_error, "covariance"))
        else:
            judged.append(stage.Claim(label, number.value, number.error))
    return judged


__all__ = ["Width", "WidthLimit", "check", "derive"]
