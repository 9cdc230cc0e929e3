"""A program being written: lines of Python, values to go on from, and what is delicate about them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: sizes of the finite axes that drafts use
SIZES = {"token": 2, "head": 2}


@dataclass(frozen=True)
class Value:
    """A vector (with a width) or a scalar, by the text that stands for it.

    `degree` is its growth in Gaussian variables: averages are taken of low degrees only, because heavy tails need
    more draws than anyone has.  `image` says that it is a product with a matrix.
    """

    text: str
    width: str | None = "n"
    axes: tuple[str, ...] = ()
    degree: int = 1
    image: bool = False


@dataclass(frozen=True)
class Case:
    """What is judged: the source of one object called `subject`, and the keywords of its regime.

    `traps` name what is delicate in it, `source` is complete Python, so that a person can paste it.
    """

    seed: int
    regime: str
    source: str
    options: dict[str, Any] = field(default_factory=dict)
    traps: tuple[str, ...] = ()

    def __str__(self) -> str:
        options = "\n".join(f"# {name} = {value}" for name, value in self.options.items())
        return f"# seed {self.seed}: {self.regime}; {', '.join(self.traps) or 'plain'}\n{options}\n{self.source}"


@dataclass
class Draft:
    """Arguments in an order of their own, statements, the values that they made, and the traps among them."""

    rng: random.Random
    arguments: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    traps: list[str] = field(default_factory=list)
    #: without nearly jumping functions, along which steps of training are straight in very wide networks only
    gentle: bool = False
    _count: int = 0

    def argument(self, name: str, annotation: str, default: str | None = None) -> str:
        """The name of an argument, declared once."""
        if default is None:
            self.arguments[name] = annotation
        else:
            self.defaults[name] = f"{annotation} = {default}"
        return name

    def keep(self, value: Value) -> Value:
        """A value that later statements may use."""
        self.values.append(value)
        return value

    def let(self, text: str, like: Value, **changed: Any) -> Value:
        """One more statement, whose value is like another one but for what is said."""
        self._count += 1
        name = f"{'s' if changed.get('width', like.width) is None else 'y'}{self._count}"
        self.lines.append(f"{name} = {text}")
        made = {"width": like.width, "axes": like.axes, "degree": like.degree, "image": False, **changed}
        return self.keep(Value(name, **made))

    def trap(self, name: str) -> None:
        """What is delicate about the draft."""
        if name not in self.traps:
            self.traps.append(name)

    def some(self, options: Sequence[Any]) -> Any:
        """One of several."""
        return self.rng.choice(list(options))

    def chance(self, probability: float) -> bool:
        """True as often as that."""
        return self.rng.random() < probability

    def number(self, low: float = 0.3, high: float = 1.2) -> str:
        """A multiplier, short in print."""
        sign = "-" if self.chance(0.3) else ""
        return f"{sign}{round(self.rng.uniform(low, high), 1)}"

    def vector(self, width: str | None = None, axes: tuple[str, ...] | None = None) -> Value | None:
        """A vector that is there, later ones more often; None where none fits."""
        fitting = [
            v
            for v in self.values
            if v.width is not None and (width in (None, v.width)) and (axes is None or v.axes == axes)
        ]
        if not fitting:
            return None
        return self.some(fitting[-3:]) if self.chance(0.6) else self.some(fitting)

    def scalar(self) -> Value | None:
        """A scalar without axes that is there."""
        fitting = [v for v in self.values if v.width is None and not v.axes]
        return self.some(fitting) if fitting else None

    def signature(self) -> str:
        """All arguments in a random order; those with a default stand last, as Python wants it."""
        first, last = ([*d.items()] for d in (self.arguments, self.defaults))
        self.rng.shuffle(first)
        self.rng.shuffle(last)
        return ", ".join(f"{name}: {annotation}" for name, annotation in first + last)

    def source(self, decorator: str, result: str, constants: Sequence[str] = (), first: str = "") -> str:
        """The function as text; `first` is an argument that stands before all others."""
        used = [*self.lines, f"return {result}"]
        keywords = f", *, {', '.join(constants)}" if constants else ""
        body = "\n".join(f"    {line}" for line in used)
        signature = ", ".join(x for x in (first, self.signature()) if x)
        return f"@tp.{decorator}\ndef subject({signature}{keywords}):\n{body}\n"
