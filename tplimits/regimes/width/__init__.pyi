from . import evaluation as evaluation
