"""A PyTorch model as a program, with the way back to the module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy
import sympy
import torch

from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector
from tplimits.program.nodes.laws import GIVEN, NORMAL, Law
from tplimits.program.nodes.program import Program
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import roles
from tplimits.program.parametrization.table import SP, Parametrization
from tplimits.regimes.classification.widening import Widening
from tplimits.torch.analysis import analysed
from tplimits.torch.building import Built, built, rounded_of, weights_of
from tplimits.torch.entries import Entries, measured
from tplimits.torch.exporting import called, module_of
from tplimits.torch.graph import export
from tplimits.torch.headed import ending_at, head_of
from tplimits.torch.matching import Match, arrays_of, data_of, matched, outputs_apart
from tplimits.torch.permutation import permutation_error
from tplimits.torch.report import ImportReport, reported
from tplimits.torch.rows import one_row

if TYPE_CHECKING:
    from tplimits.program.network.heads import Head
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.program.optimizers.recursion import Optimizer

#: how much outputs may change when neurons are permuted, relative to their size: casts to float32 cost 1e-6
PERMUTED = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class TorchProgram(Program):
    """A network program that was imported; see `tp.from_torch`."""

    built: Built = field(default=None, repr=False)  # type: ignore[assignment]
    permutation_error: float = 0.0
    by_row: bool = False
    row: tuple[Any, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(Program))

    __hash__ = Program.__hash__

    def __reduce__(self) -> Any:
        """Other processes get the program without the graph of PyTorch, which cannot be sent."""
        return Program, tuple(getattr(self, f.name) for f in fields(Program))

    @property
    def ratios(self) -> dict[str, float]:
        """The sizes of widths other than n in multiples of n, as `run` and `check` take them."""
        base = self.built.atoms["n"]
        return {w: float(a / base) for w, a in self.built.atoms.items() if w != "n"}

    @property
    def entries(self) -> Mapping[str, Entries]:
        """The measured initial entries of every parameter."""
        return self.built.entries

    @property
    def frozen(self) -> tuple[str, ...]:
        """What is not trained: parameters without gradients, and buffers."""
        return tuple(name for name, node in self.built.weights.items() if not self.built.is_trained(node))

    @property
    def parametrization(self) -> Parametrization:
        """The powers of n that PyTorch's initial entries have, no multipliers, and rates that do not know n."""
        by_name = {name: Exponents.of((0, e.exponent, 0, 0)) for name, e in self.entries.items()}
        return replace(SP, name="PyTorch", by_name=by_name)

    def classify(self, optimizer: Optimizer) -> Widening:
        """What widening does to training by an optimizer, with rates that do not know n: which layers grow or vanish.

        What the model freezes stays at rest.  `str` of the result is the verdict in words.
        """
        names = self.parametrization.of(self)
        chosen = {name: Frozen() if name in self.frozen else optimizer for name in names}
        return Widening(self.gaussian(), self.parametrization, chosen if self.frozen else optimizer)

    def report(self) -> ImportReport:
        """What was imported: widths, entries, the verdict under SGD and Adam; text, and JSON by `.to_json()`."""
        return reported(self)

    def gaussian(self) -> TorchProgram:
        """The same program with normal entries of the same means and variances: powers of n do not see the law."""
        changed = tuple(
            replace(s, law=Law(s.law.mean, s.law.std))
            if isinstance(s, (InitialMatrix, InitialVector, InitialScalar)) and s.law.shape != GIVEN
            else s
            for s in self.instructions
        )
        return replace(self, instructions=changed)

    def leading(self) -> TorchProgram:
        """The same program with the entries of infinite width: vectors and scalars that vanish with n start at 0.

        PyTorch draws biases from the interval of the weights beside them, ±n^(−½): limits do not see them at the start.
        """

        def at_infinity(s: Instruction) -> Instruction:
            small = s.name in self.entries and self.entries[s.name].power > 0
            if isinstance(s, InitialScalar) and small:
                return replace(s, value=sympy.S.Zero, law=NORMAL)
            if isinstance(s, InitialVector) and small and s.name not in readouts:
                return replace(s, law=Law(sympy.S.Zero, sympy.S.Zero))
            return s

        readouts = roles(self).named("readout")
        return replace(self, instructions=tuple(map(at_infinity, self.instructions)))

    def headed(self) -> tuple[TorchProgram, Head]:
        """The network f that ends with the readout, and the function φ with which the model makes φ(f) of it.

        Limits and powers of n are those of f; `head.loss` makes a loss of φ(f) one of f.  ProgramError where the model
        ends with its readout, and where φ has weights or is a function of several sums.
        """
        cut, head = head_of(self.built, self.row, self.name)
        made = built(ending_at(self.built, cut), self.row, self.name, self.entries)
        values = {f.name: getattr(made.program, f.name) for f in fields(made.program)}
        return replace(self, **values, built=made), head

    def weights(self, module: Any) -> dict[str, numpy.ndarray]:
        """The parameters of a module of any width as arrays of this program, {name: (*axes, n)}."""
        return arrays_of(self.built, _state(module))

    def data(self, *inputs: Any) -> dict[str, numpy.ndarray]:
        """What the program takes for some inputs of the module, with a row for each."""
        return data_of(self.built, inputs, self.by_row)

    def matches(self, module: Any, *inputs: Any) -> Match:
        """The outputs and gradients of a module beside those of the program with the module's weights.

        inputs: what the module is called with; random numbers like the example where nothing is given.
        """
        return matched(self, module, inputs)


