"""One network in training, frame by frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tplimits.arrays import AnyArray as Array


@dataclass(frozen=True, eq=False)
class Run:
    """One network in training, or the limit (width `math.inf`), at the frames that are recorded.

    parameters: {name: (frames, *axes, n)} of vectors, (frames, *axes) of scalars, (frames, *axes, rows, columns) of
        matrices, as they stand in the program.  Of a limit without matrices these are samples of the kets, n of them;
        of a limit with matrices there are none.
    curves: {"loss": (frames,), …}, numbers of the whole network; see `tp.watch` for their names.
    values: {name: (frames, probes, *axes[, samples])}, what cannot be computed from parameters.
    outputs: f on the probes, (frames, probes, *outputs), where it cannot be computed from parameters, else None.
    """

    width: float
    seed: int
    parameters: Mapping[str, Array] = field(default_factory=dict)
    curves: Mapping[str, Array] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    outputs: Array | None = None

    @property
    def is_limit(self) -> bool:
        """Whether it is a limit of infinite width."""
        return math.isinf(self.width)

    @property
    def starts_apart(self) -> bool:
        """Whether it is a limit of the operator regime: its f_0 is a draw of its own, whatever networks draw."""
        # of other limits there are parameters, or the standard error of particles
        return self.is_limit and not self.parameters and "error of f" not in self.curves

    @property
    def frames(self) -> int:
        """How many frames there are; fewer than those of the recording while it is being made."""
        outputs = () if self.outputs is None else (self.outputs,)
        every = (*self.curves.values(), *self.parameters.values(), *self.values.values(), *outputs)
        return len(every[0]) if every else 0

    @property
    def title(self) -> str:
        """How a reader is told of it."""
        return f"{'the limit' if self.is_limit else f'width {self.width:g}'}, seed {self.seed}"
