from . import blocks as blocks
from . import regression as regression
from . import training as training
