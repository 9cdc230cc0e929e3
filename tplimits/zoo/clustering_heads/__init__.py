"""What belongs to the network `sparse_modular_addition`: its task, its start and training, its measures, its pictures.

What `__init__.pyi` lists is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
