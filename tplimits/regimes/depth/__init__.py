"""Depth proportional to width: the covariance SDE of a block."""
