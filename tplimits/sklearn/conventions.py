"""What is used of scikit-learn: loaded here and nowhere else, so that its absence is told once."""

from __future__ import annotations

from tplimits.errors import EvaluationError

try:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.gaussian_process.kernels import Hyperparameter as Hyperparameter
    from sklearn.gaussian_process.kernels import Kernel as Kernel
    from sklearn.utils.metaestimators import available_if as available_if
    from sklearn.utils.multiclass import check_classification_targets as check_classification_targets
    from sklearn.utils.validation import check_is_fitted as check_is_fitted
    from sklearn.utils.validation import validate_data as validate_data
except ImportError as error:
    raise EvaluationError(
        f"tp.sklearn needs scikit-learn 1.6 or newer ({error}): pip install 'tplimits[sklearn]', or scikit-learn alone."
    ) from None
