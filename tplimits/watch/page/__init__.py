"""A recording as one HTML file that opens offline and computes every value again from the recorded parameters.

What `__init__.pyi` lists is imported on first use: SciPy stays out of `import tplimits`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
