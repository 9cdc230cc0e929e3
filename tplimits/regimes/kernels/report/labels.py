"""What the quantities of a kernel recursion are called: by the vectors of the user's program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation.leaves import Data, Of
from tplimits.report.roles import Roles

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.derivation.nodes import KernelTable
    from tplimits.regimes.kernels.report.repetition import Repetitions, Run

_SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


@dataclass(frozen=True)
class Title:
    """K, Θ or E (`kind`) of vectors, in a layer: "0", "ℓ-1", "24" or "" outside repeated layers."""

    kind: str
    vectors: str
    layer: str = ""


class Labels(Roles):
    """Names of the nodes of a derivation."""

    def __init__(self, derivation: KernelTables) -> None:
        super().__init__(derivation.network)
        self._nodes = derivation.recursion.nodes
        self._size = len(derivation.recursion.program)
        self._by_name = {s.name: p for p, s in enumerate(self.program)}

    def of_node(self, number: int) -> str:
        """The name of a vector, of the vector that a tangent belongs to, or of a Gaussian part."""
        node = self._nodes[number]
        if node.is_fluctuation and number < len(self.program):
            return f"√{node.over} {self.of_position(number)}"
        if number < len(self.program):
            return self.of_position(number)
        name = node.name.removeprefix("δ") if node.degree else node.name
        stem = name.rstrip(_SUBSCRIPTS)
        if node.body is not None and number not in self._labels and (product := _of_data(node.body)):
            data, vector = product
            return f"{self.program[data].name}·{self.of_node(vector)}"
        parts = name.split("+")
        if len(parts) > 1 and all(p in self._by_name for p in parts):  # a sum of vectors without a name
            return "+".join(self.of_position(self._by_name[p]) for p in parts)
        found = self.of_position(self._by_name[stem]) + name[len(stem) :] if stem in self._by_name else name
        return f"({found})^" if node.view is not None and number >= self._size else found

    def origin(self, number: int) -> int | None:
        """The instruction of the network that a node, or a tangent, belongs to."""
        if number < len(self.program):
            return number
        node = self._nodes[number]
        name = node.name.removeprefix("δ") if node.degree else node.name
        return self._by_name.get(name.rstrip(_SUBSCRIPTS))

    def legend(self, shown: Sequence[str]) -> list[int]:
        """The anonymous instructions whose names stand in some labels."""
        names = dict.fromkeys(n for text in shown for n in re.findall(r"(?<![\w.])_\d+(?!\w)", text))
        return [self._by_name[n] for n in names if n in self._by_name]


def _of_data(body: Expr) -> tuple[int, int] | None:
    """Data and vector of a body Σ_d ξ U."""
    if not isinstance(body, AxisSum):
        return None
    data, vectors = body.summand.atoms(Data), body.summand.atoms(Of)
    if len(data) == len(vectors) == 1 and len(body.summand.args) == 2:
        return next(iter(data)).source, next(iter(vectors)).node
    return None


class Titles:
    """Names of the tables, those of repeated layers by the layer."""

    def __init__(self, derivation: KernelTables, repetitions: Repetitions) -> None:
        self.labels = Labels(derivation)
        self._nodes, self._repetitions = derivation.recursion.nodes, repetitions
        self._plain: dict[int, Title] = {}
        taken: set[Title] = set()
        # tables that nobody sees come last, so that they take no name from those that are printed
        for table in dict.fromkeys((*derivation.needed, *derivation.tables)):
            title = self._title(table)
            count = 2
            while title in taken:
                title = Title(title.kind, f"{self._title(table).vectors}#{count}")
                count += 1
            taken.add(title)
            self._plain[table.number] = title
        self._first: dict[str, str] = {}  # anonymous vectors of a layer to those of the first one
        self._stems: dict[int, list[Title]] = {}
        for run in repetitions.runs:
            self._stems[run.number] = [self._apart(stem, run) for stem in self._family(run.layers)]
        self._places: dict[int, tuple[int, int, int]] = {}
        for run in reversed(repetitions.runs):
            self._places |= {t: (run.number, *place) for t, place in run.places().items() if t >= 0}
            for slot, before in run.before.items():
                if self._stem(self._plain[before], [self._plain[before]]) == self._stems[run.number][slot]:
                    self._places[before] = (run.number, slot, run.first - 1)

    def _title(self, table: KernelTable) -> Title:
        names = list(dict.fromkeys(map(self.labels.of_node, table.nodes)))
        if table.single:
            return Title("" if table.rule == "average" else "E", names[0])
        return Title("Θ" if self._nodes[table.nodes[0]].degree else "K", ",".join(names))

    def _family(self, layers: Sequence[Sequence[int]]) -> list[Title]:
        """One title for each slot: the names of its tables without the numbers in which they differ."""
        stems = []
        for slot in range(len(layers[-1])):
            titles = [self._plain[layer[slot]] for layer in layers if layer[slot] >= 0]
            own = [t for t, layer in zip(titles, layers, strict=False) if t.kind == titles[-1].kind] or titles
            stem = self._stem(own[-1], own)
            stems.append(own[-1] if stem in stems else stem)
        return stems

    def _apart(self, stem: Title, run: Run) -> Title:
        """A title that no other run uses for the same layers."""
        for other in self._repetitions.runs[: run.number]:
            if stem in self._stems[other.number] and other.first - 1 <= run.last and run.first - 1 <= other.last:
                return self._apart(Title(stem.kind, stem.vectors + "′"), run)
        return stem

    def _stem(self, title: Title, alike: Sequence[Title]) -> Title:
        if len(alike) == 1:
            return Title(title.kind, re.sub(r"[._#]?\d+$", "", title.vectors))
        token = r"(?<![\w.])_\d+|\d+"
        split = [re.split(f"({token})", t.vectors) for t in alike]
        last = split[-1]
        same = [s for s in split if len(s) == len(last)]
        kept = []
        for i, part in enumerate(last):
            # re.split with a group puts the numbers at odd places
            if i % 2 == 0:
                kept.append(part)
            elif part.startswith("_"):
                # anonymous vectors are numbered through the program: those of a layer go by the names of the first
                first = self._first.get(part, same[0][i])
                self._first |= {s[i]: first for s in same}
                kept.append(first)
            elif all(s[i] == part for s in same) and len(same) > 1:
                kept.append(part)
            else:
                kept[-1] = re.sub(r"[._#]$", "", kept[-1])
        return Title(title.kind, "".join(kept))

    def __getitem__(self, number: int) -> Title:
        mark = self._repetitions.marks.get(number)
        if mark is not None:
            stem = self._stems[mark.run][mark.slot]
            return Title(stem.kind, stem.vectors, f"ℓ-{mark.back}" if mark.back else "ℓ")
        if number in self._places:
            run, slot, layer = self._places[number]
            stem = self._stems[run][slot]
            return Title(stem.kind, stem.vectors, str(layer))
        return self._plain[number]

    def of_slot(self, run: int, slot: int, layer: str = "ℓ") -> Title:
        """The title of a slot of a repeated layer."""
        stem = self._stems[run][slot]
        return Title(stem.kind, stem.vectors, layer)
