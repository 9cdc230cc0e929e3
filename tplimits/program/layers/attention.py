"""Attention of queries to keys and values, which linear layers have made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tplimits.program.language.axes import need_axis
from tplimits.program.language.operations import avg, constant, exp, softmax, sum
from tplimits.program.language.refusals import Refusals
from tplimits.program.language.tracing import fail, stated
from tplimits.program.layers.norms import neurons
from tplimits.program.layers.windows import value

if TYPE_CHECKING:
    from tplimits.program.language.values import Value


@stated("tp.layers.attention")
def attention(
    queries: Any, keys: Any, values: Any, *, over: str = "token", key: str = "key", mask: Any = None, scale: Any = 1
) -> Value:
    """Σ_s A_ts v_s, A = softmax over s of scale · (1/n) Σ_α q_tα k_sα, for each head by itself.

    over: the axis of the queries; that of keys and values is renamed to `key`, and stays where they have an axis `key`
    already (another sequence).  scale: tp.sqrt(tp.n) for logits that are divided by √n and stay random.
    mask: weights of logits, 1 or 0 for what is not seen: an array (queries, keys), or a value with the axes `over` and
    `key`, or with `over` alone for keys that are padding.  Heads are an axis of the matrices: queries, keys and values
    that have it give a result that has it, `tp.sum(O @ result, over="head")`.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def causal(x: tp.Vector["token"]):
    ...     return tp.layers.attention(0 * x, x, x, mask=[[1, 0], [1, 1]])
    >>> causal.run(n=1, x=[[2], [4]])["return"].ravel().tolist()
    [2.0, 3.0]
    """
    need_axis(over, neurons("attention", queries).axes, "attention", f"queries, {queries.describe()}")
    if key in queries.axes:
        fail(f"attention of queries with the axis `{key}` of the keys", 'call that of the keys otherwise: key="source"')
    keys, values = (_renamed(name, v, over, key) for name, v in (("keys", keys), ("values", values)))
    logits = scale * avg(queries * keys)
    if mask is None:
        return sum(softmax(logits, over=key) * values, over=key)
    weights = exp(logits) * _seen(mask, over, key)
    return sum(weights / sum(weights, over=key) * values, over=key)


def _renamed(name: str, x: Any, over: str, key: str) -> Value:
    """Keys or values along the axis `key`."""
    found = neurons(f"attention with {name}", x)
    if key in found.axes:
        return found
    if over not in found.axes:
        fail(f"attention with {name}, {found.describe()}", f"they have neither the axis `{over}` nor `{key}`")
    return found.rename(**{over: key})


def _seen(mask: Any, over: str, key: str) -> Value:
    """A mask along keys, from a table of numbers or a value."""
    if isinstance(mask, Refusals):
        seen = value("attention with a mask", mask)
        if seen.width is not None or not {over, key} & set(seen.axes):
            fail(f"attention with the mask {seen.describe()}", f"a mask is numbers along `{over}`, `{key}` or both")
        return seen if key in seen.axes else seen.rename(**{over: key})
    weights, numbers = constant(mask, axes=(over, key)), numpy.asarray(mask)
    if (numbers < 0).any():
        fail("attention with a negative weight in the mask", "logits are masked by 1 and 0, and nothing is added")
    if not numbers.any(axis=1).all():
        fail(f"attention with a mask that hides all keys of query {int(numbers.any(axis=1).argmin())}", "show one")
    return weights
