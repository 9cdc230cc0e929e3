"""Covariance SDEs in numbers, by the expansion of one layer in 1/n: blocks whose leading map is not the identity.

What `__init__.pyi` lists is imported on first use: most blocks have formulas.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
