"""What a limit says of itself: plain text, LaTeX, MathML, JSON, citations.

What `__init__.pyi` lists is imported on first use: a limit that nobody looks at needs no MathML.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
