"""Covariance SDEs in numbers, by the expansion of one layer in 1/n: blocks whose leading map is not the identity."""
