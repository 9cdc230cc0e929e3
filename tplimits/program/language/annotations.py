"""What an argument of a traced function can be: `tp.Matrix`, `tp.Vector`, `tp.Scalar`, `tp.Input`, `tp.init`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy
from sympy import Expr

from tplimits.errors import shown
from tplimits.program.language.tracing import exact, fail, plain, stated
from tplimits.program.nodes.laws import ORTHOGONAL, PLACES, Law, of_columns, truncated_normal, uniform
from tplimits.program.nodes.normalise import normalise


@dataclass(frozen=True)
class Kind:
    """An annotation: what the argument is ("Matrix", "Vector", "Scalar"), the names in brackets, and what follows.

    `index_of` names the axis whose indices data are, `law` is that of initial entries.
    """

    what: str
    names: tuple[str, ...] = ()
    index_of: str | None = None
    law: Law | None = None

    def __repr__(self) -> str:
        shown = f"tp.{self.what}" + (f"[{', '.join(map(repr, self.names))}]" if self.names else "")
        shown += f".of({self.index_of!r})" if self.index_of else ""
        if self.law is None:
            return shown
        of = of_columns(self.law, "columns") if self.what == "Matrix" else self.law.described()
        return f"{shown} with entries {of}"

    @stated("tp.Input[…].of")
    def of(self, axis: str) -> Kind:
        """Data that are indices of an axis, such as tokens: `x: tp.Input["token"].of("vocab")`."""
        if self.what != "Input":
            fail(f"{self!r}.of(…)", 'only data are indices: tp.Input["token"].of("vocab")')
        if not isinstance(axis, str) or not axis.isidentifier():
            fail(f"{self!r}.of({axis!r})", 'an axis is a name in quotes: tp.Input["token"].of("vocab")')
        return replace(self, index_of=axis)

    @stated("tp.Vector[…].normal")
    def normal(self, mean: Any = 0, std: Any = 1) -> Kind:
        """Entries N(mean, std²)."""
        if self.what == "Matrix":
            return self._of_unit_variance("normal", Law(), mean == 0 and std == 1)
        return self._drawn("normal", Law(*_numbers("normal", mean=mean, std=std)))

    @stated("tp.Vector[…].uniform")
    def uniform(self, low: Any = None, high: Any = None) -> Kind:
        """Entries uniform in [low, high]: `w: tp.Vector["d"].uniform(-1, 1)`; `W: tp.Matrix.uniform()` without ends."""
        if self.what == "Matrix":
            return self._of_unit_variance("uniform", Law(shape="uniform"), low is None and high is None)
        a, b = _numbers("uniform", low=low, high=high)
        if (b - a).is_positive is False:
            fail(f"{self!r}.uniform({low}, {high})", "give the lower end first")
        return self._drawn("uniform", uniform(a, b))

    @stated("tp.Vector[…].truncated")
    def truncated(self, std: Any = None, at: Any = None) -> Kind:
        """Entries N(0, std²), given that they lie within ±at; of a matrix, normal within ±at deviations."""
        if self.what == "Matrix":
            (cut,) = _numbers("truncated", at=at)
            if cut.is_positive is False:
                fail(f"{self!r}.truncated(at={at})", "give a positive end")
            return self._of_unit_variance("truncated", Law(shape="truncated", cut=cut), std is None)
        spread, end = _numbers("truncated", std=std, at=at)
        if spread.is_positive is False or end.is_positive is False:
            fail(f"{self!r}.truncated({std}, {at})", "give a positive standard deviation, and a positive end")
        return self._drawn("truncated", truncated_normal(spread, end))

    @stated("tp.Vector[…].signs")
    def signs(self, size: Any = 1) -> Kind:
        """Entries size and −size, each with probability ½; those of a matrix are ±1/√columns."""
        if self.what == "Matrix":
            return self._of_unit_variance("signs", Law(shape="signs"), size == 1)
        (number,) = _numbers("signs", size=size)
        if number.is_positive is False:
            fail(f"{self!r}.signs({size})", "give a positive size")
        return self._drawn("signs", Law(sympy.S.Zero, number, "signs"))

    @stated("tp.Vector[…].grid")
    def grid(self) -> Kind:
        """The places of neurons along a width: (j + ½)/n for neuron j, the same in every draw and never trained."""
        if self.what != "Vector":
            fail(f"{self!r}.grid()", "places of neurons are a vector: u: tp.Vector.grid()")
        return self._drawn("grid", PLACES)

    @stated("tp.Vector[…].constant")
    def constant(self, value: Any) -> Kind:
        """The same number for all entries."""
        (number,) = _numbers("constant", value=value)
        return self._drawn("constant", Law(number, sympy.S.Zero))

    @stated("tp.Matrix[…].orthogonal")
    def orthogonal(self, *_: Any) -> Kind:
        """A uniformly distributed orthogonal matrix: networks draw it, limits have it in one direction alone."""
        if self.what != "Matrix":
            repair = "leave it out: vectors with iid entries are orthogonal in the limit"
            fail(f"{self!r}.orthogonal(): entries of vectors and scalars are independent", repair)
        if len(set(self.names[:2])) == 2:
            fail(f"{self!r}.orthogonal(): it is not square", 'give one width twice: tp.Matrix["n", "n"]')
        return self._of_unit_variance("orthogonal", Law(shape=ORTHOGONAL), not _)

    def _of_unit_variance(self, call: str, law: Law, unscaled: bool) -> Kind:
        """A law of entries of a matrix, of which the shape alone is free."""
        if not unscaled or self.law is not None:
            fail(
                f"{self!r}.{call}(…)",
                f"entries of matrices are iid with mean 0 and variance 1/columns, of one law: write "
                f"W: tp.Matrix.{call}({'at=2' if call == 'truncated' else ''}) and a factor in the program",
            )
        return replace(self, law=law)

    def _drawn(self, call: str, law: Law) -> Kind:
        if self.what not in ("Vector", "Scalar"):
            fail(
                f"{self!r}.{call}(…)",
                f"laws are those of tp.Vector and tp.Scalar; {_UNDRAWN.get(self.what, 'other arguments are given')}",
            )
        if self.law is not None:
            fail(f"{self!r}.{call}(…)", "entries have one law")
        return replace(self, law=law)


#: what may be said of entries
_LAWS = ("normal", "uniform", "truncated", "signs", "grid", "constant", "orthogonal")
#: what else an annotation stands for
_UNDRAWN = {"Matrix": "entries of matrices are iid with mean 0 and variance 1/columns", "Input": "data are given"}


def _numbers(call: str, **values: Any) -> list[Expr]:
    """Numbers of a law, or expressions in widths, as exact expressions."""
    found = []
    for name, value in values.items():
        value = plain(value)
        try:
            found.append(normalise(value) if isinstance(value, Expr) else exact(value))
        except (TypeError, ValueError) as error:
            fail(f"{call}({name}={shown(value)}): {error}", "give a finite real number")
    if "std" in values and call != "truncated" and found[1].is_negative:
        fail(f"{call}(std={values['std']})", "a standard deviation is not negative")
    return found


class _Annotation(type):
    """Lets `tp.Vector["token"]` and plain `tp.Vector` both stand as annotations."""

    def __getitem__(cls, names: Any) -> Kind:
        names = names if isinstance(names, tuple) else (names,)
        for name in names:
            if not isinstance(name, str) or not name.isidentifier():
                fail(f"tp.{cls.__name__}[{name!r}]", 'axes and widths are names in quotes: tp.Vector["token"]')
        finite = names[2:] if cls.__name__ == "Matrix" else names  # the two widths of a matrix may be the same
        if len(set(finite)) != len(finite) or (cls.__name__ == "Matrix" and set(finite) & set(names[:2])):
            fail(f"tp.{cls.__name__}[{', '.join(names)}]", "a finite axis stands only once")
        return Kind(cls.__name__, names)

    def __call__(cls, *_: Any, **__: Any) -> Any:
        fail(f"tp.{cls.__name__}(…)", f'tp.{cls.__name__} annotates an argument: `x: tp.{cls.__name__}["token"]`')

    def __getattr__(cls, name: str) -> Any:
        """What follows brackets may follow the plain name, `tp.Vector.uniform(−1, 1)`, and is refused alike."""
        if name in _LAWS:
            return getattr(Kind(cls.__name__), name)
        raise AttributeError(name)


class Matrix(metaclass=_Annotation):
    """An initial matrix with iid N(0, 1/columns) entries; `tp.Matrix["k", "n", "head"]` maps width n to k.

    Entries of another shape, with the same variance: `.uniform()`, `.truncated(at=2)` for normal ones within two
    deviations, `.signs()`.
    """


class Vector(metaclass=_Annotation):
    """An initial vector with iid N(0, 1) entries; `tp.Vector["k", "token"]` lives on width k.

    Entries of another law are written behind it: `.normal(mean, std)`, `.uniform(low, high)`, `.truncated(std, at)` for
    N(0, std²) within ±at, `.signs(size)`, `.constant(value)`.  `.grid()` are places of neurons.

    >>> Vector["k", "token"], Vector["token"].uniform(-1, 1)
    (tp.Vector['k', 'token'], tp.Vector['token'] with entries uniform in [-1, 1])
    """


class Scalar(metaclass=_Annotation):
    """A number, or a family of numbers over finite axes; with a law, as of `tp.Vector`, drawn where none are given."""


class Input(metaclass=_Annotation):
    """Data of a network: numbers over finite axes, given with every input; with `.of`, indices of an axis.

    >>> Input["d", "token"], Input["token"].of("vocab")
    (tp.Input['d', 'token'], tp.Input['token'].of('vocab'))
    """

    @staticmethod
    def of(axis: str) -> Kind:
        """One index of an axis."""
        return Kind("Input").of(axis)


class State(metaclass=_Annotation):
    """What a block takes and gives back: a vector over n, one per index of its axes.

    >>> State["token"]
    tp.State['token']
    """


@dataclass(frozen=True)
class Init:
    """The law of an initial vector, written as a default: `g: tp.Vector = tp.init(std=2)`."""

    law: Law


@stated("tp.init")
def init(mean: Any = 0, std: Any = 1) -> Init:
    """The law N(mean, std²) of the entries of an initial vector.

    >>> init(std=2).law
    Law(mean=0, std=2, shape='normal', cut=None)
    """
    return Init(Law(*_numbers("tp.init", mean=mean, std=std)))


def as_kind(annotation: Any) -> Kind | None:
    """The Kind an annotation stands for, or None."""
    if isinstance(annotation, Kind):
        return annotation
    if isinstance(annotation, _Annotation):
        return Kind(annotation.__name__)
    return None
