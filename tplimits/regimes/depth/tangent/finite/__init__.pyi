from . import judged as judged
