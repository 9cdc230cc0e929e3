"""tplimits: infinite-width limits of neural networks, derived, evaluated and checked.

The stages in reading order, each importing only those above it:

    errors      what can go wrong
    program     what runs at width n: tracing a Python function into instructions
    law         what it becomes, exactly: kets, rules, hypotheses, closed forms
    numbers     the number: quadrature, particles, compiled loops
    sampling    is it true: the same program at finite widths
    report      what a person reads: text, LaTeX, HTML
    regimes     the limits, a folder each: derivation, numbers, claims, report
    derive, check, watch, torch, sklearn      what users call
    cli         the command line
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

# the stage `tplimits.sampling`, and who reads it by this name, come before the function tp.check takes the name
import tplimits.regimes.classification.classification
import tplimits.sampling
import tplimits.sklearn
from tplimits.check import check as check
from tplimits.derive import derive as derive
from tplimits.errors import CheckError as CheckError
from tplimits.errors import EvaluationError as EvaluationError
from tplimits.errors import NoLimitError as NoLimitError
from tplimits.errors import ProgramError as ProgramError
from tplimits.errors import TplimitsError as TplimitsError
from tplimits.errors import elsewhere as _elsewhere
from tplimits.program import layers as layers
from tplimits.program.files.serial import from_json as from_json
from tplimits.program.files.serial import to_json as to_json
from tplimits.program.language.annotations import Input as Input
from tplimits.program.language.annotations import Matrix as Matrix
from tplimits.program.language.annotations import Scalar as Scalar
from tplimits.program.language.annotations import State as State
from tplimits.program.language.annotations import Vector as Vector
from tplimits.program.language.annotations import init as init
from tplimits.program.language.operations import abs as abs
from tplimits.program.language.operations import avg as avg
from tplimits.program.language.operations import clip as clip
from tplimits.program.language.operations import constant as constant
from tplimits.program.language.operations import cos as cos
from tplimits.program.language.operations import elementwise as elementwise
from tplimits.program.language.operations import erf as erf
from tplimits.program.language.operations import exp as exp
from tplimits.program.language.operations import expect as expect
from tplimits.program.language.operations import gelu as gelu
from tplimits.program.language.operations import leaky_relu as leaky_relu
from tplimits.program.language.operations import log as log
from tplimits.program.language.operations import maximum as maximum
from tplimits.program.language.operations import mean as mean
from tplimits.program.language.operations import minimum as minimum
from tplimits.program.language.operations import n as n
from tplimits.program.language.operations import neuron as neuron
from tplimits.program.language.operations import relu as relu
from tplimits.program.language.operations import sigmoid as sigmoid
from tplimits.program.language.operations import sign as sign
from tplimits.program.language.operations import sin as sin
from tplimits.program.language.operations import size as size
from tplimits.program.language.operations import softmax as softmax
from tplimits.program.language.operations import softplus as softplus
from tplimits.program.language.operations import sqrt as sqrt
from tplimits.program.language.operations import step as step
from tplimits.program.language.operations import stop_gradient as stop_gradient
from tplimits.program.language.operations import sum as sum
from tplimits.program.language.operations import tanh as tanh
from tplimits.program.language.operations import where as where
from tplimits.program.language.operations import width as width
from tplimits.program.language.trace import program as program
from tplimits.program.network.batches import Batches as Batches
from tplimits.program.network.batches import batches as batches
from tplimits.program.network.heads import Head as Head
from tplimits.program.network.losses import cross_entropy as cross_entropy
from tplimits.program.network.losses import squared_error as squared_error
from tplimits.program.network.network import block as block
from tplimits.program.network.network import network as network
from tplimits.program.network.network import readout as readout
from tplimits.program.network.network import stack as stack
from tplimits.program.nodes.program import Program as Program
from tplimits.program.optimizers.adaptive import Adagrad as Adagrad
from tplimits.program.optimizers.adaptive import Adam as Adam
from tplimits.program.optimizers.adaptive import NAdam as NAdam
from tplimits.program.optimizers.adaptive import RMSProp as RMSProp
from tplimits.program.optimizers.entrywise import Entrywise as Entrywise
from tplimits.program.optimizers.joint import Adafactor as Adafactor
from tplimits.program.optimizers.joint import Clipped as Clipped
from tplimits.program.optimizers.joint import Normalized as Normalized
from tplimits.program.optimizers.linear import SGD as SGD
from tplimits.program.optimizers.linear import Frozen as Frozen
from tplimits.program.optimizers.linear import SignSGD as SignSGD
from tplimits.program.parametrization.table import ABCD as ABCD
from tplimits.program.parametrization.table import MUP as MUP
from tplimits.program.parametrization.table import NTP as NTP
from tplimits.program.parametrization.table import SP as SP
from tplimits.program.parametrization.table import UP as UP
from tplimits.regimes.classification.classification import Classification as Classification
from tplimits.regimes.classification.classification import classify as classify
from tplimits.regimes.depth.expanded.limit import NumericSDE as NumericSDE
from tplimits.regimes.depth.limit import CovarianceSDE as CovarianceSDE
from tplimits.regimes.depth.limit import Proportional as Proportional
from tplimits.regimes.depth.tangent.limit import TangentSDE as TangentSDE
from tplimits.regimes.finite_width.limit import FiniteWidth as FiniteWidth
from tplimits.regimes.finite_width.limit import FiniteWidthLimit as FiniteWidthLimit
from tplimits.regimes.kernels.limit import KernelLimit as KernelLimit
from tplimits.regimes.kernels.limit import Kernels as Kernels
from tplimits.regimes.kernels.stored import StoredKernels as StoredKernels
from tplimits.regimes.kernels.stored import load_kernels as load_kernels
from tplimits.regimes.training.feature_learning import MaximalLimit as MaximalLimit
from tplimits.regimes.training.feature_learning import MaximalUpdate as MaximalUpdate
from tplimits.regimes.training.operator import NeuralTangent as NeuralTangent
from tplimits.regimes.training.operator import TangentLimit as TangentLimit
from tplimits.regimes.training.runs import TrainingRun as TrainingRun
from tplimits.regimes.width.limit import Width as Width
from tplimits.regimes.width.limit import WidthLimit as WidthLimit
from tplimits.torch.door import from_torch as from_torch
from tplimits.torch.door import load_plan as load_plan
from tplimits.torch.door import scaling as scaling
from tplimits.version import VERSION as __version__
from tplimits.watch.page import views as views
from tplimits.watch.recording import Recording as Recording
from tplimits.watch.recording import load_recording as load_recording
from tplimits.watch.watching import inf as inf
from tplimits.watch.watching import watch as watch

if not _TYPE_CHECKING:  # type checkers would take any name for one of the package

    def __getattr__(name: str) -> object:
        raise _elsewhere(name)

    def __dir__() -> list[str]:
        """What users call: stages of the package are modules that other stages have loaded."""
        modules = type(layers)
        used = ("layers", "sklearn", "views", "zoo")
        return sorted(n for n, v in globals().items() if n in used or not isinstance(v, modules) or n[0] == "_")
