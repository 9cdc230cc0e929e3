from .estimators import NNGPRegressor as NNGPRegressor
from .estimators import NTKClassifier as NTKClassifier
from .estimators import NTKRegressor as NTKRegressor
from .kernel import NetworkKernel as NetworkKernel
