"""Layers under their conventional names, written on top of the language: what they do is in the program they leave.

No layer brings a parameter or a factor of its own: weights are arguments of the network, and 1/√(taps · channels) is
written where the layer is called.
"""

from tplimits.program.layers.attention import attention as attention
from tplimits.program.layers.convolution import conv1d as conv1d
from tplimits.program.layers.convolution import conv2d as conv2d
from tplimits.program.layers.convolution import conv_transpose1d as conv_transpose1d
from tplimits.program.layers.convolution import conv_transpose2d as conv_transpose2d
from tplimits.program.layers.dense import embedding as embedding
from tplimits.program.layers.dense import linear as linear
from tplimits.program.layers.norms import layer_norm as layer_norm
from tplimits.program.layers.norms import rms_norm as rms_norm
from tplimits.program.layers.pooling import avg_pool as avg_pool
from tplimits.program.layers.pooling import global_pool as global_pool
from tplimits.program.layers.pooling import sum_pool as sum_pool
from tplimits.program.layers.pooling import upsample as upsample
