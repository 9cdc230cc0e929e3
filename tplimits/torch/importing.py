"""A PyTorch model as a program, with the way back to the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tplimits.errors import EvaluationError, NoLimitError, ProgramError
from tplimits.program.nodes.kinds import Initial, InitialMatrix
from tplimits.program.nodes.laws import GIVEN, Law
from tplimits.program.nodes.program import Program
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.table import SP, Parametrization
from tplimits.progress import Progress, Report, reporting
from tplimits.regimes.classification.widening import Widening
from tplimits.torch.analysis import KNOWN, Analysed, analysed
from tplimits.torch.building import Built, built, rounded_of, weights_of
from tplimits.torch.dependence import dependent
from tplimits.torch.entries import Entries, measured
from tplimits.torch.exporting import called, module_of, only_evaluated
from tplimits.torch.graph import export
from tplimits.torch.headed import ending_at, head_of
from tplimits.torch.matching import Match, arrays_of, data_of, matched, named_tensors, outputs_apart
from tplimits.torch.permutation import permutation_error
from tplimits.torch.report import ImportReport, reported
from tplimits.torch.rows import one_row
from tplimits.torch.scaling.optimizers import rule_of
from tplimits.torch.starting import at_infinity, unlike_order_one, unlike_products

if TYPE_CHECKING:
    from tplimits.program.network.heads import Head

#: how much outputs may change when neurons are permuted, relative to their size: casts to float32 cost 1e-6
PERMUTED = 1e-5
#: the stages of an import that progress tells
STAGES = 6
#: the power of 1/n that stands for matrices that start at 0: they vanish beside everything
AT_ZERO = 16


@dataclass(frozen=True, eq=False, repr=False)
class TorchProgram(Program):
    """A network program that was imported; see `tp.from_torch`."""

    built: Built = field(default=None, repr=False)  # type: ignore[assignment]
    permutation_error: float = 0.0
    by_row: bool = False
    row: tuple[Any, ...] = ()
    example: tuple[Any, ...] = ()
    dependent: Mapping[str, str] = field(default_factory=dict)
    evaluated: tuple[str, ...] = ()
    outputs: int = 1

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
        by_name = {
            name: Exponents.of((0, AT_ZERO if name in self._matrices("constant") else e.exponent, 0, 0))
            for name, e in self.entries.items()
        }
        return replace(SP, name="PyTorch", by_name=by_name)

    def _matrices(self, *shapes: str) -> list[str]:
        return [
            s.name
            for s in self.instructions
            if isinstance(s, InitialMatrix) and s.name in self.entries and self.entries[s.name].shape in shapes
        ]

    @property
    def unlike(self) -> Iterator[str]:
        """Why limits of independent entries of order 1 are none of this model's, which `tp.derive` raises."""
        for name in self._matrices("constant"):
            yield f"all entries of the matrix `{name}` start at {self.entries[name].mean:g}: draw them at random."
        for name in self._matrices(GIVEN):
            yield f"the matrix `{name}` starts with the same numbers in every model: draw them at random."
        for name, e in self.entries.items():
            if e.shape == "constant" and e.power and name not in self._matrices("constant"):
                yield (
                    f"`{name}` starts at {e}, and limits take parameters of order 1: let it start at {e.mean:g}, and "
                    "multiply by the power of n in forward."
                )
        yield from unlike_order_one(self, self.entries)
        yield from unlike_products(self, self.entries)
        for name, how in self.dependent.items():
            yield (
                f"`{name}` {how}, and limits are those of independent entries of one law: draw it so in make, or "
                "say net.independent() for the model with such entries."
            )

    def independent(self) -> TorchProgram:
        """The same program, whose initial entries are taken as independent though the model's are not."""
        return replace(self, dependent={})

    def classify(self, optimizer: Any) -> Widening:
        """What widening does to training by an optimizer, with rates that do not know n: which layers grow or vanish.

        optimizer: one of this package, a name such as "adamw", or PyTorch's class or object.  What the model freezes
        stays at rest.  `str` of the result is the verdict in words.  NoLimitError where a matrix
        starts with given numbers: nothing says how large its products are.
        """
        known = [*self._matrices(GIVEN), *(name for name in self._matrices("constant") if self.entries[name].mean)]
        if known:
            raise NoLimitError(
                f"the matrix `{known[0]}` starts with the same numbers in every model, as a unit matrix does: how "
                "large its products are is not counted. Draw it at random, or add the layer's input instead."
            )
        names = self.parametrization.of(self)
        updates = self._updates(optimizer, tuple(names))
        same = len(set(map(id, updates.values()))) == 1
        return Widening(self.gaussian(), self.parametrization, next(iter(updates.values())) if same else updates)

    def _updates(self, optimizer: Any, names: tuple[str, ...]) -> dict[str, Optimizer]:
        """The update function of each parameter."""
        if isinstance(optimizer, Optimizer):
            return {name: Frozen() if name in self.frozen else optimizer for name in names}
        rule = rule_of(optimizer)
        if rule.matrices_only:
            raise ProgramError(
                f"{rule.name} moves matrices alone, and another optimizer the rest: tp.scaling(net, "
                f"optimizer={rule.name!r}) counts both."
            )
        return {name: Frozen() if name in self.frozen else rule.of(self.entries[name].starts_at_zero) for name in names}

    def report(self) -> ImportReport:
        """What was imported: widths, entries, the verdict under SGD and Adam; text, and JSON by `.to_json()`."""
        return reported(self)

    def gaussian(self) -> TorchProgram:
        """The same program with normal entries of the same means and variances: powers of n do not see the law."""
        changed = tuple(
            replace(s, law=Law(s.law.mean, s.law.std)) if isinstance(s, Initial) and s.law.shape != GIVEN else s
            for s in self.instructions
        )
        return replace(self, instructions=changed)

    def leading(self) -> TorchProgram:
        """The same program with the entries of infinite width: what vanishes beside what it is added to starts at 0.

        PyTorch draws biases from the interval of the weights beside them, ±n^(−½): limits do not see them at the start.
        """
        return replace(self, instructions=at_infinity(self, self.entries))

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
        return arrays_of(self.built, named_tensors(module))

    def data(self, *inputs: Any) -> dict[str, numpy.ndarray]:
        """What the program takes for some inputs of the module, with a row for each."""
        return data_of(self.built, inputs, self.by_row)

    def matches(self, module: Any, *inputs: Any) -> Match:
        """The outputs and gradients of a module beside those of the program with the module's weights.

        inputs: what the module is called with; the example of the import where nothing is given.
        """
        return matched(self, module, inputs or self.example)


