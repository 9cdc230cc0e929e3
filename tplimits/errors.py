"""What can go wrong, and who has to act.

Every error of the package is a `TplimitsError`; its text names what was found, where, and what
would repair it.

>>> issubclass(NoLimitError, TplimitsError)
True
"""

#: what people look for under names that there are not, and what does it
ELSEWHERE = {
    **dict.fromkeys(("silu", "swish", "SiLU"), "tp.elementwise(lambda z: z * tp.sigmoid(z))"),
    **dict.fromkeys(("mish",), "tp.elementwise(lambda z: z * tp.tanh(tp.softplus(z)))"),
    **dict.fromkeys(("elu", "ELU"), "tp.relu(z) + tp.exp(-tp.relu(-z)) - 1"),
    **dict.fromkeys(("logsumexp",), 'tp.log(tp.sum(tp.exp(z), over="axis"))'),
    **dict.fromkeys(("layer_norm", "LayerNorm", "layernorm"), "tp.layers.layer_norm(x)"),
    **dict.fromkeys(("rms_norm", "RMSNorm", "rmsnorm"), "tp.layers.rms_norm(x)"),
    **dict.fromkeys(("conv1d", "conv2d", "Conv2d"), "tp.layers.conv2d"),
    **dict.fromkeys(("attention", "MultiheadAttention"), "tp.layers.attention"),
    **dict.fromkeys(("linear", "Linear", "Dense"), "W @ x, or tp.layers.linear"),
    **dict.fromkeys(("adam", "Adamw", "AdamW", "adamw"), "tp.Adam(), with weight_decay= of the regime for AdamW"),
    **dict.fromkeys(("sgd", "Momentum"), "tp.SGD(momentum=0.9)"),
    **dict.fromkeys(
        ("lion", "Lion"), "tp.Entrywise(Q, states=…), with the update as a function of gradients and states"
    ),
    **dict.fromkeys(("mse", "mse_loss", "MSELoss"), "tp.squared_error(y)"),
    **dict.fromkeys(("CrossEntropyLoss",), "tp.cross_entropy(labels)"),
    **dict.fromkeys(("einsum", "matmul", "dot"), 'W @ x for matrices, tp.avg(x * y) or tp.sum(a * b, over="axis")'),
    **dict.fromkeys(("muP", "mup"), "tp.MUP"),
}


def elsewhere(name: str) -> AttributeError:
    """The answer to a name that the package does not have.

    >>> elsewhere("silu")
    AttributeError('tplimits has no `silu`; what does it: tp.elementwise(lambda z: z * tp.sigmoid(z)).')
    """
    does = f"; what does it: {ELSEWHERE[name]}" if name in ELSEWHERE else ""
    return AttributeError(f"tplimits has no `{name}`{does}.", name=name)


class TplimitsError(Exception):
    """The root of all errors raised on purpose by this package; their text can be printed as it is."""

    def __init__(self, message: str = "", *others: object) -> None:
        super().__init__(printable(str(message)), *others)


def printable(text: str) -> str:
    r"""A text with escapes in the place of what would move a cursor or turn a line around.

    >>> print(printable("a\x1b[31m\u202eb"))
    a\x1b[31m\u202eb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def shown(value: object, most: int = 200) -> str:
    """What was given, as it may stand in a message: short, and whatever its own text does.

    >>> print(shown("x" * 300, 9), shown([1.5, None]))
    'xxxxx... [1.5, None]
    """
    try:
        text = repr(value)
    except Exception:  # the code of users
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


class ProgramError(TplimitsError):
    """The text of a program is not legal: which line, what was found, what would fix it."""


class NoLimitError(TplimitsError):
    """The limit does not exist or a hypothesis fails: which line, which hypothesis, which term.

    `verdict` is the verdict of the derivation where there is one: it holds the conditions on the parameters.
    """

    def __init__(self, message: str, verdict: object = None) -> None:
        super().__init__(message)
        self.verdict = verdict


class EvaluationError(TplimitsError):
    """A number cannot be given: bad shapes, NaN, too few particles, moment not established."""


class CheckError(TplimitsError):
    """A finite-width check cannot be run as asked."""
