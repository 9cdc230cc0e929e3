"""Attention with logits q·k/√d, independent matrices, no softmax, and infinitely many heads.

Logits stay random; the mean over heads makes the output Gaussian. With a fixed number of heads it is a mixture.

Limit: NNGP → mean of C = K ⟨K, K⟩ and NTK → mean of 5C + 2K⟨K, Θ⟩ + Θ⟨K, K⟩ over tokens, ⟨ , ⟩ the sum of products of
entries of blocks of the pair (ξ, ξ′), Θ = K = ξ·ξ′/d

Infinite: head

Symbols: ξ and ξ′ are inputs of three tokens with d entries; WQ, WK and WV have entries N(0, 1/n), WO N(0, 1/k),
vectors N(0, 1).

Reference: Hron et al. 2020, Infinite attention, ICML
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, mean, size, sqrt, sum, width
from tplimits.program.network.network import network


@network
def many_heads(
    ξ: Input["d", "token"],
    U: Vector["d"],
    WQ: Matrix["k", "n", "head"],
    WK: Matrix["k", "n", "head"],
    WV: Matrix["k", "n", "head"],
    WO: Matrix["n", "k", "head"],
    v: Vector,
):
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    q, k, values = WQ @ x, WK @ x, (WV @ x).rename(token="key")
    G = sqrt(width("k")) * avg(q * k.rename(token="key"))
    y = sum(WO @ sum(G * values, over="key"), over="head") / sqrt(size("head"))
    return v * mean(y, over="token")


many_heads = many_heads.bind(token=3)
