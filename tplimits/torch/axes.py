"""Axes of a graph: which dimensions are one width, and into which pieces operations cut it.

A width dimension of k·n entries has a piece g and an inner size m.  Its position is (o, i, j): o counts pieces of g·n
consecutive entries, j the m entries that stay together, and i runs over the width itself, its *atom*, of g·n/m
entries.  Fused weights and heads that grow are pieces, heads of a fixed size and flattened images are inner entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm, prod
from typing import Any

from tplimits.torch.graph import Graph, Node, Ref, refuse
from tplimits.torch.sizes import Size, Wide, gcd, sizes

#: a dimension of a result: node, number of the result where there are several, dimension
Place = tuple[int, int, int]


@dataclass
class WidthClass:
    """Dimensions that are one axis: their growth k, the piece g and the inner size m; `growth` of rounded sizes."""

    factor: Fraction
    piece: Fraction
    inner: int = 1
    growth: tuple[Fraction, ...] = ()

    @property
    def outer(self) -> int:
        """How many pieces there are."""
        return int(self.factor / self.piece)

    @property
    def atom(self) -> Fraction:
        """Entries of the width itself, in multiples of n; at the first width where sizes are rounded."""
        return self.piece / self.inner

    def entries(self, widths: tuple[int, ...], at: int) -> Fraction:
        """Entries of the width itself when the model has one of these widths."""
        return self.atom * (widths[0] * self.growth[at] if self.growth else widths[at])

    def ratio(self, widths: tuple[int, ...]) -> Fraction:
        """Entries in multiples of n; of rounded sizes those of the largest width."""
        at = max(range(len(widths)), key=lambda i: widths[i])
        return self.entries(widths, at) / widths[at]


@dataclass
class Axes:
    """The axes of a graph under analysis; rules of operations call `same`, `view`, `part` and `grid`."""

    graph: Graph
    dims: dict[int, Any] = field(init=False)
    parents: dict[Place, Place] = field(default_factory=dict)
    links: list[Callable[[], bool]] = field(default_factory=list)
    classes: dict[Place, WidthClass] = field(default_factory=dict)
    atoms: dict[Place, Place] = field(default_factory=dict)
    linked: list[tuple[Place, Place]] = field(default_factory=list)
    reshaped: dict[Callable[[], bool], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dims = sizes(self.graph)

    def of(self, number: int, result: int = 0) -> tuple[Size, ...]:
        """The dimensions of a result."""
        node = self.graph[number]
        return self.dims[number][result] if node.many else self.dims[number]

    def wide(self, number: int) -> bool:
        """Whether a node has a width dimension."""
        node = self.graph[number]
        parts = self.dims[number] if node.many else (self.dims[number],)
        return any(isinstance(d, Wide) for part in parts for d in part)

    def root(self, place: Place) -> Place:
        """The place that stands for all dimensions that are the same axis."""
        while (parent := self.parents.get(place, place)) != place:
            place = parent
        return place

    def at(self, number: int, dim: int, result: int = 0) -> WidthClass:
        """The class of a width dimension."""
        return self._class(self.root((number, result, dim)))

    def atom(self, number: int, dim: int, result: int = 0) -> Place:
        """What stands for the width of a dimension."""
        place = self.root((number, result, dim))
        while (parent := self.atoms.get(place, place)) != place:
            place = parent
        return place

    def _class(self, place: Place) -> WidthClass:
        if place not in self.classes:
            size = self.of(place[0], place[1])[place[2]]
            assert isinstance(size, Wide)
            self.classes[place] = WidthClass(size.factor, size.factor, growth=size.growth)
        return self.classes[place]

    def same(self, node: Node, a: Place, b: Place) -> None:
        """Two dimensions are one axis."""
        left, right = (self.of(p[0], p[1])[p[2]] for p in (a, b))
        if not isinstance(left, Wide) and not isinstance(right, Wide):
            return
        # by growth: two widths of one size at one width differ at another
        if left != right:
            refuse(node, f"it matches a dimension of {shown(left)} entries with one of {shown(right)}")
        first, second = self.root(a), self.root(b)
        if first != second:
            self.parents[second] = first

    def broadcast(self, node: Node, operand: int, result: int = 0, of_result: int = 0) -> None:
        """An operand of an entrywise operation: dimensions are matched from the right, but those of one entry."""
        mine, out = self.of(operand, result), self.of(node.number, of_result)
        for back in range(1, len(mine) + 1):
            # a dimension of one entry is spread over that of the result, and is no part of it
            if mine[-back] != 1 or out[-back] == 1:
                self.same(node, (node.number, of_result, len(out) - back), (operand, result, len(mine) - back))

    def view(self, node: Node, operand: int) -> None:
        """A reshape: groups of dimensions with the same number of entries."""
        for left, right in grouped(node, self.of(operand), self.of(node.number)):
            self._product(node, operand, left, right)

    def _product(self, node: Node, operand: int, left: list[int], right: list[int]) -> None:
        mine, out = self.of(operand), self.of(node.number)
        wide = [[d for d in dims if isinstance(size[d], Wide)] for dims, size in ((left, mine), (right, out))]
        if max(map(len, wide)) > 1:
            refuse(
                node,
                "it merges two widths into one dimension, or takes one apart into two",
                "a program has vectors over one width",
            )
        if not wide[0]:
            return
        (a,), (b,) = wide
        behind = [_finite(size[d] for d in dims if d > w) for dims, size, w in ((left, mine, a), (right, out, b))]
        self.product((operand, 0, a), behind[0], (node.number, 0, b), behind[1])

    def product(self, a: Place, h: int, b: Place, k: int) -> None:
        """Two width dimensions with h and k finite entries behind them hold the same entries in the same order."""

        def spread() -> bool:
            left, right = self._class(self.root(a)), self._class(self.root(b))
            piece = gcd(left.piece * h, right.piece * k)
            inner = lcm(left.inner * h, right.inner * k)
            return _refine(left, piece / h, inner // h) | _refine(right, piece / k, inner // k)

        self.links.append(spread)
        self.linked.append((a, b))
        self.reshaped[spread] = max(a[0], b[0])

    def part(self, a: Place, b: Place, borders: Iterable[Fraction]) -> None:
        """The second dimension is a part of the first, which is cut at these multiples of n."""
        borders = tuple(f for f in borders if f)

        def spread() -> bool:
            whole, piece = self._class(self.root(a)), self._class(self.root(b))
            g, m = gcd(whole.piece, piece.piece, *borders), lcm(whole.inner, piece.inner)
            return _refine(whole, g, m) | _refine(piece, g, m)

        self.links.append(spread)
        self.linked.append((a, b))

    def grid(self, a: Place, pieces: int) -> None:
        """A dimension is cut into equal pieces."""

        def spread() -> bool:
            whole = self._class(self.root(a))
            return _refine(whole, gcd(whole.piece, whole.factor / pieces), whole.inner)

        self.links.append(spread)

    def together(self, a: Place, many: int) -> None:
        """So many consecutive entries of a dimension stay together."""

        def spread() -> bool:
            whole = self._class(self.root(a))
            return _refine(whole, whole.piece, lcm(whole.inner, many))

        self.links.append(spread)

    def settle(self) -> None:
        """Pieces and inner sizes until nothing changes; then what is linked has one atom."""
        for place in {self.root((n.number, r, d)) for n, r, d in self.wide_places()}:
            self._class(place)
        for _ in range(200):
            changed = [link for link in self.links if link()]  # all of them: what one cuts the next ones pass on
            if not changed:
                break
        else:  # parts alone come to an end
            refuse(
                self.graph[min(self.reshaped[link] for link in changed if link in self.reshaped)],
                "it puts entries side by side that other parts of the same width keep apart, and cuts it ever finer",
                "give each of these parts a layer of its own",
            )
        for a, b in self.linked:
            first, second = self.atom(a[0], a[2], a[1]), self.atom(b[0], b[2], b[1])
            if first != second:
                self.atoms[second] = first
        for node, result, dim in self.wide_places():
            found = self.at(node.number, dim, result)
            for n in self.graph.widths:
                if (
                    found.entries(self.graph.widths, self.graph.widths.index(n)).denominator != 1
                    or (found.factor / found.piece).denominator != 1
                ):
                    refuse(
                        node,
                        f"pieces of {found.piece}·n entries with {found.inner} inside are not whole at width {n}",
                        "choose other widths=",
                    )

    def wide_places(self) -> Iterable[tuple[Node, int, int]]:
        """Every width dimension: its node, the number of the result and the dimension."""
        for node in self.graph:
            parts = self.dims[node.number] if node.many else (self.dims[node.number],)
            for result, dims in enumerate(parts):
                for dim, size in enumerate(dims):
                    if isinstance(size, Wide):
                        yield node, result, dim


def _refine(found: WidthClass, piece: Fraction, inner: int) -> bool:
    changed = (found.piece, found.inner) != (piece, inner)
    found.piece, found.inner = piece, inner
    return changed


def shown(size: Size) -> str:
    """A size for messages."""
    if not isinstance(size, Wide):
        return str(size)
    return ("about " if size.growth else "") + ("n" if size.factor == 1 else f"{size.factor}·n")


def grouped(node: Node, left: tuple[Size, ...], right: tuple[Size, ...]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of two shapes in groups with as many entries, from the left; those of one entry are dropped."""
    # dimensions of one entry may be put anywhere
    a = [i for i, s in enumerate(left) if s != 1]
    b = [i for i, s in enumerate(right) if s != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while a or b:
        one, two = ([a.pop(0)] if a else []), ([b.pop(0)] if b else [])
        while (p := _entries(left, one)) != (q := _entries(right, two)):
            if _less(p, q) and a:
                one.append(a.pop(0))
            elif b:
                two.append(b.pop(0))
            elif a:
                one.append(a.pop(0))
            else:
                refuse(node, f"it reshapes ({', '.join(map(shown, left))}) to ({', '.join(map(shown, right))})")
        groups.append((one, two))
    return groups


def _entries(sizes: tuple[Size, ...], chosen: list[int]) -> tuple[Fraction, int, list[tuple[Fraction, ...]]]:
    """The number of entries: a factor, the power of n, and how rounded sizes grow."""
    found = [sizes[i] for i in chosen]
    factor = prod((s.factor if isinstance(s, Wide) else Fraction(s) for s in found), start=Fraction(1))
    wide = [s for s in found if isinstance(s, Wide)]
    return factor, len(wide), sorted(s.growth for s in wide if s.growth)


def _finite(sizes: Iterable[Size]) -> int:
    """How many entries finite dimensions have together."""
    return prod(s for s in sizes if not isinstance(s, Wide))


def _less(p: Any, q: Any) -> bool:
    """Whether p has fewer entries than q at all large widths."""
    return (p[1], p[0]) < (q[1], q[0])


def dimension(dim: int, rank: int) -> int:
    """A dimension counted from the left.

    >>> dimension(-1, 3)
    2
    """
    return dim % max(rank, 1)


def places(value: Any) -> list[int]:
    """The nodes of an argument that is a list of tensors."""
    return [v.node for v in value if isinstance(v, Ref)]
