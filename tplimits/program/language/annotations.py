"""What an argument of a traced function can be: `tp.Matrix`, `tp.Vector`, `tp.Scalar`, `tp.Input`, `tp.init`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sympy import Expr

from tplimits.program.language.signatures import stated
from tplimits.program.language.tracing import exact, fail, plain
from tplimits.program.nodes.kinds import Law
from tplimits.program.nodes.normalise import normalise


@dataclass(frozen=True)
class Kind:
    """An annotation: what the argument is ("Matrix", "Vector", "Scalar"), the names in brackets, and what follows.

    `index_of` names the axis whose indices data are.
    """

    what: str
    names: tuple[str, ...] = ()
    index_of: str | None = None

    def __repr__(self) -> str:
        shown = f"tp.{self.what}" + (f"[{', '.join(map(repr, self.names))}]" if self.names else "")
        return shown + (f".of({self.index_of!r})" if self.index_of else "")

    @stated("tp.Input[…].of")
    def of(self, axis: str) -> Kind:
        """Data that are indices of an axis, such as tokens: `x: tp.Input["token"].of("vocab")`."""
        if self.what != "Input":
            fail(f"{self!r}.of(…)", 'only data are indices: tp.Input["token"].of("vocab")')
        if not isinstance(axis, str) or not axis.isidentifier():
            fail(f"{self!r}.of({axis!r})", 'an axis is a name in quotes: tp.Input["token"].of("vocab")')
        return replace(self, index_of=axis)


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


class Matrix(metaclass=_Annotation):
    """An initial matrix with iid N(0, 1/columns) entries; `tp.Matrix["k", "n", "head"]` maps width n to k."""


class Vector(metaclass=_Annotation):
    """An initial vector with iid N(0, 1) entries; `tp.Vector["k", "token"]` lives on width k.

    >>> Vector["k", "token"]
    tp.Vector['k', 'token']
    """


class Scalar(metaclass=_Annotation):
    """A number, or a family of numbers over finite axes."""


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
    Law(mean=0, std=2)
    """
    values = []
    for name, value in (("mean", mean), ("std", std)):
        value = plain(value)
        try:
            values.append(normalise(value) if isinstance(value, Expr) else exact(value))
        except (TypeError, ValueError) as error:
            fail(f"tp.init({name}={value!r}): {error}", "give a finite real number")
    if values[1].is_negative:
        fail(f"tp.init(std={std})", "a standard deviation is not negative")
    return Init(Law(*values))


def as_kind(annotation: Any) -> Kind | None:
    """The Kind an annotation stands for, or None.

    >>> as_kind(Matrix), as_kind(float)
    (tp.Matrix, None)
    """
    if isinstance(annotation, Kind):
        return annotation
    if isinstance(annotation, _Annotation):
        return Kind(annotation.__name__)
    return None
