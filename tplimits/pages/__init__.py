"""What every report looks like in a terminal, a notebook and a browser; it knows nothing of what it reports.

What `__init__.pyi` lists is imported on first use: a limit that nobody looks at needs no templates.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
