"""What an import is, in words and as JSON: axes, entries, parametrization, and what widening would do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tplimits.errors import NoLimitError
from tplimits.pages.report import Report, document
from tplimits.program.optimizers.adaptive import Adam
from tplimits.program.optimizers.linear import SGD
from tplimits.report.written import program_graph

if TYPE_CHECKING:
    from tplimits.regimes.classification.widening import Widening
    from tplimits.torch.importing import TorchProgram

#: whose verdicts a report holds
OPTIMIZERS = {"SGD": SGD(), "Adam": Adam()}


@dataclass(frozen=True, repr=False)
class ImportReport(Report):
    """A report on an imported model; `str` is its text, `.to_json()` the same facts."""

    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """The facts as JSON."""
        return json.dumps(self.facts, indent=1)

    @classmethod
    def of(cls, f: Mapping[str, Any], graph: str = "", program: str = "") -> ImportReport:
        """The report of facts, with the program and its graph."""
        lines = [
            f"{f['name']}: {f['instructions']} instructions from {f['operations']} operations of PyTorch, at widths "
            f"{', '.join(map(str, f['widths']))}",
            *(f"  {o}: {v['sentence']}" for o, v in f["verdicts"].items()),
            f"neurons may change places: outputs differ by {f['permutation error']:.0e}",
            "inputs are rows that do not see each other" if f["by row"] else "the example is one input",
            *([f"the model returns {f['outputs']} tensors, and the program is the first"] if f["outputs"] > 1 else []),
            *(
                [f"as in evaluation, without {', '.join(f['evaluated'][:6])}{' …' * (len(f['evaluated']) > 6)}"]
                if f["evaluated"]
                else []
            ),
            *(f"{name} {how}" for name, how in f["dependent"].items()),
            "",
            "widths: " + ", ".join(_width(k, v, f["rounded"]) for k, v in f["axes"].items()),
            "",
            "entries at the start",
        ]
        wide = max(map(len, f["entries"]), default=0)
        for name, e in f["entries"].items():
            also = f"; also {', '.join(e['also'])}" if e["also"] else ""
            frozen = "; not trained" if e["frozen"] else ""
            lines.append(f"  {name:{wide}}  {e['shape']:16} {e['law']}{also}{frozen}")
        return cls(
            title=f"Import of {f['name']}",
            answer=lines[0] + ".",
            text="\n".join(lines),
            numbers=tuple((f"trained by {o}", v["sentence"]) for o, v in f["verdicts"].items()),
            graph=graph,
            program=program,
            document=document("tplimits import", **f),
            facts=f,
        )


def reported(net: TorchProgram) -> ImportReport:
    """The facts of an import."""
    built = net.built
    graph = built.found.graph
    entries = {
        name: {
            "shape": str(tuple(graph[number].shapes[0])),
            "law": str(net.entries[name]),
            "power": str(-net.entries[name].power),
            "frozen": name in net.frozen,
            "also": [a for a in graph.aliases.get(name, ()) if a != name],
        }
        for name, number in built.weights.items()
    }
    return ImportReport.of(
        {
            "name": net.name,
            "widths": list(graph.widths),
            "operations": sum(node.kind == "call" for node in graph),
            "instructions": len(net),
            "by row": net.by_row,
            "outputs": net.outputs,
            "evaluated": list(net.evaluated),
            "dependent": dict(net.dependent),
            "permutation error": net.permutation_error,
            "axes": {name: str(size) for name, size in built.atoms.items()},
            "rounded": list(built.rounded),
            "entries": entries,
            "verdicts": _verdicts(net),
        },
        program_graph(net),
        str(net),
    )


def _width(name: str, size: str, rounded: list[str]) -> str:
    about = "about " if name in rounded else ""
    return f"{name} of {about}{size}·n neurons" if size != "1" else name


def _verdicts(net: TorchProgram) -> dict[str, Any]:
    try:
        return {name: _verdict(net.classify(optimizer)) for name, optimizer in OPTIMIZERS.items()}
    except NoLimitError as refused:
        nothing = {"sentence": str(refused), "largest rate": "", "powers of f": [], "powers of layers": {}, "text": ""}
        return dict.fromkeys(OPTIMIZERS, nothing)


def _verdict(found: Widening) -> dict[str, Any]:
    return {
        "sentence": found.sentence,
        "largest rate": str(-found.largest_rate),
        "powers of f": [str(p) for p in found.f],
        "powers of layers": {name: str(p) for name, p in found.layers.items()},
        "text": str(found),
    }
