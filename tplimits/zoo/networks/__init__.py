"""Ready networks, one a file, from a perceptron to a transformer block: programs for tp.Kernels().

Entries are found under their own names as programs of the zoo are; a paragraph "Infinite:" in the docstring of a file
names finite axes that are sent to infinity with the width.
"""

from tplimits.zoo.networks import (
    conv1d_pool,
    conv2d_flatten,
    gated_mlp,
    graph_convolution,
    layer_norm_mlp,
    many_heads,
    mlp,
    positional_encoding,
    pre_ln_mlp,
    recurrent,
    residual_attention,
    residual_mlp,
    rms_norm_mlp,
    skip_activation,
    tied_attention,
    transformer_block,
)

#: the files in reading order: perceptrons, normalised, recurrent, convolutional, attention
FILES = (
    *(mlp, residual_mlp, gated_mlp, skip_activation),
    *(pre_ln_mlp, layer_norm_mlp, rms_norm_mlp),
    *(recurrent, conv1d_pool, conv2d_flatten, graph_convolution),
    *(tied_attention, many_heads, residual_attention, positional_encoding, transformer_block),
)
