"""Ready networks, from a perceptron to a transformer block: programs for tp.Kernels().

Entries are found under their own names as programs of the zoo are; a paragraph "Infinite:" in the docstring of one
names finite axes that are sent to infinity with the width.
"""

from tplimits.zoo.networks import attention, normalised, perceptrons, shared_weights

#: the files in reading order
FILES = (perceptrons, normalised, shared_weights, attention)
