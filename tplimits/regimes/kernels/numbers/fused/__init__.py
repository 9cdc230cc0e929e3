"""Recursions without finite axes: all layers of one pair of inputs, one after the other, in one loop."""
