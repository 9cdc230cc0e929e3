"""The numerical stages, imported on first use: Numba and SciPy stay out of `import tplimits`.

This is the only place where an import waits inside a function.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def execution() -> ModuleType:
    """tplimits.program.run"""
    return importlib.import_module("tplimits.program.run")


def stepping() -> ModuleType:
    """tplimits.program.optimizers.stepping"""
    return importlib.import_module("tplimits.program.optimizers.stepping")


def joint_stepping() -> ModuleType:
    """tplimits.program.optimizers.joint_stepping"""
    return importlib.import_module("tplimits.program.optimizers.joint_stepping")


def evaluation() -> ModuleType:
    """tplimits.numeric.evaluation"""
    return importlib.import_module("tplimits.numeric.evaluation")


def intervals() -> ModuleType:
    """tplimits.numeric.intervals"""
    return importlib.import_module("tplimits.numeric.intervals")


def covariance() -> ModuleType:
    """tplimits.numeric.covariance"""
    return importlib.import_module("tplimits.numeric.covariance")


def kernels() -> ModuleType:
    """Gram matrices of kernel limits."""
    return importlib.import_module("tplimits.numeric.kernels.evaluation")


def kernel_request() -> ModuleType:
    """tplimits.numeric.kernels.request"""
    return importlib.import_module("tplimits.numeric.kernels.request")


def mixture() -> ModuleType:
    """tplimits.numeric.kernels.mixture"""
    return importlib.import_module("tplimits.numeric.kernels.mixture")


def blocks() -> ModuleType:
    """tplimits.numeric.inference.blocks"""
    return importlib.import_module("tplimits.numeric.inference.blocks")


def regression() -> ModuleType:
    """tplimits.numeric.inference.regression"""
    return importlib.import_module("tplimits.numeric.inference.regression")


def training() -> ModuleType:
    """tplimits.numeric.inference.training"""
    return importlib.import_module("tplimits.numeric.inference.training")


def maximal_request() -> ModuleType:
    """What a training run on particles is asked for."""
    return importlib.import_module("tplimits.numeric.training.request")


def maximal() -> ModuleType:
    """Training runs on particles."""
    return importlib.import_module("tplimits.numeric.training.run")


def tangent_request() -> ModuleType:
    """What a training run in the operator regime is asked for."""
    return importlib.import_module("tplimits.numeric.training.tangent_request")


def tangent() -> ModuleType:
    """Training runs in the operator regime."""
    return importlib.import_module("tplimits.numeric.training.tangent_run")


def training_plots() -> ModuleType:
    """tplimits.report.training.plots"""
    return importlib.import_module("tplimits.report.training.plots")


def paths() -> ModuleType:
    """tplimits.numeric.sde.simulation"""
    return importlib.import_module("tplimits.numeric.sde.simulation")


def check() -> ModuleType:
    """tplimits.check.verdict"""
    return importlib.import_module("tplimits.check.verdict")


def depth() -> ModuleType:
    """tplimits.check.depth"""
    return importlib.import_module("tplimits.check.depth")


def coordinates() -> ModuleType:
    """tplimits.check.coordinates"""
    return importlib.import_module("tplimits.check.coordinates")


def check_of_kernels() -> ModuleType:
    """Checks of kernel limits."""
    return importlib.import_module("tplimits.check.kernels")


def recipe() -> ModuleType:
    """How networks of finite width are trained."""
    return importlib.import_module("tplimits.check.recipe")


def check_of_training() -> ModuleType:
    """Checks of networks in training."""
    return importlib.import_module("tplimits.check.outputs")


def plots() -> ModuleType:
    """tplimits.report.plots"""
    return importlib.import_module("tplimits.report.plots")
