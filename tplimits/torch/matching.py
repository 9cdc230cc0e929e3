"""Whether a program is the model: its weights in the program, outputs and gradients side by side."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.optimizers.linear import SGD
from tplimits.program.parametrization.table import SP
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.torch.data import doubled, evaluated, without_casts
from tplimits.torch.dimensions import dims_of, scale_of, units
from tplimits.torch.operations.reducing import DOUBLE, MACHINE
from tplimits.torch.permutation import permuted, with_weights
from tplimits.torch.rows import first_output
from tplimits.torch.totals import HIDDEN

if TYPE_CHECKING:
    from tplimits.torch.building import Built
    from tplimits.torch.importing import TorchProgram

#: gradients are compared relative to their largest entry, or to this part of the largest of all
SMALL = 1e-4
#: what cuts off at bounds: the larger of two values, and the smaller
CLAMPS = ("clamp", "clip", "clamp_min", "clamp_max")
#: numbers below this are −∞, as masks write it
LOWEST = -1e30


@dataclass(frozen=True)
class Match:
    """How far a program with a module's weights is from the module, relative to the largest entries.

    output: of the outputs.  gradients: of the gradient of Σ f χ for random χ, by parameter.  casts: modules that cast
    to single precision; `output` and `gradients` are then those without these casts on both sides, and `cast` is how
    far the outputs are from those with them.  promised: 1e-10, or 1e-6 where there are casts.  padding: tables of which
    PyTorch trains all rows but one, where the program trains that one, too: it is left out.
    largest: modules that take the largest or smallest of values: of equal ones all share the gradient of amax, and
    the first one gets that of max and of pools; in the program it is one of them.  At a bound of clamp the program has
    the derivative 0, and PyTorch 0 or 1 by its version.
    """

    output: float
    gradients: Mapping[str, float]
    promised: float
    casts: tuple[str, ...]
    padding: Mapping[str, int] = field(default_factory=dict)
    cast: float = 0.0
    largest: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether everything is within what was promised."""
        return all(apart <= self.promised for apart in (self.output, self.cast, *self.gradients.values()))

    def __bool__(self) -> bool:
        return self.accepted

    def __str__(self) -> str:
        worst = max(self.gradients, key=lambda k: (math.isnan(self.gradients[k]), self.gradients[k]), default="")
        lines = [f"outputs differ by {self.output:.1e} of the largest"]
        if worst:
            lines.append(f"gradients by {self.gradients[worst]:.1e} at most, that of {worst}")
        if self.casts:
            lines.append(
                f"these are without casts to single precision, on both sides; {', '.join(self.casts)} "
                f"{'has' if len(self.casts) == 1 else 'have'} them, and "
                f"with them outputs differ by {self.cast:.1e}, where {self.promised:.0e} is what can be asked"
            )
        lines += [
            f"row {row} of {name} is padding, which PyTorch does not train and the program does: it is left out"
            for name, row in self.padding.items()
        ]
        if self.largest and not self and self.output <= self.promised:
            lines.append(
                f"{', '.join(self.largest)} {'takes' if len(self.largest) == 1 else 'take'} the largest of several "
                "values: where these are equal, as with layers that start alike, gradients may differ"
            )
        return "; ".join(lines) + (": the program is the model" if self else ": the program is NOT the model")


