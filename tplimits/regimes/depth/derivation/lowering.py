"""From the instructions of a block to index algebra.

Every vector becomes a sum of products of the state X, functions of dense layers, constant arrays and averages; every
scalar a sum of such products with all neurons averaged.  The size of an average is judged by its own second moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import OWN, ArrayEntry, AxisSum, Entry, Lookup, N, axis_symbol, size_symbol
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    MatMul,
    Nonlin,
    OuterNonlin,
)
from tplimits.regimes.depth.algebra.activations import LINEAR, Basis
from tplimits.regimes.depth.algebra.arrays import Arrays
from tplimits.regimes.depth.algebra.coefficients import Splitter
from tplimits.regimes.depth.algebra.data import Data
from tplimits.regimes.depth.algebra.forms import together
from tplimits.regimes.depth.algebra.model import Layer, Model
from tplimits.regimes.depth.algebra.products import (
    EPS,
    OPEN,
    SPAN,
    Dimension,
    Poly,
    ProductTerm,
    averaged,
    identified,
    indices,
    multiplied,
    times,
    total,
)
from tplimits.regimes.depth.derivation import neurons
from tplimits.regimes.depth.derivation.activation import activation
from tplimits.regimes.depth.derivation.centring import centred, collected_terms
from tplimits.regimes.depth.derivation.not_covered import NoFormulasError, refuse_vectors
from tplimits.regimes.depth.derivation.reading import Reading
from tplimits.regimes.depth.derivation.scalars import written
from tplimits.regimes.depth.derivation.scalars.around import Around
from tplimits.regimes.depth.derivation.scalars.expected import closed_means, mean_series
from tplimits.regimes.depth.derivation.scalars.judging import lowered_at_poles
from tplimits.regimes.depth.derivation.scalars.kinks import bent
from tplimits.regimes.depth.derivation.scalars.order_one import scalars
from tplimits.regimes.depth.derivation.scalars.row_weights import normalised
from tplimits.regimes.depth.derivation.scalars.scalars import array_at, series, with_one_array
from tplimits.regimes.depth.derivation.scalars.sizes import measured

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

Env = Mapping[Expr, int]


class Taken(NamedTuple):
    """The matrices whose functions of scalars are all taken as weights (`order_one`), none as a series or a factor,
    and those whose functions n^(−1/2) F(S) of one average are factors (`laws`)."""

    as_weights: frozenset[int] = frozenset()
    as_factors: frozenset[int] = frozenset()


AS_WRITTEN = Taken()


class Lowering:
    """One block, lowered; series are kept up to ε^limit."""

    def __init__(
        self, program: Program, dimensions: tuple[Dimension, ...], limit: int, taken: Taken = AS_WRITTEN
    ) -> None:
        self.program, self.limit, self.reading = program, limit, Reading(program)
        self.taken = taken
        self.number_of = {d.name: i for i, d in enumerate(dimensions)}
        names = {p: s.name for p, s in enumerate(program)}
        self.model = Model(dimensions, self._tokens(), depth=self.reading.depths(), names=names)
        self.split = Splitter(dimensions, limit, mean_series)
        self.arrays, self.data = Arrays(), Data(program)
        self._sizes = {size_symbol(a): dimensions[self.number_of[program.root_axis(a)]].size for a in program.all_axes}
        self.remarks: dict[str, None] = {}
        self._used = 1000  # numbers below are those of open indices while a template is made
        self.here = 0  # the instruction that is being lowered
        self.in_scalar = self.in_operand = False  # inside an expression of scalars, or a vector that W multiplies
        self.short: NoLimitError | None = None  # why a series ends before the limit
        self.without_limits: dict[Expr, NoLimitError] = {}  # functions of several layers that are no weights
        self.plain: dict[NoLimitError, NoLimitError] = {}  # refusals that name such a function, without the name

    def _tokens(self) -> int:
        """The dimension of the state's axis."""
        state = self.program[self.program.state or 0]
        if len(state.axes) != 1:
            raise NoLimitError(
                f"the state `{state.name}` of `{self.program.name}` has {len(state.axes)} axes; a covariance SDE is "
                "for states with one."
            )
        return self.dimension_of(state.axes[0])

    def template(self, position: int) -> Poly:
        """A vector with its indices open: OPEN its neuron, OPEN − 1, … its axes."""
        instruction = self.program[position]
        assert instruction.width is not None
        neuron = self.fresh(self.number_of[instruction.width])
        axes = [self.fresh(self.dimension_of(a)) for a in instruction.axes]
        outer, self.here = self.here, position
        poly, self.here = self.value(position, neuron, tuple(axes)), outer
        opened = {neuron: OPEN, **{i: OPEN - 1 - k for k, i in enumerate(axes)}}
        return Poly(tuple(t._replace(factors=f) for f, t in together(poly.terms, opened)), poly.cut)

    def fresh(self, dimension: int) -> int:
        """A summed index that nothing else uses."""
        self._used += 1
        return dimension * SPAN + self._used

    def dimension_of(self, axis: str) -> int:
        """The number of the dimension of a finite axis."""
        return self.number_of[self.program.root_axis(axis)]

    def fail(self, message: str) -> NoReturn:
        """Refuse at the instruction that is being lowered."""
        raise NoLimitError(f"{self.program.where(self.here)}: {message}")

    @property
    def where(self) -> str:
        """The instruction that is being lowered."""
        return self.program.where(self.here)

    def value(self, position: int, neuron: int | None, axes: tuple[int, ...]) -> Poly:
        """An instruction at a neuron and at indices of its axes."""
        s = self.program[position]
        if position == self.program.state:
            assert neuron is not None
            return self.one(("X", (axes[0], neuron), 0))
        if isinstance(s, InitialMatrix) and neuron is not None:
            return self.one(written.of_matrix(self, position, (*axes, neuron)))
        if isinstance(s, InitialVector) and neuron is not None:
            return written.of_vector(self, position, (*axes, neuron))
        if isinstance(s, InitialScalar):
            if s.value is None:
                self.fail(f"the scalar `{s.name}` has no value; make it a keyword-only constant.")
            return self.number(s.value)
        env: dict[Expr, int] = dict(zip(map(axis_symbol, s.axes), axes, strict=True))
        env |= {} if neuron is None else {OWN: neuron}
        outer, self.here = self.here, position
        if isinstance(s, MatMul):
            number = self.number(self.reading.operand(position)[0])
            found = multiplied(number, self.dense(position, LINEAR, env), self.limit)
        elif isinstance(s, Avg):
            found = self.average(s.operand, s.over, env)
        elif isinstance(s, OuterNonlin) and s.slots:
            slots = {slot: self.fresh(self.number_of[w]) for slot, w in zip(s.slots, s.slot_widths, strict=True)}
            found = reduce(averaged, slots.values(), self.lower(s.body, {**env, **slots}))
        else:
            assert isinstance(s, Nonlin)
            found = lowered_at_poles(self, s.body, env)
        self.here = outer
        return found

    def one(self, *factors: tuple[str, tuple[int, ...], int]) -> Poly:
        """A product of factors."""
        return Poly((ProductTerm(S.One, self.model.zero_powers, 0, factors),))

    def dense(self, position: int, basis: Basis, env: Env) -> Poly:
        """A basis function of W u."""
        s = self.program[position]
        assert isinstance(s, MatMul)
        matrix = self.program[s.matrix]
        assert isinstance(matrix, InitialMatrix)
        operand = self.reading.operand(position)[1]
        family = tuple(self.index(i, env) for i in s.matrix_indices)
        tokens = tuple(self.index(i, env) for i in operand.indices)
        source = None if operand.source == self.program.state else operand.source
        rows, columns = (matrix.columns, matrix.rows) if s.transposed else (matrix.rows, matrix.columns)
        sizes = self.number_of[rows], self.number_of[columns]
        # Gaussian given the operand, and powers of it are products
        power, basis = (1, basis) if source is None else (basis.power, LINEAR)
        layer = Layer(s.matrix, s.transposed, source, basis, len(family), *sizes)
        # the operand first: where it is refused the model holds nothing of the layer
        if source is not None and source not in self.model.operands:
            self.model.operands[source] = neurons.operand(self, source)
        self.model.layers[layer.label] = layer
        found = self.one(*[(layer.label, (*family, *tokens, env[OWN]), 0)] * power)
        return found if source is None else Poly(found.terms, self.model.operands[source].cut)

    def average(self, expr: Expr, width: str, env: Env) -> Poly:
        """The average over a width of a vector at indices of its axes."""
        neuron, free = self.fresh(self.number_of[width]), frozenset(env.values())
        inner = self.lower(expr, {**env, OWN: neuron})
        return measured(centred(averaged(inner, neuron), self.model, self.limit, free), self.model, free)

    def index(self, index: Expr, env: Env) -> int:
        """The index that an index expression stands for."""
        if isinstance(index, Lookup) or index not in env:
            what = "a look-up table" if isinstance(index, Lookup) else f"the single entry {index}"
            raise NoFormulasError(
                f"{self.where}: it reads {what} along a finite axis; here tokens are alike: use tp.constant and tp.sum."
            )
        return env[index]

    def number(self, expr: Expr) -> Poly:
        """A number of the program."""
        parts, cut = self.split(self.with_means(expr).xreplace({EPS: N**-S.Half}))
        return Poly(tuple(ProductTerm(p.coeff, p.powers, p.order, ()) for p in parts), cut)

    def with_means(self, expr: Expr) -> Expr:
        """An expression in ε, its means over a standard normal in closed form where they have one."""
        try:
            return closed_means(expr.xreplace(self._sizes).xreplace({N: EPS**-2}))
        except NoLimitError as error:
            self.fail(str(error))

    def lower(self, expr: Expr, env: Env) -> Poly:
        """A body at indices; functions of scalars of order 1 are weights of their own."""
        apart = not self.in_scalar and self.reading.is_scalar(expr)
        return scalars(self, (expr,), env)[0] if apart else self.alone(expr, env)

    def of_scalars(self, exprs: Sequence[Expr], env: Env) -> list[Poly]:
        """Factors that are expressions of scalars; kinks of one scalar are one function of it."""
        exprs = normalised(exprs, self.data, self.reading.inlined)
        together = bent(self, sympy.Mul(*exprs), env) if len(exprs) > 1 else None
        return [self.alone(a, env) for a in exprs] if together is None else [together]

    def around(self, function: Expr, argument: Expr, env: Env, constants: Mapping[Expr, Expr]) -> Around:
        """A function of one scalar around the value where it settles."""
        return Around(self, function, argument, env, constants)

    def alone(self, expr: Expr, env: Env) -> Poly:
        """The same, where functions of scalars have a series."""
        if not expr.has(Entry, ArrayEntry, AxisSum):
            return self.number(expr)
        if isinstance(expr, Entry):
            return self.value(expr.source, env.get(expr.neuron), tuple(self.index(i, env) for i in expr.indices))
        if self.data.is_data(expr):
            axes, values = self.data.tabulated(expr)
            return array_at(self, values, tuple(self.index(a, env) for a in axes))
        if (function := self.reading.function_of_layer(expr)) is not None:
            return activation(self, *function, env)
        if self.in_operand and (found := neurons.of_several_layers(self, expr, env)) is not None:
            return found
        try:
            return self._in_parts(expr, env)
        except NoLimitError as error:
            raise neurons.reason(self, expr, error) from None

    def _in_parts(self, expr: Expr, env: Env) -> Poly:
        if (found := bent(self, expr, env)) is not None:
            return found
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            terms = self.reading.apart(expr)
            if len(terms) == 1:
                return self._product(terms[0], env)
            found = collected_terms(total(self.lower(a, env) for a in terms), frozenset(env.values()))
            return with_one_array(self, found, env) if self.reading.is_scalar(expr) else found
        if isinstance(expr, AxisSum):
            return self._sum(expr, env)
        if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and 1 < expr.exp <= 4:
            # each factor lowered anew, with summed indices of its own
            return self._multiplied(self.lower(expr.base, env) for _ in range(int(expr.exp)))
        refuse_vectors(self, expr)
        return series(self, expr, env)

    def _product(self, expr: sympy.Mul, env: Env) -> Poly:
        numbers: list[Expr] = []
        layers: dict[Entry, Expr] = {}
        rest: list[Expr] = []
        for a in expr.args:
            function = self.reading.function_of_layer(a)
            if not a.has(Entry, ArrayEntry, AxisSum):
                numbers.append(a)
            elif function is not None:  # several functions of one layer are one
                layers[function[0]] = layers.get(function[0], S.One) * function[1]
            else:
                rest.append(a)
        of_scalars = [a for a in rest if self.reading.is_scalar(a)]
        others = [a for a in rest if a not in of_scalars]
        # n^(−1/4) |S/√n|^(3/2) is |S|^(3/2)/n: a broken power of n belongs to the function of scalars beside it
        if of_scalars and (layers or others) and (broken := [a for a in numbers if _is_broken(a)]):
            numbers, of_scalars = [a for a in numbers if a not in broken], [sympy.Mul(*broken, *of_scalars)]
        found = [self.number(sympy.Mul(*numbers)), *(activation(self, *layer, env) for layer in layers.items())]
        found += [*scalars(self, of_scalars, env), *(self.lower(a, env) for a in others)]
        return self.arranged(self._multiplied(found))

    def _multiplied(self, factors: Iterable[Poly]) -> Poly:
        return reduce(lambda a, b: multiplied(a, b, self.limit), factors)

    def _sum(self, expr: AxisSum, env: Env) -> Poly:
        dimension = self.dimension_of(expr.axis)
        terms, bound = [], self.fresh(dimension)
        inner = lowered_at_poles(self, expr.summand, {**env, expr.bound: bound}, judged=False)
        for t in inner.terms:
            if bound not in indices(t.factors):
                terms.append(t._replace(powers=times(t.powers, dimension, 2)))
                continue
            terms.append(self._arranged(t._replace(factors=identified(t.factors, bound)), {bound}))
        return Poly(tuple(terms), inner.cut)

    def arranged(self, poly: Poly) -> Poly:
        """The same sum with its constant arrays in normal form."""
        return Poly(tuple(self._arranged(t, ()) for t in poly.terms), poly.cut)

    def _arranged(self, t: ProductTerm, summed: Collection[int]) -> ProductTerm:
        scale, factors = self.arrays.arranged(t.factors, summed)
        return t._replace(coeff=t.coeff * sympy.Rational(scale.numerator, scale.denominator), factors=factors)


def _is_broken(number: Expr) -> bool:
    """Whether a number is a power of n that is no whole one of √n."""
    base, exponent = number.as_base_exp()
    return bool(base == N and exponent.is_number and not (2 * exponent).is_integer)
