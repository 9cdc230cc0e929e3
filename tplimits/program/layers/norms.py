"""Norms over neurons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tplimits.program.language.operations import avg, sqrt
from tplimits.program.language.tracing import fail, stated
from tplimits.program.layers.windows import value

if TYPE_CHECKING:
    from tplimits.program.language.values import Value


@stated("tp.layers.layer_norm")
def layer_norm(x: Any, gain: Any = None, bias: Any = None, eps: Any = 0) -> Value:
    """g (x − m)/√(v + ε) + b, m and v the mean and the variance over neurons, of each position and token by itself.

    gain, bias: vectors, as a rule `g: tp.Vector = 1` and `b: tp.Vector = 0`, or nothing.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def normed(x: tp.Vector):
    ...     return tp.layers.layer_norm(x)
    >>> normed.run(n=2, x=[1, 5])["return"].tolist()
    [-1.0, 1.0]
    """
    centred = neurons("layer_norm", x) - avg(x)
    return scaled(centred / sqrt(avg(centred**2) + eps), gain, bias)


@stated("tp.layers.rms_norm")
def rms_norm(x: Any, gain: Any = None, bias: Any = None, eps: Any = 0) -> Value:
    """g x/√(mean of x² over neurons + ε) + b.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def normed(x: tp.Vector):
    ...     return tp.layers.rms_norm(x)
    >>> normed.run(n=2, x=[3, -3])["return"].tolist()
    [1.0, -1.0]
    """
    return scaled(neurons("rms_norm", x) / sqrt(avg(x**2) + eps), gain, bias)


def neurons(what: str, x: Any) -> Value:
    """A vector of the program, or a ProgramError that names the layer."""
    if value(what, x).width is None:
        fail(f"{what} of {x.describe()}", "it is taken over neurons: send the data through a layer first")
    return x


def scaled(x: Value, gain: Any, bias: Any) -> Value:
    """The gain times x plus the bias, as far as they are given."""
    x = x if gain is None else gain * x
    return x if bias is None else x + bias
