"""Parametrizations as values: SP, NTP, μP, UP(s), and exponents of one's own.

The general table has exponents (a, b, c, d) for matrices, for vectors (input weights and biases), for scalars and for
readouts, and a_out of the output f = n^(−a_out) Σ_α x_α.  A perceptron's last layer has a_out + a of its readout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.given import entries_of, word_of
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.exponents import Exponents, exponent
from tplimits.program.parametrization.roles import KINDS, roles

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: what the layers of a perceptron are in the general table
LAYERS = {"hidden": "matrix", "input": "vector", "output": "readout"}


@dataclass(frozen=True)
class Parametrization:
    """Exponents for each kind of parameter, `a_out`, and exponents of single parameters by name."""

    name: str
    matrix: Exponents
    vector: Exponents
    scalar: Exponents
    readout: Exponents
    a_out: Expr
    by_name: Mapping[str, Exponents] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", FrozenDict(self.by_name))

    def kind(self, kind: str) -> Exponents:
        """The exponents of a kind."""
        return getattr(self, word_of("kind", kind, KINDS, ProgramError))

    @property
    def output(self) -> Exponents:
        """A perceptron's last layer: the readout with a_out counted into a."""
        r = self.readout
        return Exponents(r.a + self.a_out, r.b, r.c, r.d)

    @property
    def symbols(self) -> set[sympy.Symbol]:
        """The symbols in the exponents."""
        tables = [self.kind(k) for k in KINDS] + list(self.by_name.values())
        return set().union(self.a_out.free_symbols, *(e.symbols for e in tables))

    def of(self, network: Program) -> dict[str, Exponents]:
        """The exponents of every parameter of a network, in order.

        Raises ProgramError where a name of `by_name` is no parameter.
        """
        if not getattr(network, "is_network", False):
            name = getattr(network, "name", shown(network, 60))
            raise ProgramError(f"`{name}` is no network; a parametrization needs one made by @tp.network.")
        known = parameters(network)
        for name in self.by_name:
            if name not in known:
                raise ProgramError(
                    f"{self.name}: `{name}` is no parameter of `{network.name}`; it has {', '.join(known)}. "
                    f"Kinds are {', '.join((*KINDS, 'out', *LAYERS))}."
                )
        kinds = roles(network).kinds
        return {name: self.by_name.get(name, self.kind(kinds[name])) for name in known}

    def adjusted(self, network: Program, optimizer: Any) -> Parametrization:
        """The same limit for updates that are divided by norms: c − e, or c − e + b for the norm of the weights.

        e = 1 for matrices, ½ for vectors, 0 for scalars (Yang & Littwin, Defs 2.10.4 to 2.10.9); `optimizer` is one
        for all parameters, or one for each by name.

        >>> import tplimits as tp
        >>> @tp.network
        ... def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        ...     return v * (W @ tp.sum(U * ξ, over="d"))
        >>> {name: e.c for name, e in MUP.adjusted(net, tp.Normalized(tp.SGD())).of(net).items()}
        {'U': -1/2, 'W': 0, 'v': -1/2}
        """
        exponents, found = self.of(network), {}
        kinds = roles(network).kinds
        for name, e in exponents.items():
            chosen = optimizer.get(name) if isinstance(optimizer, Mapping) else optimizer
            if chosen is not None and not isinstance(chosen, Optimizer):
                raise EvaluationError(
                    f"optimizer={shown(chosen, 60)}: give an optimizer such as tp.Adam(), or one by parameter."
                )
            power = chosen.extra_power(kinds[name], e) if chosen is not None else sympy.S.Zero
            found[name] = Exponents(e.a, e.b, e.c - power, e.d)
        return self.with_names(found)

    def with_names(self, by_name: Mapping[str, Exponents]) -> Parametrization:
        """The same table with other exponents of single parameters."""
        return replace(self, by_name={k: Exponents.of(e, k) for k, e in _named(by_name, "with_names").items()})

    def renamed(self, name: str) -> Parametrization:
        """The same table under another name."""
        return replace(self, name=name)

    def substituted(self, values: Mapping[Any, Any]) -> Parametrization:
        """With numbers for symbols."""
        given = entries_of(values)
        if given is None:
            raise ProgramError(f"substituted({shown(values)}): give numbers for symbols, as in {{c: 1}}.")
        exact = {sympy.sympify(k): exponent(v, str(k)) for k, v in given.items()}

        def at(e: Exponents) -> Exponents:
            return Exponents(*(x.subs(exact) for x in e))

        by_name = {k: at(e) for k, e in self.by_name.items()}
        matrix, vector, scalar, readout = (at(self.kind(k)) for k in KINDS)
        return Parametrization(self.name, matrix, vector, scalar, readout, self.a_out.subs(exact), by_name)

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        rows = [f"{k:8} {self.kind(k)}" for k in KINDS] + [f"{k:8} {e}" for k, e in self.by_name.items()]
        return "\n".join([f"{self.name}: (a, b, c, d), a_out = {self.a_out}", *rows])