def imported(make: Callable[[int], Any], example: Any, widths: Sequence[int], name: str | None) -> TorchProgram:
    """The program of PyTorch models of all widths; see `tplimits.torch.door`."""
    args = example if isinstance(example, tuple) else (example,)
    sizes = _widths(widths)
    _refuse_no_example(args)
    with torch.random.fork_rng(devices=()):  # random numbers that a script draws later are those it would have drawn
        return _imported(make, args, sizes, name)


def _imported(
    make: Callable[[int], Any], args: tuple[Any, ...], sizes: tuple[int, ...], name: str | None
) -> TorchProgram:
    called(module_of(make, sizes[0]), args, sizes[0])
    row, by_row = one_row(make, args, sizes[0])
    graph = export(make, row, sizes)
    found = analysed(graph)
    error = permutation_error(found, row)
    if not error <= PERMUTED:
        raise ProgramError(
            f"the outputs change by {error:.1g} of their size when neurons are permuted: the model depends on the "
            "order of its neurons in a way that no operation of the graph shows."
        )
    title = str(name or getattr(make, "__name__", type(make).__name__))
    order = tuple(sorted(sizes))
    laws = measured(
        make, weights_of(found), order, [tuple(r[sizes.index(n)] for n in order) for r in rounded_of(found)]
    )
    made = built(found, row, title if title.isidentifier() else "model", laws)
    values = {f.name: getattr(made.program, f.name) for f in fields(made.program)}
    net = TorchProgram(**values, built=made, permutation_error=error, by_row=by_row, row=row)
    apart = outputs_apart(net, row)
    if not apart <= PERMUTED:
        raise ProgramError(
            f"the program of `{title}` differs from the model by {apart:.1g} of its output: the import misreads an "
            "operation; please report the model."
        )
    return net


def _widths(widths: Sequence[int]) -> tuple[int, ...]:
    found = tuple(widths) if isinstance(widths, (tuple, list)) else ()
    if (
        len(found) < 3
        or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in found)
        or len(set(found)) != len(found)
    ):
        raise EvaluationError(f"widths={widths!r}: give three different widths at least, such as (64, 128, 256).")
    return found


def _refuse_no_example(example: tuple[Any, ...]) -> None:
    if not any(torch.is_tensor(x) for x in example):
        raise EvaluationError(
            f"example={example!r:.60}: give a tensor that the model is called with, or a tuple of them."
        )


def _state(module: Any) -> dict[str, Any]:
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
