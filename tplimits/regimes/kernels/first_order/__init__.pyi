from . import evaluation as evaluation
from . import formulas as formulas
from . import perceptron as perceptron
