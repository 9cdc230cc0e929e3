from . import evaluation as evaluation
from . import perceptron as perceptron