def arrays_of(built: Built, tensors: Mapping[str, Any]) -> dict[str, numpy.ndarray]:
    """The parameters of a module as arrays of the program: finite axes first, widths last."""
    found = {}
    for name, number in built.weights.items():
        if name not in tensors:
            raise EvaluationError(f"the module has no parameter `{name}`; it is another model than the imported one.")
        tensor = tensors[name]
        shape: list[int] = []
        finite: list[int] = []
        wide: list[int] = []
        for d, size in zip(dims_of(built.found, built.names, number), tensor.shape, strict=True):
            finite.append(len(shape))
            shape.append(d.outer)
            if d.width is not None:
                wide.append(len(shape))
                shape.append(size // (d.outer * d.inner))
                finite.append(len(shape))
                shape.append(d.inner)
        if numpy.prod(shape) != tensor.numel():
            raise EvaluationError(
                f"`{name}` has the shape {tuple(tensor.shape)}; it is another model than the imported one."
            )
        # pieces, neurons and inner entries apart, as they lie in the dimension of the tensor
        array = tensor.detach().double().numpy().reshape(shape)
        kept = [i for i in finite if shape[i] > 1]
        gone = [i for i in finite if shape[i] == 1]
        array = array.transpose([*gone, *kept, *wide]).reshape([shape[i] for i in (*kept, *wide)])
        found[name] = array / float(built.factors.get(name, 1))
    return found


def sizes_of(built: Built, arrays: Mapping[str, numpy.ndarray]) -> tuple[int, dict[str, float]]:
    """n of a module, and its other widths in multiples of n, from its parameters."""
    found: dict[str, int] = {}
    for name, number in built.weights.items():
        widths = [str(d.width) for d in dims_of(built.found, built.names, number) if d.width is not None]
        found.update(zip(widths[::-1], arrays[name].shape[::-1], strict=False))
    if not found:
        raise EvaluationError("no parameter has a width.")
    name, size = next(iter(found.items()))
    # a model may have no parameter along n itself: then by the ratio of another width
    n = found.get("n", round(size / float(built.atoms[name]) * float(built.atoms["n"])))
    ratios = {w: float(a / built.atoms["n"]) for w, a in built.atoms.items()}
    return n, {w: found[w] / n if w in found else r for w, r in ratios.items() if w != "n"}


def data_of(built: Built, inputs: tuple[Any, ...], by_row: bool) -> dict[str, numpy.ndarray]:
    """What the program takes, with one row for each input."""
    rows = len(next(x for x in inputs if torch.is_tensor(x))) if by_row else 1
    given = built.inputs
    many: dict[str, list[numpy.ndarray]] = {name: [] for name in (*given.nodes, *given.chosen)}
    for i in range(rows):
        row = tuple(x[i : i + 1] if torch.is_tensor(x) else x for x in inputs) if by_row else inputs
        known = evaluated(built.found, row)
        for name, array in {
            **{name: known[number] for name, number in given.nodes.items()},
            **{name: picks.ones(known) for name, picks in given.chosen.items()},
        }.items():
            array = doubled(array.detach()).numpy()
            if given.nodes.get(name) in built.scaled:  # the program multiplies it by the power of n
                array = array / built.scaled[given.nodes[name]].at_first
            if array.dtype == float:  # logits that a mask hides: softmax gives them no weight
                array = numpy.where(array < LOWEST, HIDDEN, array)
            many[name].append(array.reshape([s for s in array.shape if s > 1]))
    return {name: numpy.stack(arrays) for name, arrays in many.items()}


def matched(net: TorchProgram, module: Any, inputs: tuple[Any, ...]) -> Match:
    """Outputs and gradients of a module beside those of the program."""
    built = net.built
    module = copy.deepcopy(module).double().eval()  # the module that is given stays as it is
    with_known_buffers(built, module)
    given = tuple(doubled(x) for x in inputs)
    casts = casting(built)
    with without_casts():
        y = first_output(module(*given))
    with torch.no_grad():  # as it is, with its casts
        rounded = first_output(module(*given)).double() if casts else y.detach()
    tensors = named_tensors(module)
    arrays = arrays_of(built, tensors)
    data = data_of(built, given, net.by_row)
    χ = torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    names = [n for n in built.weights if tensors[n].requires_grad]
    try:
        gradients = torch.autograd.grad((y * χ).sum(), [tensors[n] for n in names], allow_unused=True)
    except RuntimeError as error:
        said = " ".join(str(error).split())[:200]
        raise EvaluationError(f"PyTorch does not differentiate the module: {said}.") from error
    # the gradient of Σ f χ has the error signal χ, whatever f is
    χ_rows = _in_program(net, χ)
    # one pass: compiling with optimisation would outlast it
    trainer = Trainer(net, lambda f: χ_rows.reshape(f.shape), SGD(), 1.0, parametrization=SP)
    parameters = {**arrays, **({MACHINE: DOUBLE} if MACHINE in net.constants else {})}
    n, ratios = sizes_of(built, arrays)
    run = trainer.start(data, width=n, parameters=parameters, ratios=ratios)
    f, mine = run.outputs(), dict(run.gradients())
    expected = _in_program(net, y.detach())
    truth = arrays_of_gradients(built, names, tensors, gradients)
    skipped = padding_of(built)
    for name, row in skipped.items():
        if name in truth and name in mine:
            truth[name], mine[name] = (numpy.delete(many[name], row, axis=0) for many in (truth, mine))
    # gradients that are exactly 0, those of key biases, are rounding on either side
    least = SMALL * max((float(numpy.abs(g).max()) for g in truth.values() if g.size), default=0.0)
    apart = {n: _apart(mine[n], truth[n], least) for n in names if n in mine}
    found = f.reshape(expected.shape)
    cast = _apart(found, _in_program(net, rounded)) if casts else 0.0
    # a cast to float32 inside loses half of the digits of doubles
    promised = 1e-6 if casts else 1e-10
    return Match(_apart(found, expected), apart, promised, casts, skipped, cast, taking_the_largest(built))


def named_tensors(module: Any) -> dict[str, Any]:
    """Parameters and buffers under all their names."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}


def with_known_buffers(built: Built, module: Any) -> None:
    """The buffers of a module whose numbers the program holds, in double precision; EvaluationError for other ones."""
    graph, found = built.found.graph, dict(module.named_buffers())
    n, _ = sizes_of(built, arrays_of(built, named_tensors(module)))
    for node in graph:
        if node.kind != "buffer" or node.number not in graph.needed & built.found.data or node.tensor not in found:
            continue
        known = doubled(graph.tensors[0][node.tensor])
        many = [numpy.asarray(doubled(t[node.tensor]).double()) for t in graph.tensors]
        scaled = scale_of(many, units(built.found, built.names)) if many[0].size else None
        if scaled is not None and scaled.power and str(scaled.unit) == "n":
            known = known * (n / graph.widths[0]) ** float(scaled.power)
        buffer = found[node.tensor]
        if buffer.shape != known.shape or not torch.allclose(
            buffer.double(), known.double(), rtol=1e-6, atol=1e-6, equal_nan=True
        ):
            raise EvaluationError(
                f"the program holds the numbers of the buffer `{node.tensor}` as make(n) sets them, and this module "
                "has others; let make set them, or let it draw them, as statistics of batch norms and random numbers "
                "are taken from each module."
            )
        if scaled is not None and scaled.power:
            # the numbers that the program computes at this n, to their last digit
            buffer.copy_(known)


def outputs_apart(net: TorchProgram, row: tuple[Any, ...]) -> float:
    """How far the program's output is from the module's at the first width, with entries that are not 0 or 1."""
    built = net.built
    # random entries: zeros and ones hide operations that are misread
    plain, _ = permuted(built.found, 0, 1)
    given = tuple(doubled(x) for x in row)
    with torch.no_grad(), without_casts():
        y = first_output(with_weights(built.found, built.found.graph.modules[0], plain, given))
    arrays = arrays_of(built, plain)
    data = {name: array[0] for name, array in data_of(built, given, False).items()}
    constants = {MACHINE: DOUBLE} if MACHINE in net.constants else {}
    n, ratios = sizes_of(built, arrays)
    found = net.run(n=n, ratios=ratios, constants={**arrays, **data, **constants})
    ends = [net[r] for r in net.returns]  # by their own names: the model may have a parameter called `shift`
    total = found[ends[0].name].sum(axis=-1) if built.is_readout else found[ends[0].name]
    if len(ends) > 1:
        readout, shift = (e.axes for e in ends)  # a bias is the same at all tokens
        every = tuple(dict.fromkeys((*readout, *shift)))
        total = _along(total, readout, every) + _along(found[ends[1].name], shift, every)
    truth = _in_program(net, y)[0]
    if not numpy.isfinite(truth).all():
        raise ProgramError(
            f"the model itself returns {truth.flat[int(numpy.argmin(numpy.isfinite(truth)))]:.3g} at the example, with "
            "random weights: a root or logarithm of what may be negative, a quotient by zero, or an overflow. There is "
            "nothing to compare the program with; give the model a function that is finite."
        )
    return _apart(numpy.asarray(total), truth)


def _along(array: Any, axes: tuple[str, ...], every: tuple[str, ...]) -> numpy.ndarray:
    """An array along more axes, with one entry where it had none."""
    order = [axes.index(a) for a in every if a in axes]
    return numpy.expand_dims(numpy.transpose(array, order), [i for i, a in enumerate(every) if a not in axes])


def arrays_of_gradients(built: Built, names: list[str], tensors: Mapping[str, Any], gradients: Any) -> dict[str, Any]:
    """Gradients as arrays of the program."""
    every = {n: torch.zeros_like(t) for n, t in tensors.items()}
    for n, g in zip(names, gradients, strict=True):
        if g is not None:
            every[n] = g
    # `arrays_of` divides by the factor of a matrix, as is right for weights; gradients are multiplied by it
    return {n: g * float(built.factors.get(n, 1)) ** 2 for n, g in arrays_of(built, every).items()}


def _apart(mine: numpy.ndarray, truth: numpy.ndarray, least: float = 0.0) -> float:
    scale = max(float(numpy.abs(truth).max()) if truth.size else 0.0, least)
    worst = float(numpy.abs(numpy.asarray(mine).reshape(truth.shape) - truth).max()) if truth.size else 0.0
    return worst / scale if scale else worst


def _in_program(net: TorchProgram, y: Any) -> numpy.ndarray:
    """An output of the module in the order of the program's axes, rows first."""
    array = y.numpy()
    array = array if net.by_row else array[None]
    kept = array.reshape([array.shape[0], *(s for s in array.shape[1:] if s > 1)])
    order = net.built.output_order
    return kept.transpose([0, *(1 + i for i in order)])


def padding_of(built: Built) -> dict[str, int]:
    """The row of each table that look-ups read without giving it a gradient (`padding_idx`)."""
    names = {number: name for name, number in built.weights.items()}
    return {
        names[node.needed("weight")]: int(node["padding_idx"])
        for node in built.found.graph
        if node.op == "embedding"
        and node.ref("weight") in names
        and node["padding_idx"] is not None
        and node["padding_idx"] >= 0
    }


def taking_the_largest(built: Built) -> tuple[str, ...]:
    """The modules that take the largest or smallest of some values."""
    found = [
        node.module or "the model"
        for node in built.found.graph
        if node.number not in built.found.data
        and (node.op in ("amax", "amin", "max", "min", *CLAMPS) or "max_pool" in node.op)
        and node.ref("other") is None
    ]
    return tuple(dict.fromkeys(found))


def casting(built: Built) -> tuple[str, ...]:
    """The modules that cast to single precision."""
    found = []
    for node in built.found.graph:
        if node.op == "hardsigmoid":  # PyTorch's gradient of it holds 1/6 in single precision
            found.append(node.module or "the model")
        if node.op in ("to", "_to_copy") and node.number not in built.found.data:
            kinds = [v for v in node.arguments[0].values() if isinstance(v, torch.dtype)]
            if torch.float32 in kinds:
                found.append(node.module or "the model")
    return tuple(dict.fromkeys(found))
