"""Means to order 1/n and covariances of scalars, numerically: values, first derivatives and shifts on nodes."""