def imported(
    make: Callable[[int], Any], example: Any, widths: Sequence[int], name: str | None, progress: Progress = False
) -> TorchProgram:
    """The program of PyTorch models of all widths; see `tplimits.torch.door`."""
    args = example if isinstance(example, tuple) else (example,)
    sizes = _widths(widths)
    _refuse_no_example(args)
    # random numbers that a script draws later are those it would have drawn
    with torch.random.fork_rng(devices=()), reporting(progress) as report:
        report.plan(STAGES, f"importing {title_of(make, name)}")
        return _imported(make, args, sizes, title_of(make, name), report)


def title_of(make: Callable[[int], Any], name: str | None) -> str:
    """What a program is called."""
    return str(name or getattr(make, "__name__", type(make).__name__))


def _imported(
    make: Callable[[int], Any], args: tuple[Any, ...], sizes: tuple[int, ...], title: str, report: Report
) -> TorchProgram:
    # called as it is, first: errors of the model are the user's own, and not those of an exporter
    called(module_of(make, sizes[0]), args, sizes[0])
    row, by_row = one_row(make, args, sizes[0])
    report.advance(1)
    graph = export(make, row, sizes, KNOWN)
    report.advance(1)
    found = analysed(graph)
    _refuse_wide_output(found)
    # rules say what is a width; that neurons have no order is also seen on the model itself
    error = _permuted(found, row)
    report.advance(1)
    order = tuple(sorted(sizes))
    laws = measured(
        make, weights_of(found), order, [tuple(r[sizes.index(n)] for n in order) for r in rounded_of(found)]
    )
    report.advance(1)
    made = built(found, row, title if title.isidentifier() else "model", laws)
    report.advance(1)
    values = {f.name: getattr(made.program, f.name) for f in fields(made.program)}
    net = TorchProgram(
        **values,
        built=made,
        permutation_error=error,
        by_row=by_row,
        row=row,
        example=args,
        dependent=dependent(make, weights_of(found), sizes[0]),
        evaluated=only_evaluated(graph.modules[0]),
        outputs=len(graph.outputs),
    )
    # the last word: whatever the import has understood, the program has to compute what the model does
    apart = outputs_apart(net, row)
    if not apart <= PERMUTED:
        raise ProgramError(
            f"the program of `{title}` differs from the model by {apart:.1g} of its output: the import misreads an "
            "operation; please report the model."
        )
    report.advance(1)
    return net


def _permuted(found: Analysed, row: tuple[Any, ...]) -> float:
    """How much outputs change when neurons change places; ProgramError where they do."""
    error = permutation_error(found, row)
    if not error <= PERMUTED:
        raise ProgramError(
            f"the outputs change by {error:.1g} of their size when neurons are permuted: the model depends on the "
            "order of its neurons in a way that no operation of the graph shows."
        )
    return error


def _refuse_wide_output(found: Analysed) -> None:
    """The program is that of the first output: one with an entry for each neuron is no readout."""
    graph = found.graph
    first = next((o for o in graph.outputs if o not in found.data), None)
    if first is not None and found.axes.wide(first):
        raise ProgramError(
            f"{graph[first].place}: the output {tuple(graph[first].shapes[0])} has an entry for each neuron; end the "
            "model with a readout, or return what is to be seen of it first."
        )


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
