"""Random programs of the width limit."""

from __future__ import annotations

import random

from fuzz import disguises, everyday, fluctuations, pieces, seams
from fuzz.draft import SIZES, Case, Draft, Value

PIECES = {
    pieces.image: 6,
    pieces.mapped: 5,
    pieces.combined: 4,
    pieces.averaged: 3,
    pieces.scaled: 3,
    pieces.normed: 1,
    pieces.paired: 1,
    pieces.attended: 1,
    pieces.tokens: 1,
    pieces.headed: 1,
    pieces.radial: 1.5,
    fluctuations.fluctuating: 0.7,
    fluctuations.quotient: 1,
    disguises.ones: 2,
    disguises.constant_vector: 1,
    disguises.domain: 1.5,
    seams.seam: 2.5,
    seams.at_value: 1,
    **everyday.PIECES,
}

#: of the second width to n
RATIOS = (0.5, 2, 3)


def begun(rng: random.Random) -> Draft:
    """A draft with initial vectors: two plain ones, one of another law, one a token, one over another width."""
    draft = Draft(rng)
    draft.keep(Value(draft.argument("x", "tp.Vector")))
    if draft.chance(0.7):
        draft.keep(Value(draft.argument("y", "tp.Vector")))
    if draft.chance(0.4):
        law = f"tp.init(mean={draft.some((0.5, -1, 1))}, std={draft.some((0.5, 1, 2))})"
        draft.keep(Value(draft.argument("b", "tp.Vector", draft.some((law, law, "1")))))
    if draft.chance(0.3):
        draft.keep(Value(draft.argument("t", 'tp.Vector["token"]'), axes=("token",)))
    if draft.chance(0.2):
        draft.keep(on_other_width(draft))
    return draft


def on_other_width(draft: Draft) -> Value:
    """A vector on a width of its own, whose mean is not 0, beside a matrix between the widths."""
    draft.argument("R", 'tp.Matrix["k", "n"]')
    law = f"tp.init(mean={draft.some((0.5, -1))}, std={draft.some((0.5, 1))})"
    draft.trap("mean on another width")
    return Value(draft.argument("c", 'tp.Vector["k"]', law), width="k")


def grow(draft: Draft, statements: int, weights: dict[pieces.Piece, float]) -> None:
    """So many statements, each a random piece."""
    made = 0
    for _ in range(6 * statements):
        made += draft.rng.choices(list(weights), list(weights.values()))[0](draft) is not None
        if made >= statements:
            return


def returned(draft: Draft) -> str:
    """Scalars to judge: means of functions of late vectors, scalars, and fluctuations now and then."""
    found = []
    for _ in range(draft.some((1, 1, 2))):
        x = draft.vector()
        y = draft.vector(x.width)
        text = draft.some(
            (
                f"tp.avg({pieces.tamed(draft, x, 2)}*{pieces.tamed(draft, y, 2)})",
                f"tp.avg({pieces.tamed(draft, x, 2)}**2)",
                f"tp.avg({pieces.tamed(draft, x, 4)})",
                f"tp.avg(tp.cos({x.text}))",
            )
        )
        found.append(text)
    s = draft.scalar()
    if s is not None and draft.chance(0.5):
        found.append(s.text)
    if draft.chance(0.1):
        v = draft.vector("n", ())
        u = draft.argument("u", "tp.Vector")
        draft.trap("fluctuation")
        found.append(f"tp.sqrt(tp.n)*tp.avg({u}*{pieces.tamed(draft, v, 1)})")
    return ", ".join(dict.fromkeys(found))


def width_case(seed: int) -> Case:
    """A random program; the ratio of its second width is not 1."""
    rng = random.Random(seed)
    draft = begun(rng)
    grow(draft, rng.randint(3, 9), PIECES)
    result = returned(draft)
    source = draft.source("program", result)
    sizes = {axis: size for axis, size in SIZES.items() if f'"{axis}"' in source.splitlines()[1]}
    options = {"bind": sizes, "ratios": {"k": rng.choice(RATIOS)} if '"k"' in source else {}}
    return Case(seed, "width", source, options, tuple(draft.traps))
