"""Depth proportional to width: the covariance SDE of a block.

What `__init__.pyi` lists is imported on first use: a limit is derived before it is printed or drawn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
