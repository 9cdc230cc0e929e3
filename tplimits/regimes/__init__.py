"""The regimes: each a folder with a value that users give to derive(), its limit, its numbers and its claims.

What `__init__.pyi` lists is imported on first use: who derives one limit does not wait for the others.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
