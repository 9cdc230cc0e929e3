"""Kernels of networks of width n to order 1/n.

What `__init__.pyi` lists is imported on first use: means over pairs of inputs need SciPy and Numba.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
