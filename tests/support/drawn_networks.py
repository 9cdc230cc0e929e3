"""Networks of layers written at random: convolutions with strides, dilation and borders, pools, up-sampling, residual
branches, weights used twice, norms, attention, outputs that keep places.  The same seed gives the same source."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import numpy as np

import tplimits as tp

#: positive homogeneous and bounded activations; all have closed means
ACTIVATIONS = ("tp.relu({})", "tp.relu({})", "tp.leaky_relu({}, 0.2)", "tp.abs({})", "tp.erf({})")


@dataclass
class Sketch:
    """A network being written: x with places on an axis, a grid of one or two directions."""

    rng: random.Random
    grid: tuple[int, ...]
    axis: str = "at"
    arguments: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    #: matrices by their taps
    matrices: dict[tuple[int, ...], list[str]] = field(default_factory=dict)
    pieces: set[str] = field(default_factory=set)
    count: int = 0
    #: places of a mask that is data, 0 without one
    masked: int = 0

    @property
    def places(self) -> int:
        return math.prod(self.grid)

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def argument(self, letter: str, kind: str) -> str:
        name = self.name(letter)
        self.arguments[name] = kind
        return name

    def moved(self, windows: tuple[int, ...], stride: int, dilation: int, padding: str) -> tuple[int, ...]:
        """The grid behind a convolution; () where no window fits."""
        spans = [(w - 1) * dilation + 1 for w in windows]
        if padding != "VALID":
            return tuple(-(-s // stride) for s in self.grid)
        return (
            tuple((s - p) // stride + 1 for s, p in zip(self.grid, spans, strict=True))
            if all(map(int.__le__, spans, self.grid))
            else ()
        )

    def over(self) -> str:
        return f"{{{self.axis!r}: {self.grid if len(self.grid) > 1 else self.grid[0]}}}"

    def placed(self, text: str, grid: tuple[int, ...], axis: str) -> None:
        self.lines.append(f"x = {text}")
        self.grid, self.axis = grid, axis


def convolution(s: Sketch, first: bool = False, still: bool = False) -> str | None:
    """A convolution of x; `still`: its places stay."""
    windows = tuple(s.rng.choice((1, 2, 3, 3)) for _ in s.grid)
    stride, dilation = (1, 1) if still else (s.rng.choice((1, 1, 1, 2)), s.rng.choice((1, 1, 1, 2)))
    padding = s.rng.choice(("SAME", "CIRCULAR")) if still else s.rng.choice(("SAME", "SAME", "VALID", "CIRCULAR"))
    grid = s.moved(windows, stride, dilation, padding)
    if not grid:
        return None
    tap = "tap" + "x".join(map(str, windows))
    if first:
        weights = s.argument("U", f'tp.Vector["d", "{tap}"]')
    elif windows in s.matrices and s.rng.random() < 0.4:
        weights = s.rng.choice(s.matrices[windows])
        s.pieces.add("shared")
    else:
        weights = s.argument("W", f'tp.Matrix["n", "n", "{tap}"]')
        s.matrices.setdefault(windows, []).append(weights)
    s.pieces |= {padding, *(["stride"] * (stride > 1)), *(["dilation"] * (dilation > 1)), f"{len(grid)}-d"}
    to = s.axis if grid == s.grid else s.name("p")
    taps = f"{{{tap!r}: {windows if len(windows) > 1 else windows[0]}}}"
    text = (
        f"layers.conv{len(grid)}d(x, {weights}, over={s.over()}, taps={taps}, stride={stride}, "
        f"dilation={dilation}, padding={padding!r}, to={to!r})"
    )
    if still:
        return text
    factor = round(1 / math.sqrt(math.prod(windows)), 2)
    bias = f" + 0.3*{s.argument('b', 'tp.Vector')}" if s.rng.random() < 0.3 else ""
    s.placed(s.rng.choice(ACTIVATIONS).format(f"{factor}*{text}{bias}"), grid, to)
    return None


def residual(s: Sketch) -> None:
    text = convolution(s, still=True)
    s.lines.append(f"x = x + 0.5*{s.rng.choice(ACTIVATIONS).format(text)}")
    s.pieces.add("residual")


def pool(s: Sketch) -> None:
    if min(s.grid) < 2:
        return
    kind, grid = s.rng.choice(("avg", "sum")), tuple(g // 2 for g in s.grid)
    to = s.name("p")
    s.placed(f"layers.{kind}_pool(x, over={s.over()}, window=2, to={to!r})", grid, to)
    s.pieces.add("pool")


def upsampled(s: Sketch) -> None:
    if s.places > 4:
        return
    to, grid = s.name("p"), tuple(2 * g for g in s.grid)
    s.placed(f"layers.upsample(x, over={s.over()}, factor=2, to={to!r})", grid, to)
    s.pieces.add("upsample")


def normed(s: Sketch) -> None:
    s.lines.append(f"x = layers.{s.rng.choice(('layer_norm', 'rms_norm'))}(x, eps=0.1)")
    s.pieces.add("norm")


def attention(s: Sketch) -> None:
    if s.places > 8:
        return
    q, v = s.argument("Q", "tp.Matrix"), s.argument("V", "tp.Matrix")
    kind = s.rng.choice(("", "", "causal", "padding"))
    mask = f", mask={np.tri(s.places, dtype=int).tolist()}" if kind == "causal" else ""
    if kind == "padding" and "m" not in s.arguments:
        s.arguments["m"], s.masked, mask = f'tp.Input["{s.axis}"]', s.places, ", mask=m"
    s.lines += [f"q = layers.linear(x, {q})"]
    text = f"layers.attention(q, q, layers.linear(x, {v}), over={s.axis!r}, key={s.name('key')!r}{mask})"
    s.lines.append(f"x = {'x + ' if s.rng.random() < 0.6 else ''}{text}")
    s.pieces |= {"attention", *([kind] * bool(mask))}


PIECES = {convolution: 4, residual: 2, pool: 2, upsampled: 1, normed: 1.5, attention: 2}


def read_out(s: Sketch) -> str:
    kind = s.rng.choice(("flat", "flat", "mean", "places"))
    s.pieces.add(kind)
    v = s.argument("v", f'tp.Vector["{s.axis}"]' if kind == "flat" else "tp.Vector")
    if kind == "flat":
        return f"tp.sum({v}*x, over={s.axis!r})/{s.places}"
    return f"{v}*layers.global_pool(x, over={s.axis!r})" if kind == "mean" else f"{v}*x"


@dataclass(frozen=True)
class Drawn:
    """Source of a network called `net`, the shapes of its data, and what is in it."""

    seed: int
    source: str
    shape: tuple[int, int]
    masked: int
    pieces: frozenset[str]

    @property
    def network(self) -> tp.Program:
        names = {"tp": tp, "layers": tp.layers}
        exec(self.source, names)
        return names["net"]

    def data(self, many: int, offset: int = 0) -> dict[str, np.ndarray]:
        """Standard normal inputs; a mask hides some places, never the first."""
        rng = np.random.default_rng([self.seed, offset])
        found = {"ξ": rng.standard_normal((many, *self.shape))}
        if self.masked:
            found["m"] = (rng.random((many, self.masked)) < 0.6).astype(float)
            found["m"][:, 0] = 1
        return found


def drawn(seed: int) -> Drawn:
    """A network of one to four layers."""
    rng = random.Random(seed)
    s = Sketch(rng, tuple(rng.randint(2, 3) for _ in range(2)) if rng.random() < 0.3 else (rng.randint(3, 6),))
    shape = rng.randint(1, 3), s.places
    while not s.lines:
        convolution(s, first=True)
    for piece in rng.choices(list(PIECES), list(PIECES.values()), k=rng.randint(1, 3)):
        piece(s)
    result = read_out(s)
    signature = ", ".join(['ξ: tp.Input["d", "at"]', *(f"{n}: {k}" for n, k in s.arguments.items())])
    body = "\n".join(f"    {line}" for line in ["x = ξ", *s.lines, f"return {result}"])
    return Drawn(seed, f"@tp.network\ndef net({signature}):\n{body}\n", shape, s.masked, frozenset(s.pieces))
