"""Functions of outputs: soft caps, normalised logits, log-probabilities (what stands behind the sum over neurons).

A network is f = width^(−a_out) Σ_α x_α; a head makes y = φ(f) of it, input by input.  Training by a loss ℓ of y is
training of f by χ = Jᵀ ∂ℓ/∂y, J = ∂φ/∂f, at every width and in every limit, since f has one.  The tangent kernel of y
is J Θ J′ᵀ: it depends on f, which is random at the start, so that it is a kernel given f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import networkx
import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.program.network.backward import Use, Walk
from tplimits.program.network.growing import Growing, with_signal
from tplimits.program.network.loss import error_signal
from tplimits.program.network.losses import Loss
from tplimits.program.network.samples import along_samples
from tplimits.program.network.total import differentiable
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import real_array
from tplimits.program.nodes.kinds import InitialScalar, ScalarNonlin
from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Head:
    """A function of outputs, written as a program of one scalar or of one family of them.

    program: made by @tp.program from a function of f: tp.Scalar, or of f: tp.Scalar["class"] for outputs along an axis.

    >>> import tplimits as tp
    >>> @tp.program
    ... def cap(f: tp.Scalar):
    ...     return 2 * tp.tanh(f / 2)
    >>> head = Head(cap)
    >>> head([0.0, 2.0]).round(4).tolist(), head.pull([0.0, 2.0], [1.0, 1.0]).round(4).tolist()
    ([0.0, 1.5232], [1.0, 0.42])

    Raises ProgramError for a program that has vectors, other open scalars, constants without values or several results.
    """

    program: Program

    def __post_init__(self) -> None:
        if not isinstance(self.program, Program):
            raise ProgramError(f"tp.Head({shown(self.program, 60)}): give a program of scalars, made by @tp.program.")
        name = self.program.name
        strange = [s for s in self.program if not isinstance(s, (InitialScalar, ScalarNonlin))]
        if strange or self.program.is_network:
            what = f"`{strange[0].name}` is no scalar" if strange else "it takes data"
            raise ProgramError(f"tp.Head({name}): {what}; a head is a function of outputs alone, f: tp.Scalar.")
        if len(self.program.returns) != 1 or not isinstance(self.program[self.program.returns[0]], ScalarNonlin):
            raise ProgramError(f"tp.Head({name}): a head returns one function of the outputs.")
        if len(self._open) != 1:
            raise ProgramError(
                f"tp.Head({name}): a head has one argument without a value, the outputs, not {len(self._open)}."
            )
        if unknown := [c for c, value in self.program.constants.items() if value is None]:
            raise ProgramError(f"tp.Head({name}): the constant `{unknown[0]}` has no value: {name}.bind(…).")

    @cached_property
    def _open(self) -> tuple[int, ...]:
        return tuple(p for p, s in enumerate(self.program) if isinstance(s, InitialScalar) and s.value is None)

    def __call__(self, f: Any) -> Array:
        """y = φ(f) for outputs f of shape (inputs, *outputs)."""
        outputs = self._fitting(f)
        run = self._run(self._sampled[0], {self._name: outputs})
        return numpy.array(run.arrays[self.program.returns[0]][0])

    def pull(self, f: Any, signal: Any) -> Array:
        """Jᵀ signal, in the shape of f: what a derivative by y is by f."""
        outputs = self._fitting(f)
        program, uses, place = self._backward
        run = self._run(program, {self._name: outputs, program[place].name: real_array("signal", signal)})
        found = numpy.zeros_like(outputs)
        for use in uses:
            _scatter(run, use, found)
        return found

    def jacobian(self, f: Any) -> Array:
        """∂y/∂f, (inputs, *y, *f): entries of one input depend on its own outputs."""
        outputs, y = self._fitting(f), self(f)
        rows = []
        for i in range(math.prod(y.shape[1:])):
            unit = numpy.zeros((len(y), math.prod(y.shape[1:])))
            unit[:, i] = 1
            rows.append(self.pull(outputs, unit.reshape(y.shape)))
        return numpy.stack(rows, axis=1).reshape(*y.shape, *outputs.shape[1:])

    def kernel(self, kernel: Any, f1: Any, f2: Any = None) -> Array:
        """J(f1) Θ J(f2)ᵀ: the tangent kernel of y, given the outputs at both sets of inputs.

        `kernel` is that of f: (N1, N2) for one output, (N1, N2, *outputs, *outputs) for more.
        """
        left = self.jacobian(f1)
        right = left if f2 is None else self.jacobian(f2)
        n1, n2 = len(left), len(right)
        inner = len(self.program[self._open[0]].axes)
        outer = left.shape[1 : left.ndim - inner]
        size = math.prod(left.shape[left.ndim - inner :])
        whole = real_array("kernel", kernel)
        if whole.size != n1 * n2 * size**2:
            raise EvaluationError(
                f"kernel= has shape {whole.shape}; for {n1} and {n2} inputs with {size} outputs it has "
                f"{n1 * n2 * size**2} entries, (N1, N2, *outputs, *outputs)."
            )
        a, b = left.reshape(n1, -1, size), right.reshape(n2, -1, size)
        found = numpy.einsum("iap,ijpq,jbq->ijab", a, whole.reshape(n1, n2, size, size), b, optimize=True)
        return found.reshape(n1, n2, *outer, *outer)

    def loss(self, error: Any) -> Any:
        """The loss of y as one of f, for everything that trains: `tp.squared_error`, `tp.cross_entropy`, or χ(y)."""
        if isinstance(error, Loss):
            return Through(error.targets, error.train, error.weights, self, error)
        signal = error_signal(error)
        return lambda f, t=0: self.pull(f, signal(self(f), t))

    @property
    def _name(self) -> str:
        return self.program[self._open[0]].name

    def _fitting(self, f: Any) -> Array:
        outputs, s = real_array("outputs", f), self.program[self._open[0]]
        sizes = [self.program.size(a) for a in s.axes]
        if outputs.ndim != 1 + len(s.axes) or any(
            z is not None and z != n for z, n in zip(sizes, outputs.shape[1:], strict=True)
        ):
            shown = ", ".join(["inputs", *(a if z is None else str(z) for a, z in zip(s.axes, sizes, strict=True))])
            raise EvaluationError(
                f"the head `{self.program.name}` takes outputs of shape ({shown}), not {outputs.shape}."
            )
        return outputs

    @cached_property
    def _sampled(self) -> tuple[Program, str]:
        graph = self.program.graph
        behind = {*self._open}.union(*(networkx.descendants(graph, p) for p in self._open))
        return along_samples(self.program, tuple(p in behind for p in range(len(self.program))))

    @cached_property
    def _backward(self) -> tuple[Program, tuple[Use, ...], int]:
        """The head with the gradient of Σ χ y, its uses, and where χ stands."""
        sampled, _ = self._sampled
        (returned,) = sampled.returns
        more, place = with_signal(sampled, sampled[returned].axes)
        growing = Growing(more)
        walk = Walk(growing, "d")
        walk.seed(returned, sampled[returned].axes, growing.entry(place))
        walk.run()
        return differentiable(growing.finished().released), tuple(walk.uses.get(self._open[0], ())), place

    def _run(self, program: Program, given: dict[str, Array]) -> Execution:
        f = given[self._name]
        axes = (self._sampled[1], *self.program[self._open[0]].axes)
        sized = program.sized(dict(zip(axes, f.shape, strict=True)))
        return Execution(sized, 1, 1, numpy.random.default_rng(0), None, given).run()


def _scatter(run: Execution, use: Use, found: Array) -> None:
    """Add one gradient to the entries that it belongs to."""
    shape = run.shape(use.axes)
    grid = run.grid(dict(zip(use.axes, shape, strict=True)))
    value = grid.read(run.arrays[use.gradient.source], use.gradient.indices, tail=0)[0]
    at = [numpy.broadcast_to(grid.positions(i), shape) for i in use.indices]
    there = numpy.all([p >= 0 for p in at], axis=0)
    # several places may be sent to one entry: plain indexing would keep the last alone
    numpy.add.at(found, tuple(p[there] for p in at), numpy.broadcast_to(value, shape)[there])


@dataclass(frozen=True, eq=False)
class Through(Loss):
    """A loss of y = φ(f) as a loss of f."""

    head: Head
    inner: Loss

    def fitting(self, f: Any) -> NDArray[Any]:
        outputs = self.head._fitting(f)
        # by this loss's own targets: a batch or what is held out has others than the inner loss was made with
        replace(self.inner, targets=self.targets, train=self.train, weights=self.weights).fitting(self.head(outputs))
        return outputs

    def each(self, f: Array, y: Array) -> Array:
        return self.inner.each(self.head(f), y)

    def signal(self, f: Array, y: Array) -> Array:
        return self.head.pull(f, self.inner.signal(self.head(f), y))

    def hits(self, f: Array, y: Array) -> Any:
        return self.inner.hits(self.head(f), y)

    def exact(self, f: numpy.ndarray) -> numpy.ndarray:
        return self.exact_signal(f, None)

    def exact_signal(self, f: numpy.ndarray, y: Any) -> numpy.ndarray:
        raise EvaluationError(
            f"the loss goes through the head `{self.head.program.name}`: steps are not written out with one; "
            "evaluate() has numbers."
        )

    @property
    def facts(self) -> tuple[Any, ...]:
        return (type(self).__name__, str(self.head.program), self.inner.facts, super().facts[1:4])
