"""The kernels of a network at initialisation: NNGP and NTK."""
