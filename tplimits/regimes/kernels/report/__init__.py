"""Kernels as text, LaTeX, and an outline that repeats layers once.

What `__init__.pyi` lists is imported on first use: a limit is derived before it is printed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
