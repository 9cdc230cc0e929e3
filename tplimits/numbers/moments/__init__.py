"""Means of functions of Gaussian variables as functions of their covariances.

What `__init__.pyi` lists is imported on first use: Numba stays out of drifts that hold no such mean.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
