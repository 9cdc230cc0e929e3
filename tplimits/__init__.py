"""tplimits: infinite-width limits of neural networks, derived, evaluated and checked.

The stages in reading order, each importing only those above it:

    errors      what can go wrong
    program     what runs at width n: tracing a Python function into instructions
    limit       what it becomes, exactly: kets, brackets, closed forms
    numeric     the number: exact, quadrature, particles
    check       is it true: the same program at finite widths
    report      what a person reads: text, LaTeX, HTML, plots
    results     derive(), check() and the result classes
    cli         the command line
"""

# the stage `tplimits.check`, and who reads it by this name, come before the function tp.check takes the name
import tplimits.check
import tplimits.results.classification
from tplimits.errors import CheckError as CheckError
from tplimits.errors import EvaluationError as EvaluationError
from tplimits.errors import NoLimitError as NoLimitError
from tplimits.errors import ProgramError as ProgramError
from tplimits.errors import TplimitsError as TplimitsError
from tplimits.program.annotations import Input as Input
from tplimits.program.annotations import Matrix as Matrix
from tplimits.program.annotations import Scalar as Scalar
from tplimits.program.annotations import State as State
from tplimits.program.annotations import Vector as Vector
from tplimits.program.annotations import init as init
from tplimits.program.block import block as block
from tplimits.program.block import stack as stack
from tplimits.program.loss import squared_error as squared_error
from tplimits.program.network import network as network
from tplimits.program.network import readout as readout
from tplimits.program.operations import abs as abs
from tplimits.program.operations import avg as avg
from tplimits.program.operations import clip as clip
from tplimits.program.operations import constant as constant
from tplimits.program.operations import cos as cos
from tplimits.program.operations import elementwise as elementwise
from tplimits.program.operations import erf as erf
from tplimits.program.operations import exp as exp
from tplimits.program.operations import expect as expect
from tplimits.program.operations import gelu as gelu
from tplimits.program.operations import leaky_relu as leaky_relu
from tplimits.program.operations import log as log
from tplimits.program.operations import maximum as maximum
from tplimits.program.operations import mean as mean
from tplimits.program.operations import minimum as minimum
from tplimits.program.operations import n as n
from tplimits.program.operations import neuron as neuron
from tplimits.program.operations import relu as relu
from tplimits.program.operations import sigmoid as sigmoid
from tplimits.program.operations import sign as sign
from tplimits.program.operations import sin as sin
from tplimits.program.operations import size as size
from tplimits.program.operations import softmax as softmax
from tplimits.program.operations import softplus as softplus
from tplimits.program.operations import sqrt as sqrt
from tplimits.program.operations import step as step
from tplimits.program.operations import sum as sum
from tplimits.program.operations import tanh as tanh
from tplimits.program.operations import where as where
from tplimits.program.operations import width as width
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
from tplimits.program.program import Program as Program
from tplimits.program.serial import from_json as from_json
from tplimits.program.serial import to_json as to_json
from tplimits.program.trace import program as program
from tplimits.results.check import check as check
from tplimits.results.classification import Classification as Classification
from tplimits.results.classification import classify as classify
from tplimits.results.derive import derive as derive
from tplimits.results.kernels import KernelLimit as KernelLimit
from tplimits.results.kernels import Kernels as Kernels
from tplimits.results.proportional import CovarianceSDE as CovarianceSDE
from tplimits.results.proportional import Proportional as Proportional
from tplimits.results.training.maximal import MaximalLimit as MaximalLimit
from tplimits.results.training.maximal import MaximalUpdate as MaximalUpdate
from tplimits.results.training.runs import TrainingRun as TrainingRun
from tplimits.results.training.tangent import NeuralTangent as NeuralTangent
from tplimits.results.training.tangent import TangentLimit as TangentLimit
from tplimits.results.width import Width as Width
from tplimits.results.width import WidthLimit as WidthLimit
from tplimits.version import VERSION as __version__
