"""Kernels of networks of width n to order 1/n."""
