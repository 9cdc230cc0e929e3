from . import blocks as blocks
from . import descent as descent
from . import regression as regression
from . import targets as targets
from . import training as training