def _named(table: Any, call: str) -> dict[str, Any]:
    """What a table holds by name; ProgramError for anything else."""
    found = entries_of(table)
    if found is None or not all(isinstance(k, str) for k in found):
        raise ProgramError(f'{call}({shown(table)}): give exponents by name, as in {{"matrix": (0, "1/2", 1, 1)}}.')
    return found


def _table(name: str, matrix: Any, vector: Any, scalar: Any, readout: Any, out: Any) -> Parametrization:
    first, second, third, last = (Exponents.of(e) for e in (matrix, vector, scalar, readout))
    return Parametrization(name, first, second, third, last, exponent(out))


_0, _H, _1 = 0, "1/2", 1
SP = _table("SP", (_0, _H, _0, _0), (_0,) * 4, (_0,) * 4, (_0, _H, _0, _0), 0)
NTP = _table("NTP", (_H, _0, _1, _1), (_0, _0, _H, _H), (_0,) * 4, (_0, _0, _H, _H), _H)
MUP = _table("MUP", (_0, _H, _1, _1), (_0, _0, _0, _1), (_0,) * 4, (_0, _0, _0, _1), 1)


def UP(s: Any) -> Parametrization:
    """The stable, faithful parametrization in which hidden layers move by n^(−s), 0 ≤ s ≤ ½; unique up to Eq. 2.5.

    UP(0) is μP and UP(1/2) NTP, up to that symmetry.  r_l = s in hidden layers and 0 in the readout, whose
    a + b = 1 − s.

    >>> UP("1/4").matrix, UP("1/4").output
    (Exponents(a=0, b=1/2, c=5/4, d=3/4), Exponents(a=3/4, b=0, c=1/4, d=3/4))

    Raises ProgramError for s outside of [0, ½].
    """
    s = exponent(s, "s")
    if not s.free_symbols and not 0 <= s <= sympy.S.Half:
        raise ProgramError(f"UP({s}): s is between 0 (feature learning) and 1/2 (the kernel regime).")
    half = sympy.S.Half
    vector = (0, 0, s, 1 - s)
    return _table(f"UP({s})", (0, half, 1 + s, 1 - s), vector, (0,) * 4, vector, 1 - s)


def ABCD(table: Mapping[str, Any], base: Parametrization = SP, name: str = "ABCD") -> Parametrization:
    """A parametrization of your own: exponents (a, b, c, d) by kind or by parameter; the rest is that of `base`.

    Kinds are "matrix" (or "hidden"), "vector" (or "input"), "scalar" and "readout"; "out" is a_out.  "output" gives
    the readout of a perceptron with a_out = 0.  Other keys are names of parameters.  Exponents are int, Fraction,
    "1/2" or SymPy expressions.

    >>> ABCD({"hidden": (0, "1/2", 1, 1), "input": (0, 0, 0, 1), "output": (1, 0, 0, 1)}).output
    Exponents(a=1, b=0, c=0, d=1)

    Raises ProgramError for exponents that are not exact, or a kind that is given twice.
    """
    entries = _named(table, "ABCD")
    if not isinstance(base, Parametrization):
        raise ProgramError(f"ABCD(base={shown(base)}): give a parametrization, as tp.SP.")
    kinds = {k: base.kind(k) for k in KINDS}
    a_out, by_name, seen = base.a_out, dict(base.by_name), set()
    for key, values in entries.items():
        kind = LAYERS.get(key, key)
        if kind in seen:
            raise ProgramError(f"ABCD: {kind} is given twice, as {key!r} and under its other name.")
        seen.add(kind)
        if key == "out":
            a_out = exponent(values, "out")
        elif kind in kinds:
            kinds[kind] = Exponents.of(values, key)
        else:
            by_name[key] = Exponents.of(values, key)
    if "output" in entries:
        if "out" in entries:
            raise ProgramError('ABCD: "output" is the readout with a_out = 0; give "readout" beside "out".')
        a_out = sympy.S.Zero
    return Parametrization(name, **kinds, a_out=a_out, by_name=by_name)
