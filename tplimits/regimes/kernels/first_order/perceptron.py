"""A network read as layers x_l = φ_l(h_l), h_l = w W_l x_{l−1} + Σ c b, every matrix and vector used once.

Kernels to order 1/n are derived layer by layer where layers depend on what is before by averages of pairs alone: with
another matrix in each, and neither products of images nor sums over several of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import OWN, AxisSum, Entry, entries, variable, width_symbol
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector, MatMul, OuterNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the argument of an activation
H = variable("h")


@dataclass(frozen=True)
class Share:
    """A parameter in an argument: its name, what it is multiplied by, and the deviation of its entries."""

    name: str
    factor: Expr
    std: Expr


@dataclass(frozen=True)
class Layer:
    """φ(h) with h = `matrix` times what is before, plus `biases`; `activation` is φ as an expression in `H`."""

    activation: Expr
    matrix: Share
    biases: tuple[Share, ...]


@dataclass(frozen=True)
class Perceptron:
    """Layers from the first one on, the readout, and the position of the data."""

    layers: tuple[Layer, ...]
    readout: Share
    data: int


def perceptron(network: Program) -> Perceptron:
    """The layers of a network; NoLimitError for one that has others."""
    return _Reader(network).read()


@dataclass
class _Reader:
    network: Program
    _used: set[tuple[int, tuple[Expr, ...]]] = field(default_factory=set)
    _opened: dict[Expr, Expr] = field(default_factory=dict)

    def read(self) -> Perceptron:
        network, last = self.network, self.network.returns[0]
        if tuple(network.widths) != ("n",):
            self._refuse(last, "has widths beside n")
        if network[last].axes:
            self._refuse(last, "has an axis of outputs")
        body = self._open(Entry(sympy.Integer(last), OWN))
        vectors = [f for f in sympy.Mul.make_args(body) if isinstance(f, Entry) and self._is_vector(f)]
        if len(vectors) != 1:
            self._refuse(last, "is not one vector of weights times a function of the last layer")
        (v,) = vectors
        rest = sympy.Mul(*(f for f in sympy.Mul.make_args(body) if f != v))
        readout = self._share(last, v, S.One)
        layers: list[Layer] = []
        where = last
        while True:
            activation, main, factor, biases = self._layer(where, rest)
            shares = tuple(self._share(where, b, c) for b, c in biases)
            if isinstance(main, AxisSum):
                data, share = self._first(where, main, factor)
                layers.append(Layer(activation, share, shares))
                return Perceptron(tuple(reversed(layers)), readout, data)
            where = int(main.source)
            share, rest = self._product(where, factor)
            layers.append(Layer(activation, share, shares))

    def _refuse(self, position: int, why: str) -> NoReturn:
        raise NoLimitError(
            f"tp.Kernels(order=1): {self.network.where(position)} {why}. Kernels to order 1/n are derived for "
            "perceptrons: one fresh matrix a layer, functions of its image and of fresh biases, one width. For other "
            "networks write the average that is asked for as a program: tp.derive(program, tp.FiniteWidth())."
        )

    def _is_vector(self, e: Entry) -> bool:
        return isinstance(self.network[e.source], InitialVector)

    def _open(self, expr: Expr) -> Expr:
        """With functions of entries written out, down to images, parameters and data."""
        swap = {}
        for e in entries(expr):
            s = self.network[e.source]
            if isinstance(s, OuterNonlin):
                if s.slots or s.axes:
                    self._refuse(int(e.source), "has an axis of its own, or averages over neurons")
                if e not in self._opened:
                    self._opened[e] = self._open(s.body)
                swap[e] = self._opened[e]
        return expr.xreplace(swap)

    def _layer(self, where: int, body: Expr) -> tuple[Expr, Expr, Expr, list[tuple[Entry, Expr]]]:
        """φ, what stands for W x with its factor, biases with theirs: body = φ(factor · W x + Σ factors · biases)."""
        sums = {node for node in body.atoms(AxisSum) if entries(node)}
        sums = {a for a in sums if not any(a != b and b.has(a) for b in sums)}
        names = {node: Symbol(f"sum {i}", real=True) for i, node in enumerate(sorted(sums, key=str))}
        plain = body.xreplace(names)
        names |= {e: Symbol(f"entry {i}", real=True) for i, e in enumerate(entries(plain))}
        plain = plain.xreplace(names)
        leaves = {symbol: node for node, symbol in names.items()}
        main = [s for s, node in leaves.items() if isinstance(node, AxisSum) or self._is_image(node)]
        biases = [s for s, node in leaves.items() if s not in main]
        if len(main) != 1 or not all(self._is_vector(leaves[s]) for s in biases):
            self._refuse(where, "is no function of one image W x and of vectors of parameters")
        argument = _argument(plain, set(leaves))
        if argument is None:
            self._refuse(where, "holds its image W x and its biases in more than one sum")
        factors = {s: argument.diff(s) for s in leaves}
        rest = argument.xreplace(dict.fromkeys(leaves, S.Zero))
        activation = _in_one_variable(plain, argument, main[0], H + rest)
        self._free_of_width(where, activation)
        return activation, leaves[main[0]], factors[main[0]], [(leaves[s], factors[s]) for s in biases]

    def _is_image(self, node: Expr) -> bool:
        return isinstance(self.network[node.source], MatMul)

    def _product(self, position: int, factor: Expr) -> tuple[Share, Expr]:
        s = self.network[position]
        assert isinstance(s, MatMul)
        matrix = self.network[s.matrix]
        assert isinstance(matrix, InitialMatrix)
        if s.transposed or s.axes:
            self._refuse(position, "is a product with a transposed matrix, or one for every member of an axis")
        self._once(position, (s.matrix, tuple(s.matrix_indices)))
        return self._lawful(position, matrix, factor), self._open(s.operand)

    def _share(self, where: int, e: Entry, factor: Expr) -> Share:
        s = self.network[e.source]
        assert isinstance(s, InitialVector)
        self._once(where, (int(e.source), tuple(e.indices)))
        return self._lawful(where, s, factor)

    def _once(self, where: int, key: tuple[int, tuple[Expr, ...]]) -> None:
        source, indices = key
        same = [other for position, other in self._used if position == source]
        if any(other == indices or not all(i.is_Integer for i in (*other, *indices)) for other in same):
            self._refuse(where, f"uses `{self.network[source].name}` a second time")
        self._used.add(key)

    def _free_of_width(self, where: int, *read: Expr) -> None:
        if any(e.has(width_symbol("n")) for e in read):
            self._refuse(where, "holds n, whose powers would be terms of their own in b and C")

    def _lawful(self, where: int, s: InitialMatrix | InitialVector, factor: Expr) -> Share:
        if s.law.shape != "normal" or s.law.mean != 0 or s.law.cut is not None:
            self._refuse(where, f"reads `{s.name}`, whose entries are not normal of mean 0")
        self._free_of_width(where, factor, s.law.std)
        return Share(s.name, factor, s.law.std)

    def _first(self, where: int, node: AxisSum, factor: Expr) -> tuple[int, Share]:
        """Σ U ξ over all axes of the data."""
        bounds, summand = [node.bound], node.summand
        while isinstance(summand, AxisSum):
            bounds.append(summand.bound)
            summand = summand.summand
        constant, rest = summand.as_independent(Entry)
        found = {type(self.network[e.source]): e for e in sympy.Mul.make_args(rest) if isinstance(e, Entry)}
        data, weights = found.get(InitialScalar), found.get(InitialVector)
        if data is None or weights is None or data * weights != rest or int(data.source) not in self.network.inputs:
            self._refuse(where, "is no sum of weights times data")
        if set(data.indices) != set(bounds) or data.indices != weights.indices or constant.free_symbols & set(bounds):
            self._refuse(where, "is no sum of weights times data over all axes of these")
        return int(data.source), self._share(where, weights, factor * constant)


def _argument(body: Expr, leaves: set[Expr]) -> Expr | None:
    """The sum by which an expression depends on all its leaves, as it is or times numbers; None where there is none."""
    if len(leaves) == 1:
        return next(iter(leaves))
    for node in sorted(body.atoms(sympy.Add) | {body}, key=lambda a: a.count_ops()):
        if leaves <= node.free_symbols and all(node.diff(s).free_symbols.isdisjoint(leaves) for s in leaves):
            one = min(leaves, key=str)
            if not _in_one_variable(body, node, one, H).free_symbols & leaves:
                return node
    return None


def _in_one_variable(body: Expr, argument: Expr, leaf: Expr, value: Expr) -> Expr:
    """With `value` for a sum, also where a multiple of it stands, in which its factor is multiplied out."""
    found = body.xreplace({argument: value})
    if found.has(leaf):
        factor = argument.diff(leaf)
        found = sympy.expand_mul(found.xreplace({leaf: (value - argument.xreplace({leaf: S.Zero})) / factor}))
    return found
