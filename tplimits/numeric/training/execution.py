"""A network in training in the feature-learning limit, on one draw of particles (Yang & Littwin, Thms 2.5.2–2.9.25).

One step runs the total program, forward and backward, with every vector as M particles and every matrix as the operator
of `tplimits.numeric.training.matrices`, and then moves the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy
from sympy import Integer

from tplimits.errors import EvaluationError
from tplimits.numeric.particles import ParticleExecution
from tplimits.numeric.training.columns import Array, Population
from tplimits.numeric.training.parameters import EntrywiseParameter, MatrixParameter
from tplimits.program.evaluate import evaluate
from tplimits.program.given import width_ratios
from tplimits.program.nodes import InitialMatrix, InitialScalar, InitialVector, MatMul
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.total import TotalProgram, flat_index


class TrainingExecution(ParticleExecution):
    """The total program of a network at the parameters of now; `step` moves them."""

    def __init__(
        self,
        total: TotalProgram,
        optimizers: Mapping[str, Optimizer],
        X: Mapping[str, Array],
        particles: int,
        block: int,
        rng: numpy.random.Generator,
        white: bool = True,
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        program = total.program
        draws, columns = rng.spawn(2)
        super().__init__(program, particles, draws, white, ratios, {**(given or {}), **X})
        self.total = total
        self.blocks = blocks = max(1, math.ceil(particles / block))
        sizes = {"n": 1.0, **width_ratios(program.name, [w for w in program.widths if w != "n"], ratios, EvaluationError)}
        per_block = math.ceil(particles / blocks)
        self.width = {w: blocks * max(1, round(per_block * float(ratio))) for w, ratio in sizes.items()}
        streams = columns.spawn(len(self.width))
        self.columns = {w: Population(self.width[w], white, s) for w, s in zip(self.width, streams, strict=True)}
        self.parameters: dict[str, EntrywiseParameter | MatrixParameter] = {}
        for name, optimizer in optimizers.items():
            s = program[program.initial_names[name]]
            if isinstance(s, InitialMatrix):
                self.parameters[name] = MatrixParameter(self.columns[s.rows], self.columns[s.columns], blocks, optimizer)
            else:
                assert isinstance(s, (InitialVector, InitialScalar))
                self.parameters[name] = EntrywiseParameter(self._start(s), optimizer)
        self._families = {
            s.matrix: self.shape(program[s.matrix].axes) for s in program if isinstance(s, MatMul)
        }

    # -- parameters ---------------------------------------------------------------------------

    def _start(self, s: InitialVector | InitialScalar) -> Array:
        """The value of a vector or a scalar before training."""
        shape = self.shape(s.axes)
        if isinstance(s, InitialScalar):
            if s.name not in self.given and s.value is None:
                raise EvaluationError(
                    f"the scalar parameter `{s.name}` has no initial value: the limit depends on it; give {s.name}=…."
                )
            return numpy.array(super()._initial(s)[0])
        mean, std = (float(evaluate(v, self.leaves)) for v in (s.law.mean, s.law.std))
        population = self.columns[s.over]
        if std == 0:
            return numpy.full((*shape, population.size), mean)
        return mean + std * population.fresh(math.prod(shape)).reshape((*shape, population.size))

    def _initial(self, s: InitialMatrix | InitialVector | InitialScalar) -> Array:
        if isinstance(s, InitialMatrix):
            return numpy.empty(0)
        found = self.parameters.get(s.name)
        if isinstance(found, EntrywiseParameter):
            return found.value[None]
        return super()._initial(s)

    def _matmul(self, s: MatMul) -> Array:
        x, parameter = self._vector(s), self.parameters[self.program[s.matrix].name]
        assert isinstance(parameter, MatrixParameter)
        if all(isinstance(i, Integer) for i in s.matrix_indices):
            number = int(numpy.ravel_multi_index(tuple(map(int, s.matrix_indices)), self._families[s.matrix] or (1,)[:0])) if s.matrix_indices else 0
            flat = parameter.member(number).apply(x.reshape(-1, x.shape[-1]), s.transposed)
            return flat.reshape((*x.shape[:-1], -1))
        full = self.shape(s.axes)
        members, _ = flat_index(self._grid(s.axes), s.matrix_indices, self._families[s.matrix], full)
        flat, out = x.reshape(-1, x.shape[-1]), numpy.empty((math.prod(full), self.width[s.over]))
        for number in numpy.unique(members):
            chosen = members == number
            out[chosen] = parameter.member(int(number)).apply(flat[chosen], s.transposed)
        return out.reshape((1, *full, -1))

    # -- time ---------------------------------------------------------------------------------

    def outputs(self) -> Array:
        """f at the parameters of now, (inputs, *outputs): the forward instructions are run."""
        self.arrays = []
        self.run_some(len(self.total.network))
        return self.total.outputs(self)

    def step(self, t: int, χ: Array, lr: Mapping[str, float], decay: Mapping[str, float]) -> None:
        """Backward from the error signals χ (inputs, *outputs), then one update of all parameters."""
        self.run_some(len(self.program))
        signal = χ.reshape(len(χ), -1)
        for name, parameter in self.parameters.items():
            rows = self.total.rows(name, self)
            if isinstance(parameter, MatrixParameter):
                parameter.step(t, rows, signal, lr[name], decay[name])
            else:
                parameter.step(t, parameter.gradient(rows, signal), lr[name], decay[name])
