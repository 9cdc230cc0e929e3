"""Texts of unequal length that Python brings along: docstrings of its standard library, and embeddings of their words.

Sources are parsed, not imported.  Words have embeddings from what stands near them in the library's documentation: the
first singular vectors of the logarithm of how much more often two words are close than by chance (PPMI, Levy &
Goldberg 2014). Many dimensions tell words apart; few of them are weak embeddings.
"""

from __future__ import annotations

import ast
import collections
import pathlib
import re
import sysconfig
from collections.abc import Sequence
from functools import cache
from pydoc_data.topics import topics

import numpy as np
import scipy.sparse

Array = np.ndarray
LIBRARY = pathlib.Path(sysconfig.get_paths()["stdlib"])
#: packages whose docstrings make embeddings, with the documentation of the language itself
PACKAGES = (
    "asyncio",
    "email",
    "unittest",
    "importlib",
    "logging",
    "http",
    "urllib",
    "xml",
    "multiprocessing",
    "concurrent",
)
NEAR, RARE = 4, 4


def words(text: str) -> list[str]:
    return re.findall(r"[a-z_]+", text.lower())


@cache
def docstrings(package: str) -> tuple[str, ...]:
    """All docstrings of a package, in the order of files and lines, each once."""
    found = {}
    for file in sorted((LIBRARY / package).rglob("*.py")):
        if "test" not in file.parts[len(LIBRARY.parts) : -1]:
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    found[ast.get_docstring(node)] = None
    return tuple(text for text in found if text)


@cache
def embeddings(dimensions: int) -> dict[str, Array]:
    """Vectors of words with entries of mean square 1."""
    texts = [words(t) for t in (*topics.values(), *(t for p in PACKAGES for t in docstrings(p)))]
    counts = collections.Counter(w for text in texts for w in text)
    known = sorted(w for w, many in counts.items() if many >= RARE)
    place = {w: i for i, w in enumerate(known)}
    pairs: collections.Counter[tuple[int, int]] = collections.Counter()
    for text in texts:
        at = [place.get(w, -1) for w in text]
        for i, one in enumerate(at):
            pairs.update((one, other) for other in at[i + 1 : i + 1 + NEAR] if one >= 0 and other >= 0)
    rows, columns = np.array(list(pairs)).T
    near = scipy.sparse.coo_array(
        (np.fromiter(pairs.values(), float), (rows, columns)), shape=(len(known),) * 2
    ).tocsr()
    near = (near + near.T).tocoo()
    by_word = near.sum(axis=0)
    more = np.log(near.data * near.sum() / (by_word[near.row] * by_word[near.col]))
    positive = scipy.sparse.coo_array((np.maximum(more, 0), (near.row, near.col)), shape=near.shape)
    left, values, _ = scipy.sparse.linalg.svds(positive.tocsr(), k=dimensions, v0=np.ones(len(known)))
    vectors = left * np.sqrt(values)
    vectors *= np.sqrt(dimensions) / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    return dict(zip(known, vectors, strict=True))


def texts(packages: Sequence[str], each: int, shortest: int = 8, longest: int = 40) -> tuple[list[list[str]], Array]:
    """`each` texts of every package by turns, of known words, cut at the longest; and which package each is from."""
    known, found = embeddings(2), []
    for package in packages:
        all_texts = ([w for w in words(t) if w in known][:longest] for t in docstrings(package))
        found.append([t for t in all_texts if len(t) >= shortest][:each])
    if min(map(len, found)) < each:
        raise ValueError(f"{dict(zip(packages, map(len, found), strict=True))} texts, {each} of each are asked for")
    return [t for same in zip(*found, strict=True) for t in same], np.tile(np.arange(len(packages)), each)


def arrays(some: Sequence[Sequence[str]], dimensions: int, terms: int = 24, φ: float = 2.5) -> dict[str, Array]:
    """Inputs: padded embeddings ξ, masks m, and encodings c with c(t)·c(t′) = exp(−φ (t − t′)²), t = a/s."""
    vectors, most = embeddings(dimensions), max(map(len, some))
    ξ, m, c = (np.zeros((len(some), most, *more)) for more in ((dimensions,), (), (terms,)))
    for i, text in enumerate(some):
        s = len(text)
        ξ[i, :s], m[i, :s] = [vectors[w] for w in text], 1
        t, factor = np.arange(1, s + 1) / s, np.ones(s)
        for k in range(terms):
            c[i, :s, k] = np.exp(-φ * t**2) * factor
            factor = factor * t * np.sqrt(2 * φ / (k + 1))
    return {"ξ": ξ, "m": m, "c": c}
