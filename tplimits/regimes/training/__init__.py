"""Training at infinite width: feature learning, and the operator regime.

What `__init__.pyi` lists is imported on first use: classification derives a limit of training where it is asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
