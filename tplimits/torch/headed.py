"""A model that ends with a function of its readout, as a network that ends with the readout, and that function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tplimits.errors import ProgramError
from tplimits.program.language.annotations import Kind
from tplimits.program.language.trace import written
from tplimits.program.network.heads import Head
from tplimits.torch.building import Built, run, widths_of
from tplimits.torch.data import evaluated
from tplimits.torch.dimensions import dims_of
from tplimits.torch.inputs import axis_names, set_sizes
from tplimits.torch.lowering import Lowering
from tplimits.torch.tensors import Writer


def behind_readout(built: Built) -> tuple[int, frozenset[int]]:
    """The node of the readout, and the nodes from there to the output.

    ProgramError where the model ends with its readout, and where more than the readout enters what stands behind it.
    """
    found, graph = built.found, built.found.graph
    end = next(o for o in graph.outputs if o not in found.data)
    if end in built.totals:
        raise ProgramError("the model ends with its readout: there is no function behind it.")
    cuts, seen, left = set[int](), set[int](), [end]
    while left:
        number = left.pop()
        if number in seen:
            continue
        seen.add(number)
        node = graph[number]
        if node.kind in ("parameter", "buffer") or found.axes.wide(number):
            raise ProgramError(f"{node.place} stands behind the readout: what is there is no function of it alone.")
        for r in node.refs:
            if r in built.totals:
                cuts.add(r)
            elif r in found.varying:
                raise ProgramError(
                    f"{node.place} stands behind the readout and reads an input: no function of it alone."
                )
            elif r not in found.data:
                left.append(r)
    if len(cuts) != 1:
        raise ProgramError(f"the output is a function of {len(cuts)} sums over neurons; a head is a function of one.")
    return cuts.pop(), frozenset(seen)


def head_of(built: Built, example: tuple[Any, ...], name: str) -> tuple[int, Head]:
    """The node of the readout, and the function of it that the model returns."""
    found, graph = built.found, built.found.graph
    cut, nodes = behind_readout(built)
    names, _, scaled = widths_of(found)
    dims = dims_of(found, names, cut)
    sizes = [s for d in dims for s in d.finite]
    data = evaluated(found, example)
    end = next(o for o in graph.outputs if o not in found.data)

    def body(trace: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        f = arguments["f"]
        set_sizes(trace, f, [s for s in sizes if s > 1])
        low = Lowering(found, Writer(trace, scaled), names, {}, data)
        left = list(f.axes)
        low.tensors[cut, 0] = low.writer.tensor(f, dims, [left.pop(0) if s > 1 else None for s in sizes])
        run(low, nodes)
        tensor = low.tensors[end, 0]
        return {"return": low.value(tensor, low.writer.names(tensor.dims, [tensor]))}

    kinds = {"f": Kind("Scalar", axis_names([s for s in sizes if s > 1]))}
    return cut, Head(written(f"{name}_head", [], kinds, body, None))


def ending_at(built: Built, number: int) -> Any:
    """The analysed graph that ends with a node."""
    return replace(built.found, graph=replace(built.found.graph, outputs=(number,)))
