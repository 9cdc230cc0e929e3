"""Kernels of networks in scikit-learn's conventions; scikit-learn is an extra, loaded when a name of this page is used.

What `__init__.pyi` lists is imported on first use: `import tplimits` does not load scikit-learn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
