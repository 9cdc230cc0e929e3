"""Gradients of real networks: backpropagation through chains of layers, and responses to perturbations.

What `__init__.pyi` lists is imported on first use: SciPy and Numba stay out of `import tplimits`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
