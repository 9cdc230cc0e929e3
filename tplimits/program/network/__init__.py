"""Networks and blocks: data, gradients, tangents, losses, rates, programs on all inputs at once."""
