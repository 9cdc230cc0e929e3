"""A transformer of one layer and one query that learns sparse modular addition, as wide as its perceptron.

Limit: ψ → ξ + c + 32 E[u gelu(w·ξ̄ + b)], a mean field: E, P, q, V and c stay numbers, one law of (w, b, u) moves with
them; at the start ψ = ξ + c

Symbols: x are tokens; z = √d (E + P)/|E + P| a table over tokens and positions; s = softmax(q·z/√d); ξ = V Σ s z;
ξ̄ = √d ξ/|ξ|; logits E·ψ.  32 is the base width: there the network in μP is the one that was published.

Reference: Odonnat, Bouaziz & Cabannes 2024, Clustering Head: A Visual Case Study of the Training Dynamics in
Transformers
"""

from sympy import Integer, Rational

from tplimits.program.language.annotations import Input, Scalar, Vector
from tplimits.program.language.operations import avg, exp, gelu, maximum, minimum, size, sqrt, sum
from tplimits.program.network.network import network
from tplimits.program.nodes.program import Program


def transformer(
    *, d: int = 2, vocab: int = 3, length: int = 12, base: int = 32, rms: bool = True, smooth: float | None = None
) -> Program:
    """The network with other sizes and another norm.

    base: the width h₀ at which μP is the network as published; the network as published at width h has base h.
    rms: x/√(mean of x²), as it was run; otherwise x/|x|, as it is printed.  smooth: x (3 − |x|²/τ²)/2τ for |x| < τ
    instead of x/|x|, which has no singular point.
    """
    inner, outer = 1 / Integer(d) ** Rational(1, 2), 1 / Integer(base) ** Rational(1, 2)

    def normed(x):
        radius = sqrt(size("d")) if rms else 1
        square = sum(x * x, over="d")
        if smooth is None:
            return radius * x / sqrt(square)
        square = square / smooth**2
        return radius * x * (3 - minimum(square, 1)) / (2 * smooth * sqrt(maximum(square, 1)))

    @network
    def sparse_modular_addition(
        x: Input["token"].of("vocab"),
        E: Scalar["vocab", "d"].normal(0, 1),
        P: Scalar["token", "d"].normal(0, 1),
        q: Scalar["d"].uniform(-inner, inner),
        V: Scalar["out", "d"].uniform(-inner, inner),
        c: Scalar["d"].uniform(-outer, outer),
        w: Vector["d"].uniform(-inner, inner),
        b: Vector.uniform(-inner, inner),
        u: Vector["d"].uniform(-outer, outer),
    ):
        S = E + P  # tables over tokens and positions: computed once, and looked up
        Z = normed(S)
        weight = exp(sum(q * Z, over="d") / sqrt(size("d")))
        VZ = sum(V * Z, over="d").rename(out="d")
        a = weight.sel(vocab=x)
        s = a / sum(a, over="token")
        ξ = sum(s * VZ.sel(vocab=x), over="token")
        ξ_bar = normed(ξ)
        act = gelu(sum(w * ξ_bar, over="d") + b)
        mlp = base * avg(u * act)
        (ξ + c + mlp).named("ψ")  # looked at; the output is the same mean, taken last
        label = E.rename(vocab="label")
        return sum(label * (ξ + c + base * u * act), over="d")

    return sparse_modular_addition.bind(d=d, out=d, vocab=vocab, token=length, label=vocab)


sparse_modular_addition = transformer()
