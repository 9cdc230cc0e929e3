"""Kernels as recursions over tables of pairs of inputs."""
