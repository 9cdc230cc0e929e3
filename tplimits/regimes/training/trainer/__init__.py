"""Networks in training as generated loops: finite widths, and limits of means over neurons.

What `__init__.pyi` lists is imported on first use: compilers stay out of `import tplimits`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
