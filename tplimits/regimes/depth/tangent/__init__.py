"""Gradients along depth: the covariance SDE of the tokens and of a perturbation of them.

What `__init__.pyi` lists is imported on first use: SciPy and Numba stay out of `import tplimits`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
